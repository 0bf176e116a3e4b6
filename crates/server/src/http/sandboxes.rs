//! `/v1/sandboxes`: sandboxes that stay. Each is a session of this machine, owned by its own keeper: the server may be
//! killed, and finds them again.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::ActionKind;
use ringfence_sandbox::Sandbox;
use ringfence_service::remove_session;
use ringfence_service::workers::CreateReport;
use ringfence_store::{Outcome, Role, SandboxFilter, SandboxRow, SandboxState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::{ActionAnswer, ClaimQuery};
use super::bounds::{Millis, PageLimit};
use super::pages::page_size;
use super::people::entry_in;
use crate::actions::{Claim, Intent, pass};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::traffic::traffic_of;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, delete))
        .routes(routes!(extend))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(stats))
}

/// A sandbox, as lists show it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxAnswer {
    id: String,
    user: String,
    name: Option<String>,
    /// making, alive or ended
    state: String,
    profile: String,
    workspace: Option<String>,
    /// Milliseconds since 1970, as all times here.
    created: i64,
    ended: Option<i64>,
    ended_why: Option<String>,
    #[schema(value_type = Object)]
    labels: Value,
    /// What this host could not enforce, and what else to know: only in the answer to its making.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl From<SandboxRow> for SandboxAnswer {
    fn from(row: SandboxRow) -> Self {
        Self {
            id: row.id,
            user: row.user,
            name: row.name,
            state: row.state.to_string(),
            profile: row.profile,
            workspace: row.workspace.map(|name| name.rsplit('/').next().unwrap_or_default().to_owned()),
            created: row.created,
            ended: row.ended,
            ended_why: row.ended_why,
            labels: row.labels,
            notes: Vec::new(),
        }
    }
}

