//! `/v1/actions`: what waits for a person, and what became of it.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::StreamExt;
use ringfence_store::{ActionFilter, ActionRow, ActionState, Decision, Remembered, Role, Scope};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::bounds::PageLimit;
use super::creation::CreateRequest;
use super::exec::{ExecRequest, exec_intent};
use super::files::delete_intent;
use super::pages::{page, page_size};
use super::people::PageQuery;
use super::run::RunRequest;
use crate::actions::{
    Decider, Intent, cancel_action, decide_action, expire_actions, follow, forget_decision,
    submit as submit_intent,
};
use crate::app::Shared;
use crate::auth::Caller;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::refusals::record_refusal;
use crate::standing::until_revoked;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(submit, list))
        .routes(routes!(events))
        .routes(routes!(remembered))
        .routes(routes!(forget))
        .routes(routes!(get))
        .routes(routes!(approve))
        .routes(routes!(deny))
        .routes(routes!(cancel))
}

const LONGEST_REASON: usize = 4096;

/// What a request that has no body says about its approval.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ClaimQuery {
    /// The action that was approved for exactly this request.
    pub(crate) action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    pub(crate) wait_ms: Option<u64>,
}

/// Something that somebody wants to do, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ActionAnswer {
    id: String,
    user: String,
    /// run, exec, sandbox.create, file.delete, …
    #[schema(example = "run")]
    kind: String,
    /// low, medium, high or critical
    #[schema(example = "high")]
    level: String,
    /// waiting, approved, denied, cancelled, expired, running, done or failed
    #[schema(example = "waiting")]
    state: String,
    summary: String,
    /// Why it is of this level, the weightiest first.
    reasons: Vec<String>,
    /// Exactly what would be done: command, policy, digests of files. Values that look like credentials are masked.
    #[schema(value_type = Object)]
    request: Value,
    /// Of all of that. Only what has this digest is begun.
    digest: String,
    sandbox: Option<String>,
    created: i64,
    /// Until then it waits for a decision, and once approved for its submitter.
    expires: i64,
    decided_by: Option<String>,
    decided_at: Option<i64>,
    decided_why: Option<String>,
    /// How long the approval holds: once, session, hour or always.
    remember: Option<String>,
    finished: Option<i64>,
    #[schema(value_type = Option<Object>)]
    result: Option<Value>,
}

impl From<ActionRow> for ActionAnswer {
    fn from(mut row: ActionRow) -> Self {
        Self {
            id: row.id,
            user: row.user,
            kind: row.kind,
            level: row.level.to_string(),
            state: row.state.to_string(),
            summary: row.summary,
            reasons: row.reasons,
            sandbox: row.request["sandbox"].as_str().map(str::to_owned),
            request: row.request["shown"].take(),
            digest: row.digest,
            created: row.created,
            expires: row.expires,
            decided_by: row.decided_by,
            decided_at: row.decided_at,
            decided_why: row.decided_why,
            remember: row.scope.map(|scope| scope.to_string()),
            finished: row.finished,
            result: row.result,
        }
    }
}

/// One of these: what the route of that name would be sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitRequest {
    run: Option<RunRequest>,
    create: Option<CreateRequest>,
    exec: Option<ExecSubmit>,
    delete: Option<DeleteSubmit>,
}

/// A command in a sandbox that is there.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecSubmit {
    sandbox: String,
    request: ExecRequest,
}

/// A file or directory of a sandbox, to be removed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteSubmit {
    sandbox: String,
    path: String,
    #[serde(default)]
    recursive: bool,
}

impl SubmitRequest {
    async fn intent(self, app: &Shared, caller: &Caller) -> Answer<Intent> {
        match self {
            Self { run: Some(run), create: None, exec: None, delete: None } => run.intent(app, caller).await,
            Self { run: None, create: Some(create), exec: None, delete: None } => create.intent(app, caller),
            Self { run: None, create: None, exec: Some(exec), delete: None } => {
                exec_intent(app, caller, &exec.sandbox, exec.request).await
            }
            Self { run: None, create: None, exec: None, delete: Some(delete) } => {
                delete_intent(app, caller, &delete.sandbox, &delete.path, delete.recursive).await
            }
            _ => Err(ApiError::bad(
                "it is not clear what is submitted",
                "give exactly one of `run`, `create`, `exec` and `delete`",
            )),
        }
    }
}

