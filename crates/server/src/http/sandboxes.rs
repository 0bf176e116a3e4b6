//! `/v1/sandboxes`: sandboxes that stay. Each is a session of this machine, owned by its own keeper: the server may be
//! killed, and finds them again.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use ringfence_policy::ProfileName;
use ringfence_sandbox::Sandbox;
use ringfence_service::remove_session;
use ringfence_service::workers::{CreateOrder, Order, Report};
use ringfence_store::{AuditEntry, NewSandbox, Quotas, Role, SandboxFilter, SandboxRow, SandboxState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::people::record_refusal;
use super::run::digest;
use super::wanted::{SandboxWanted, check_variables, directory};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::launch::Worker;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(get, delete))
        .routes(routes!(extend))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(stats))
}

/// A sandbox that stays.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CreateRequest {
    /// For people; one living sandbox of yours has it at a time.
    name: Option<String>,
    /// It ends after so long.
    #[schema(minimum = 1)]
    ttl_ms: Option<u64>,
    /// It ends when nothing was done in it for so long.
    #[schema(minimum = 1)]
    idle_ms: Option<u64>,
    /// The workspace is copy-on-write: see `diff` and `commit`.
    overlay: bool,
    /// Where its commands start.
    cwd: Option<String>,
    /// Variables of all its commands.
    env: BTreeMap<String, String>,
    /// Yours to give and to find it by.
    #[schema(value_type = Object)]
    labels: BTreeMap<String, String>,
    profile: Option<String>,
    #[schema(value_type = Option<Object>)]
    policy: Option<ringfence_policy::Layer>,
    network: Option<super::wanted::NetworkWanted>,
    workspace: Option<String>,
    files: Vec<super::wanted::FileWanted>,
    skills: bool,
    trace: bool,
    strict: bool,
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
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Of everybody: for admins.
    #[serde(default)]
    all: bool,
}

