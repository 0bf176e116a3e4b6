//! `/v1/workspaces`: directories that outlive sandboxes, each user's own.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ringfence_policy::ActionKind;
use ringfence_service::{WorkspaceRow, remove_workspace, workspaces_named};
use ringfence_store::{Outcome, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::ActionAnswer;
use super::bounds::PageLimit;
use super::pages::page;
use super::people::entry;
use super::snapshots::owner;
use crate::actions::{Claim, Intent, pass};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Asked, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, delete))
        .routes(routes!(usage_of))
        .routes(routes!(usage))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkspaceAnswer {
    name: String,
    /// What its files take up.
    bytes: u64,
    files: u64,
    limit: Option<u64>,
    /// Sandboxes that live in it.
    sandboxes: Vec<String>,
}

/// Those of one user, or the one of that name. Nobody else's files are looked at.
async fn of(app: &Shared, user: &str, named: Option<&str>) -> Answer<Vec<WorkspaceAnswer>> {
    let (places, prefix) = (app.places.clone(), format!("{user}/"));
    let (theirs, only) = (prefix.clone(), named.map(|name| format!("{prefix}{name}")));
    let wanted = move |name: &str| match &only {
        Some(only) => only == name,
        None => name.starts_with(&theirs),
    };
    let rows = blocking(move || Ok(workspaces_named(&places, wanted)?)).await?;
    let answer = |row: WorkspaceRow| {
        let name = row.name.strip_prefix(&prefix)?.to_owned();
        let WorkspaceRow { bytes, files, limit, sessions, .. } = row;
        Some(WorkspaceAnswer { name, bytes, files, limit, sandboxes: sessions })
    };
    Ok(rows.into_iter().filter_map(answer).collect())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// `next` of the page before.
    after: Option<String>,
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<PageLimit>,
    /// Somebody else's: for admins.
    user: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UserQuery {
    /// Somebody else's: for admins.
    user: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteQuery {
    /// Somebody else's: for admins.
    user: Option<String>,
    /// The action that was approved for exactly this request.
    action: Option<String>,
    /// Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkspacePage {
    workspaces: Vec<WorkspaceAnswer>,
    /// For `after` of the next page; null at the end.
    next: Option<String>,
}

/// Your workspaces, by name.
#[utoipa::path(
    get, path = "/workspaces", tag = "workspaces", params(ListQuery),
    responses((status = 200, body = WorkspacePage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Asked(query): Asked<ListQuery>,
) -> Answer<Json<WorkspacePage>> {
    let rows = of(&app, &owner(&caller, query.user)?, None).await?;
    let (workspaces, next) = page(rows, query.after.as_deref(), query.limit, |row| row.name.clone())?;
    Ok(Json(WorkspacePage { workspaces, next }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeldAnswer {
    /// What your workspaces, snapshots and sandboxes take up on disk together.
    bytes: u64,
    files: u64,
    /// What they may take up: beyond it nothing more is written, and commands that write are ended.
    limit: u64,
}

/// What you hold on the server's disk, and may.
#[utoipa::path(
    get, path = "/usage", tag = "workspaces",
    responses((status = 200, body = HeldAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn usage(State(app): State<Shared>, caller: Caller) -> Answer<Json<HeldAnswer>> {
    let held = app.held(&caller.user).await?;
    Ok(Json(HeldAnswer { bytes: held.bytes, files: held.files, limit: held.limit }))
}

/// What one of your workspaces holds.
#[utoipa::path(
    get, path = "/workspaces/{name}/usage", tag = "workspaces", params(("name" = String, Path), UserQuery),
    responses((status = 200, body = WorkspaceUsage), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn usage_of(
    State(app): State<Shared>,
    caller: Caller,
    Named(name): Named<String>,
    Asked(query): Asked<UserQuery>,
) -> Answer<Json<WorkspaceUsage>> {
    let row = of(&app, &owner(&caller, query.user)?, Some(&name)).await?.pop();
    let row = row.ok_or_else(|| ApiError::not_found("workspace", &name))?;
    Ok(Json(WorkspaceUsage { bytes: row.bytes, files: row.files }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkspaceUsage {
    bytes: u64,
    files: u64,
}

/// One of your workspaces, with what it holds.
#[utoipa::path(
    get, path = "/workspaces/{name}", tag = "workspaces", params(("name" = String, Path), UserQuery),
    responses((status = 200, body = WorkspaceAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Named(name): Named<String>,
    Asked(query): Asked<UserQuery>,
) -> Answer<Json<WorkspaceAnswer>> {
    let found = of(&app, &owner(&caller, query.user)?, Some(&name)).await?.pop();
    Ok(Json(found.ok_or_else(|| ApiError::not_found("workspace", &name))?))
}

/// Remove a workspace with all its files. Refused while a sandbox lives in it.
#[utoipa::path(
    delete, path = "/workspaces/{name}", tag = "workspaces", params(("name" = String, Path), DeleteQuery),
    responses(
        (status = 204),
        (status = 202, description = "Nothing was removed: a person has to approve this action first", body = ActionAnswer),
        (status = "4XX", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(name): Named<String>,
    Asked(query): Asked<DeleteQuery>,
) -> Answer<Response> {
    caller.needs(Role::Operator)?;
    let user = owner(&caller, query.user)?;
    // Only what is there has a name that leads anywhere.
    if of(&app, &user, Some(&name)).await?.is_empty() {
        return Err(ApiError::not_found("workspace", &name));
    }
    let whole = format!("{user}/{name}");
    let kind = ActionKind::WorkspaceDelete;
    let claim = Claim { action: query.action, wait_ms: query.wait_ms };
    let intent = Intent::about(kind, &name, &whole, json!({ "workspace": name, "user": user }), claim)?;
    let intent = intent.asked_by(&app, &caller, &user);
    let pass = match pass(&app, &caller, &request_id, intent).await? {
        Ok(pass) => pass,
        Err(waiting) => return Ok(waiting),
    };
    let places = app.places.clone();
    blocking(move || Ok(remove_workspace(&places, &whole)?)).await?;
    let mut told = json!({ "user": user });
    pass.add_to(&mut told);
    app.record(entry(&caller, &request_id, kind.as_str(), Some(name), told)).await?;
    pass.finish(Outcome::Done, Value::Null).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
