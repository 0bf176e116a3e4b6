//! Whether the server is well: for people, for orchestrators, for Prometheus.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ringfence_store::{Role, SandboxFilter, SandboxState};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::auth::Caller;
use crate::error::{Answer, ApiError, ErrorBody};

/// Behind a key.
pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(status)).routes(routes!(metrics))
}

/// For whoever starts and stops servers.
pub(crate) fn open_routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusAnswer {
    version: &'static str,
    uptime_ms: u64,
    /// Yours; of everybody, for admins.
    sandboxes: usize,
    commands_running: i64,
    streams: usize,
    /// Why the audit's anchors can't follow, if so.
    audit_trouble: Option<String>,
}

/// How the server is.
#[utoipa::path(get, path = "/status", tag = "status", responses((status = 200, body = StatusAnswer), (status = "4XX", body = ErrorBody)))]
pub(crate) async fn status(State(app): State<Shared>, caller: Caller) -> Answer<Json<StatusAnswer>> {
    let admin = caller.role == Role::Admin;
    let (commands_running, streams) = match admin {
        true => (app.metrics.running.get(), app.streams.count()),
        false => (app.commands_of.of(&caller.user) as i64, app.held.of(&caller.user) as usize),
    };
    let filter = SandboxFilter {
        user: (!admin).then_some(caller.user),
        state: Some(SandboxState::Alive),
        after: None,
        limit: 1000,
    };
    Ok(Json(StatusAnswer {
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: app.started.elapsed().as_millis() as u64,
        sandboxes: app.store.sandboxes(&filter).await?.len(),
        commands_running,
        streams,
        audit_trouble: if admin { app.store.audit().anchor_trouble() } else { None },
    }))
}

/// The server runs.
#[utoipa::path(get, path = "/healthz", tag = "status", security(()), responses((status = 200, body = String)))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The server can serve: its database answers.
#[utoipa::path(get, path = "/readyz", tag = "status", security(()), responses((status = 200, body = String), (status = "5XX", body = ErrorBody)))]
pub(crate) async fn readyz(State(app): State<Shared>) -> Answer<&'static str> {
    app.store.audit().head().await?;
    Ok("ready\n")
}

/// Counts for Prometheus. For admins and viewers of everything.
#[utoipa::path(
    get, path = "/metrics", tag = "status",
    responses((status = 200, content_type = "application/openmetrics-text", body = String), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn metrics(State(app): State<Shared>, caller: Caller) -> Answer<Response> {
    caller.needs(Role::Admin)?;
    app.traffic.count(&app).await?;
    app.metrics.waiting(app.store.waiting_actions(None).await?);
    let text = app.metrics.text().map_err(|error| ApiError::internal("write the metrics", error))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