/// Make a sandbox.
#[utoipa::path(
    post, path = "/sandboxes", tag = "sandboxes", request_body = CreateRequest,
    responses(
        (status = 201, description = "It is alive", body = SandboxAnswer),
        (status = "4XX", description = "Nothing was made", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Body(request): Body<CreateRequest>,
) -> Answer<(StatusCode, Json<SandboxAnswer>)> {
    match begin(&app, &caller, request).await {
        Ok((order, policy_digest)) => {
            // Goes on if the client goes away meanwhile: what was begun is finished or taken back.
            let making = tokio::spawn(make(app, caller, request_id, order, policy_digest));
            let answer = making.await.map_err(|error| ApiError::internal("make a sandbox", error))??;
            Ok((StatusCode::CREATED, Json(answer)))
        }
        Err(error) => {
            record_refusal(&app, &caller, &request_id, "sandbox.create", &error).await?;
            Err(error)
        }
    }
}

/// Check what is asked for, and write it down as being made.
async fn begin(app: &Shared, caller: &Caller, request: CreateRequest) -> Answer<(CreateOrder, String)> {
    caller.needs(Role::Operator)?;
    check_variables(&request.env)?;
    let mut policy = request.policy.unwrap_or_default();
    policy.environment.set.extend(request.env);
    let profile = request.profile.clone().or(policy.profile.map(|profile| profile.to_string()));
    let wanted = SandboxWanted {
        profile: request.profile,
        policy: Some(policy),
        network: request.network,
        workspace: request.workspace,
        files: request.files,
        skills: request.skills,
        trace: request.trace,
        strict: request.strict,
    };
    let mut sandbox = wanted.order(app, caller, None)?;
    sandbox.directory = directory(request.cwd)?;
    let policy_digest = digest(&sandbox.layers)?;
    let id = Uuid::now_v7().simple().to_string();
    let quotas = Quotas {
        of_user: app.config.role(caller.role).quotas.sandboxes,
        in_all: app.config.server.sandboxes,
    };
    let new = NewSandbox {
        id: id.clone(),
        user: caller.user.clone(),
        name: request.name,
        profile: profile.unwrap_or_else(|| ProfileName::default().to_string()),
        workspace: sandbox.workspace.clone(),
        labels: json!(request.labels),
    };
    app.store.add_sandbox(new, quotas).await?;
    let order = CreateOrder {
        sandbox,
        name: id.clone(),
        ttl: request.ttl_ms.map(Duration::from_millis),
        idle: request.idle_ms.map(Duration::from_millis),
        overlay: request.overlay,
        asked: vec!["server".into(), caller.user.clone()],
    };
    Ok((order, policy_digest))
}

async fn make(
    app: Shared,
    caller: Caller,
    request_id: RequestId,
    order: CreateOrder,
    policy_digest: String,
) -> Answer<SandboxAnswer> {
    let id = order.name.clone();
    let order = Order::Create(Box::new(order));
    let made = async {
        match Worker::silent(&app.launcher, &order).await?.report().await? {
            Report::Created(report) => Ok(report),
            _ => Err(ApiError::internal("understand a worker", "it reported on something else")),
        }
    };
    let entry = |result: Value| AuditEntry {
        at: crate::now(),
        user: caller.user.clone(),
        kind: "sandbox.create".into(),
        target: Some(id.clone()),
        decision: Some("allow".into()),
        policy_digest: Some(policy_digest.clone()),
        receipt_digest: None,
        denials: Value::Array(Vec::new()),
        result,
        request_id: Some(request_id.0.clone()),
        origin: Some("http".into()),
    };
    match made.await {
        Ok(report) => {
            app.store.sandbox_is_alive(&id).await?;
            app.record(entry(json!({ "state": "alive" }))).await?;
            app.metrics.sandboxes.inc();
            let row = app.store.sandbox(&id).await?.ok_or_else(|| ApiError::not_found("sandbox", &id))?;
            let mut answer = SandboxAnswer::from(row);
            answer.notes = report.warnings.into_iter().chain(report.notes).collect();
            Ok(answer)
        }
        Err(error) => {
            app.store.forget_sandbox(&id).await?;
            app.record(entry(json!({ "error": error.code }))).await?;
            Err(error)
        }
    }
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
    let limit = query.limit.unwrap_or(100).clamp(1, 1000);
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
    let row = app.store.sandbox(&id).await?.ok_or_else(missing)?;
    if row.user != caller.user && caller.role != Role::Admin {
        return Err(missing());
    }
    let status = match row.state {
        SandboxState::Alive => {
            let (_, sandbox) = app.sandbox(&caller, &id).await?;
            blocking(move || Ok(sandbox.status().ok())).await?
        }
        _ => None,
    };
    let status = status.map(|status| json!(status));
    Ok(Json(SandboxWhole { row: row.into(), status }))
}

/// End a sandbox, and take away all but its workspace.
#[utoipa::path(
    delete, path = "/sandboxes/{id}", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 204, description = "Nothing of it is left"), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    caller.needs(Role::Operator)?;
    let (_, _) = app.sandbox(&caller, &id).await?;
    let places = app.places.clone();
    let name = id.clone();
    let notes = blocking(move || Ok(remove_session(&places, &name)?)).await?;
    app.store.sandbox_ended(&id, "deleted").await?;
    app.metrics.sandboxes.dec();
    app.record(AuditEntry {
        at: crate::now(),
        user: caller.user,
        kind: "sandbox.delete".into(),
        target: Some(id),
        decision: Some("allow".into()),
        policy_digest: None,
        receipt_digest: None,
        denials: Value::Array(Vec::new()),
        result: json!({ "notes": notes }),
        request_id: Some(request_id.0),
        origin: Some("http".into()),
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExtendRequest {
    /// From now.
    #[schema(minimum = 1)]
    ttl_ms: Option<u64>,
    #[schema(minimum = 1)]
    idle_ms: Option<u64>,
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
    let millis = |time: Option<u64>| time.map(Duration::from_millis);
    let (ttl, idle) = (millis(request.ttl_ms), millis(request.idle_ms));
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
