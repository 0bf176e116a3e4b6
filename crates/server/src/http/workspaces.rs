//! `/v1/workspaces`: directories that outlive sandboxes, each user's own.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use ringfence_service::{WorkspaceRow, list_workspaces, remove_workspace};
use ringfence_store::Role;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::people::entry;
use super::wanted::workspace_name;
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::Named;
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get, delete))
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

async fn own(app: &Shared, caller: &Caller) -> Answer<Vec<WorkspaceAnswer>> {
    let places = app.places.clone();
    let rows = blocking(move || Ok(list_workspaces(&places)?)).await?;
    let prefix = format!("{}/", caller.user);
    let answer = |row: WorkspaceRow| {
        let name = row.name.strip_prefix(&prefix)?.to_owned();
        let WorkspaceRow { bytes, files, limit, sessions, .. } = row;
        Some(WorkspaceAnswer { name, bytes, files, limit, sandboxes: sessions })
    };
    Ok(rows.into_iter().filter_map(answer).collect())
}

/// Your workspaces.
#[utoipa::path(get, path = "/workspaces", tag = "workspaces", responses((status = 200, body = Vec<WorkspaceAnswer>), (status = "4XX", body = ErrorBody)))]
pub(crate) async fn list(State(app): State<Shared>, caller: Caller) -> Answer<Json<Vec<WorkspaceAnswer>>> {
    Ok(Json(own(&app, &caller).await?))
}

/// One of your workspaces, with what it holds.
#[utoipa::path(
    get, path = "/workspaces/{name}", tag = "workspaces", params(("name" = String, Path)),
    responses((status = 200, body = WorkspaceAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Named(name): Named<String>,
) -> Answer<Json<WorkspaceAnswer>> {
    let found = own(&app, &caller).await?.into_iter().find(|row| row.name == name);
    Ok(Json(found.ok_or_else(|| ApiError::not_found("workspace", &name))?))
}

/// Remove a workspace with all its files. Refused while a sandbox lives in it.
#[utoipa::path(
    delete, path = "/workspaces/{name}", tag = "workspaces", params(("name" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(name): Named<String>,
) -> Answer<StatusCode> {
    caller.needs(Role::Operator)?;
    if !own(&app, &caller).await?.iter().any(|row| row.name == name) {
        return Err(ApiError::not_found("workspace", &name));
    }
    let Some(whole) = workspace_name(&caller, Some(&name))? else {
        return Err(ApiError::not_found("workspace", &name));
    };
    let places = app.places.clone();
    blocking(move || Ok(remove_workspace(&places, &whole)?)).await?;
    app.record(entry(&caller, &request_id, "workspace.delete", Some(name), Value::Null)).await?;
    Ok(StatusCode::NO_CONTENT)
}