impl SandboxAnswer {
    /// One that was just made.
    pub(super) fn made(row: SandboxRow, report: CreateReport) -> Self {
        let notes = report.warnings.into_iter().chain(report.notes).collect();
        Self { notes, ..Self::from(row) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxPage {
    sandboxes: Vec<SandboxAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// making, alive or ended
    state: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<PageLimit>,
    /// Of everybody: for admins.
    #[serde(default)]
    all: bool,
}

/// Your sandboxes, the newest first.
#[utoipa::path(
    get, path = "/sandboxes", tag = "sandboxes", params(ListQuery),
    responses((status = 200, body = SandboxPage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<ListQuery>,
) -> Answer<Json<SandboxPage>> {
    if query.all {
        caller.needs(Role::Admin)?;
    }
    let state = query
        .state
        .as_deref()
        .map(str::parse::<SandboxState>)
        .transpose()
        .map_err(|error| ApiError::bad(error.to_string(), "name one of the states"))?;
    let limit = page_size(query.limit);
    let filter =
        SandboxFilter { user: (!query.all).then_some(caller.user), state, after: query.after, limit };
    let rows = app.store.sandboxes(&filter).await?;
    let next = (rows.len() as u32 == limit).then(|| rows.last().map(|row| row.id.clone())).flatten();
    Ok(Json(SandboxPage { sandboxes: rows.into_iter().map(Into::into).collect(), next }))
}

/// A sandbox whole: what it may do, how that is enforced, what was blocked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxWhole {
    #[serde(flatten)]
    row: SandboxAnswer,
    /// What its keeper tells: policy, receipt, processes; null when it has ended.
    #[schema(value_type = Option<Object>)]
    status: Option<Value>,
}

/// One sandbox.
#[utoipa::path(
    get, path = "/sandboxes/{id}", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 200, body = SandboxWhole), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<SandboxWhole>> {
    let missing = || ApiError::not_found("sandbox", &id);
    let mut row = app.store.sandbox(&id).await?.ok_or_else(missing)?;
    if row.user != caller.user && caller.role != Role::Admin {
        return Err(missing());
    }
    let mut status = None;
    if row.state == SandboxState::Alive {
        match app.sandbox(&caller, &id).await {
            Ok((_, sandbox)) => status = blocking(move || Ok(sandbox.status().ok())).await?,
            // It has ended since.
            Err(error) if error.status == StatusCode::GONE => {
                row = app.store.sandbox(&id).await?.ok_or_else(missing)?;
            }
            Err(error) => return Err(error),
        }
    }
    let status = status.map(|status| app.mask.value(json!(status)));
    Ok(Json(SandboxWhole { row: row.into(), status }))
}

/// End a sandbox, and take away all but its workspace.
#[utoipa::path(
    delete, path = "/sandboxes/{id}", tag = "sandboxes", params(("id" = String, Path), ClaimQuery),
    responses(
        (status = 204, description = "Nothing of it is left"),
        (status = 202, description = "It lives on: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Asked(query): Asked<ClaimQuery>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let (row, sandbox) = app.kept_sandbox(&caller, &id).await?;
    let kind = ActionKind::SandboxDelete;
    let claim = Claim { action: query.action, wait_ms: query.wait_ms };
    let mut intent = Intent::in_sandbox(kind, &id, &"delete", claim)?;
    intent.shown = json!({ "sandbox": id, "name": row.name, "user": row.user });
    intent.target = Some(id.clone());
    // An admin who ends what runs wild does what admins are there for: no more than its owner would.
    let intent = intent.asked_by(&app, &caller, &caller.user);
    let pass = match pass(&app, &caller, &request_id, intent).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let places = app.places_of(&row.user)?;
    let name = id.clone();
    let deleting = app.endings.delete(&id);
    let (notes, traffic) = blocking(move || {
        // Once it has ended, and before nothing is known of it any more.
        let notes = sandbox.end_whole()?;
        let traffic = traffic_of(&sandbox);
        remove_session(&places, &name)?;
        Ok((notes, traffic))
    })
    .await?;
    app.traffic.add(&id, traffic, &app.metrics);
    if app.store.sandbox_ended(&id, "deleted").await? {
        app.metrics.sandboxes.dec();
    }
    app.endings.forget(&id);
    drop(deleting);
    app.store.decisions().forget_session(&id).await?;
    let mut told = json!({ "notes": notes });
    pass.add_to(&mut told);
    app.left.end_with(&app.store, &row, "deleted").await?;
    app.record(entry_in(&app, &caller, &request_id, kind.as_str(), &id, told).await?).await?;
    pass.finish(Outcome::Done, Value::Null).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExtendRequest {
    /// From now.
    #[schema(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
    #[schema(value_type = Option<u64>, minimum = 1)]
    idle_ms: Option<Millis>,
}

/// Let a sandbox live longer.
#[utoipa::path(
    post, path = "/sandboxes/{id}/extend", tag = "sandboxes", params(("id" = String, Path)), request_body = ExtendRequest,
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn extend(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
    Body(request): Body<ExtendRequest>,
) -> Answer<StatusCode> {
    let (ttl, idle) = (request.ttl_ms.map(Millis::span), request.idle_ms.map(Millis::span));
    asked(&app, &caller, &id, move |sandbox| Ok(sandbox.extend(ttl, idle)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stop every process of a sandbox until it is resumed.
#[utoipa::path(
    post, path = "/sandboxes/{id}/pause", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn pause(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    asked(&app, &caller, &id, |sandbox| Ok(sandbox.pause()?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Let a paused sandbox go on.
#[utoipa::path(
    post, path = "/sandboxes/{id}/resume", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn resume(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    asked(&app, &caller, &id, |sandbox| Ok(sandbox.resume()?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a sandbox uses: processors, memory, processes, disk, network.
#[utoipa::path(
    get, path = "/sandboxes/{id}/stats", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 200, body = Object), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn stats(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<Value>> {
    let (_, sandbox) = app.sandbox(&caller, &id).await?;
    let stats = blocking(move || Ok(sandbox.stats()?)).await?;
    Ok(Json(json!(stats)))
}

/// One call to the keeper of a sandbox, for whoever may change it.
pub(crate) async fn asked<T: Send + 'static>(
    app: &Shared,
    caller: &Caller,
    id: &str,
    call: impl FnOnce(Sandbox) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    caller.needs(Role::Operator)?;
    let (_, sandbox) = app.sandbox(caller, id).await?;
    blocking(move || call(sandbox)).await
}