/// Submit something for approval without doing it. Once it is approved, send the same to its own route with `action`.
#[utoipa::path(
    post, path = "/actions", tag = "actions", request_body = SubmitRequest,
    responses((status = 201, description = "It waits, or a rule has approved it", body = ActionAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn submit(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<SubmitRequest>,
) -> Answer<(StatusCode, Json<ActionAnswer>)> {
    let submitted = async {
        caller.needs(Role::Operator)?;
        let intent = request.intent(&app, &caller).await?;
        submit_intent(&app, &caller, &request_id, intent).await
    };
    match submitted.await {
        Ok(row) => Ok((StatusCode::CREATED, Json(row.into()))),
        Err(error) => Err(record_refusal(&app, &caller, &request_id, "action.submit", error).await?),
    }
}

/// Whose actions a caller sees; None is everybody's.
fn seen_by(caller: &Caller) -> Option<String> {
    let decides = caller.role.covers(Role::Approver);
    (!decides).then(|| caller.user.clone())
}

async fn visible(app: &Shared, caller: &Caller, id: &str) -> Answer<ActionRow> {
    let row = app.store.action(id).await?;
    let row = row.filter(|row| seen_by(caller).is_none_or(|user| user == row.user));
    row.ok_or_else(|| ApiError::not_found("action", id))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActionsQuery {
    /// waiting, approved, denied, cancelled, expired, running, done or failed
    state: Option<String>,
    /// Whose; for approvers and admins.
    user: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<PageLimit>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ActionPage {
    actions: Vec<ActionAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// Your actions, the newest first; everybody's, for approvers and admins.
#[utoipa::path(
    get, path = "/actions", tag = "actions", params(ActionsQuery),
    responses((status = 200, body = ActionPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<ActionsQuery>,
) -> Answer<Json<ActionPage>> {
    let state = query
        .state
        .as_deref()
        .map(str::parse::<ActionState>)
        .transpose()
        .map_err(|error| ApiError::bad(error.to_string(), "name one of the states"))?;
    let user = match (seen_by(&caller), query.user) {
        (None, user) => user,
        (Some(own), Some(user)) if user != own => {
            return Err(ApiError::forbidden("these actions are somebody else's", "leave `user` out"));
        }
        (own, _) => own,
    };
    expire_actions(&app.store).await?;
    let limit = page_size(query.limit);
    let rows = app.store.actions(&ActionFilter { user, state, after: query.after, limit }).await?;
    let next = (rows.len() as u32 == limit).then(|| rows.last().map(|row| row.id.clone())).flatten();
    Ok(Json(ActionPage { actions: rows.into_iter().map(Into::into).collect(), next }))
}

/// One action: what would be done, why it is of its level, who decided.
#[utoipa::path(
    get, path = "/actions/{id}", tag = "actions", params(("id" = String, Path)),
    responses((status = 200, body = ActionAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<ActionAnswer>> {
    expire_actions(&app.store).await?;
    Ok(Json(visible(&app, &caller, &id).await?.into()))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DecideRequest {
    /// How long an approval holds for exactly the same by the same user: once (the default), session, hour or always.
    remember: Option<String>,
    /// For whoever asked.
    reason: Option<String>,
}

/// Approve what waits. Nobody approves their own high or critical action.
#[utoipa::path(
    post, path = "/actions/{id}/approve", tag = "actions", params(("id" = String, Path)), request_body = DecideRequest,
    responses((status = 200, body = ActionAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn approve(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<DecideRequest>,
) -> Answer<Json<ActionAnswer>> {
    decide(&app, &caller, &request_id, &id, Decision::Approve, request).await
}

/// Deny what waits.
#[utoipa::path(
    post, path = "/actions/{id}/deny", tag = "actions", params(("id" = String, Path)), request_body = DecideRequest,
    responses((status = 200, body = ActionAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn deny(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<DecideRequest>,
) -> Answer<Json<ActionAnswer>> {
    if request.remember.as_deref().is_some_and(|scope| scope != Scope::Once.as_str()) {
        return Err(ApiError::bad(
            "a denial is not remembered",
            "leave `remember` out; a rule can deny for good",
        ));
    }
    decide(&app, &caller, &request_id, &id, Decision::Deny, request).await
}

fn decider(caller: &Caller, request_id: &RequestId) -> Decider {
    Decider {
        name: caller.user.clone(),
        key: caller.key.clone(),
        origin: "http",
        request_id: Some(request_id.0.clone()),
    }
}

async fn decide(
    app: &Shared,
    caller: &Caller,
    request_id: &RequestId,
    id: &str,
    decision: Decision,
    request: DecideRequest,
) -> Answer<Json<ActionAnswer>> {
    let decided = async {
        caller.needs(Role::Approver)?;
        let remember = request.remember.as_deref().unwrap_or(Scope::Once.as_str());
        let remember = remember
            .parse::<Scope>()
            .map_err(|error| ApiError::bad(error.to_string(), "say once, session, hour or always"))?;
        // It is in the audit, for ever.
        if request.reason.as_ref().is_some_and(|reason| reason.len() > LONGEST_REASON) {
            return Err(ApiError::bad("the reason is too long", "say it in 4096 bytes or less"));
        }
        let by = decider(caller, request_id);
        Ok(decide_action(&app.store, &by, id, decision, remember, request.reason.as_deref()).await?)
    };
    match decided.await {
        Ok(row) => {
            app.actions.tell();
            Ok(Json(row.into()))
        }
        Err(error) => Err(record_refusal(app, caller, request_id, "action.decide", error).await?),
    }
}

/// Take back an action of yours that waits, or that was approved and has not begun. Admins: anybody's.
#[utoipa::path(
    post, path = "/actions/{id}/cancel", tag = "actions", params(("id" = String, Path)),
    responses((status = 200, body = ActionAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn cancel(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
) -> Answer<Json<ActionAnswer>> {
    let row = visible(&app, &caller, &id).await?;
    caller.needs(if row.user == caller.user { Role::Operator } else { Role::Admin })?;
    let row = cancel_action(&app.store, &decider(&caller, &request_id), &id).await?;
    app.actions.tell();
    Ok(Json(row.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Begin after this event; 0 is the first there is. Without it, and without `Last-Event-ID`, only news are told.
    #[param(minimum = 0)]
    after: Option<i64>,
}

/// What happens to actions, as it happens: yours, or everybody's for approvers and admins.
///
/// Server-Sent Events named `action`, with a number as their id: `{"action","user","state","by","at","kind","level","summary"}`.
/// `Last-Event-ID` goes on after that one, also after a restart of the server.
#[utoipa::path(
    get, path = "/actions/events", tag = "actions", params(EventsQuery),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = String),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn events(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Asked(query): Asked<EventsQuery>,
) -> Answer<Response> {
    let last = match headers.get("last-event-id") {
        Some(value) => {
            Some(value.to_str().ok().and_then(|text| text.parse::<i64>().ok()).ok_or_else(|| {
                ApiError::bad(
                    "that is no Last-Event-ID of this stream",
                    "send the id of the last event you had",
                )
            })?)
        }
        None => query.after,
    };
    let after = match last {
        Some(last) => last,
        None => app.store.last_event().await?,
    };
    let user = seen_by(&caller);
    let held = app.hold(&caller)?;
    let events = follow(app.clone(), after, user, held).take_until(until_revoked(app, caller));
    let stream = Sse::new(events).keep_alive(KeepAlive::default());
    Ok(([("x-accel-buffering", "no")], stream).into_response())
}

/// An approval that holds for more than one action.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RememberedAnswer {
    id: String,
    user: String,
    kind: String,
    /// Of exactly what it holds for.
    digest: String,
    /// session, hour or always
    scope: String,
    sandbox: Option<String>,
    until: Option<i64>,
    /// Who approved.
    by: String,
    made: i64,
}

impl RememberedAnswer {
    fn cursor(&self) -> String {
        format!("{:020}.{}", self.made, self.id)
    }
}

impl From<Remembered> for RememberedAnswer {
    fn from(row: Remembered) -> Self {
        Self {
            id: row.id,
            user: row.user,
            kind: row.kind,
            digest: row.shape,
            scope: row.scope.to_string(),
            sandbox: row.session,
            until: row.until,
            by: row.by,
            made: row.made,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RememberedPage {
    remembered: Vec<RememberedAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// Approvals that are remembered, the oldest first: for your actions, or for everybody's if you may decide.
#[utoipa::path(
    get, path = "/actions/remembered", tag = "actions", params(PageQuery),
    responses((status = 200, body = RememberedPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn remembered(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Answer<Json<RememberedPage>> {
    app.store.decisions().purge().await?;
    let rows = app.store.decisions().list(seen_by(&caller).as_deref()).await?;
    let rows = rows.into_iter().map(RememberedAnswer::from).collect();
    let (remembered, next) = page(rows, query.after.as_deref(), query.limit, RememberedAnswer::cursor)?;
    Ok(Json(RememberedPage { remembered, next }))
}

/// Withdraw an approval that is remembered. What has begun goes on.
#[utoipa::path(
    delete, path = "/actions/remembered/{id}", tag = "actions", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn forget(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    let rows = app.store.decisions().list(seen_by(&caller).as_deref()).await?;
    let row = rows.iter().find(|row| row.id == id);
    let row = row.ok_or_else(|| ApiError::not_found("remembered approval", &id))?;
    caller.needs(if row.user == caller.user { Role::Operator } else { Role::Approver })?;
    forget_decision(&app.store, &decider(&caller, &request_id), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
