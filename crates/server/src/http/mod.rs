//! The routes, one file a noun.

mod actions;
mod audit;
mod bounds;
mod changes;
mod creation;
mod exec;
mod files;
mod pages;
mod people;
mod port_sockets;
mod ports;
mod processes;
mod run;
mod sandboxes;
mod secrets;
mod skill_runs;
mod skill_uploads;
mod skills;
mod snapshots;
mod status;
mod terminal;
mod trees;
mod wanted;
mod watch;
mod workspaces;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{any, get, post};
use axum::{Json, Router, middleware};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;

pub(crate) use actions::ActionAnswer;
pub(crate) use exec::facts;
pub(crate) use files::inside;
pub(crate) use people::entry;
pub(crate) use run::events;
pub(crate) use wanted::{check_variables, compat};

use crate::app::Shared;
use crate::auth::authenticate;
use crate::doors::finish;
use crate::error::ApiError;
use crate::mcp;
use crate::refusals::record_refusals;
use crate::repeats::once;

const BEARER: &str = "key";

fn described() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Ringfence")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Runs commands in sandboxes that prove they are closed. Every error has one shape: a stable code, a \
             message, a hint and the request's id.",
        ))
        .build();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    OpenApiBuilder::new()
        .info(info)
        .components(Some(ComponentsBuilder::new().security_scheme(BEARER, scheme).build()))
        .security(Some([SecurityRequirement::new::<_, [&str; 0], &str>(BEARER, [])]))
        .build()
}

fn nouns() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(run::routes())
        .merge(creation::routes())
        .merge(sandboxes::routes())
        .merge(exec::routes())
        .merge(processes::routes())
        .merge(files::routes())
        .merge(trees::routes())
        .merge(watch::routes())
        .merge(snapshots::routes())
        .merge(changes::routes())
        .merge(ports::routes())
        .merge(port_sockets::routes())
        .merge(terminal::ticket_routes())
        .merge(workspaces::routes())
        .merge(skills::routes())
        .merge(skill_runs::routes())
        .merge(skill_uploads::routes())
        .merge(secrets::routes())
        .merge(people::routes())
        .merge(actions::routes())
        .merge(audit::routes())
        .merge(status::routes())
}

/// The document of the whole API.
pub fn openapi() -> OpenApi {
    parts().1
}

/// What takes a key, and the document; what takes none is in the document too.
fn parts() -> (Router<Shared>, OpenApi) {
    let (keyed, document) = OpenApiRouter::with_openapi(described()).nest("/v1", nouns()).split_for_parts();
    let (_, open) = OpenApiRouter::<Shared>::new()
        .nest("/v1", people::login_route())
        .nest("/v1", terminal::routes())
        .merge(status::open_routes())
        .split_for_parts();
    let mut document = document;
    document.merge(open);
    name_operations(&mut document);
    (keyed, document)
}

/// A handler's name is told apart by its noun: an operation's id must be its own.
fn name_operations(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            let noun = operation.tags.as_ref().and_then(|tags| tags.first()).cloned();
            if let (Some(noun), Some(id)) = (noun, &mut operation.operation_id) {
                *id = format!("{noun}_{id}");
            }
        }
    }
}

/// What the server answers and the document does not describe, with the reason.
pub const NOT_DESCRIBED: [(&str, &str); 10] = [
    ("/run", "the same as /v1/run"),
    ("/run/stream", "the same as /v1/run/stream"),
    ("/metrics", "the same as /v1/metrics, where Prometheus looks for it"),
    ("/v1/healthz", "the same as /healthz"),
    ("/v1/readyz", "the same as /readyz"),
    ("/openapi.json", "the document itself; also /v1/openapi.json"),
    ("/docs", "pages for people, as is /"),
    ("/mcp", "the Model Context Protocol, which describes itself"),
    ("/v1/sandboxes/{id}/ports/{port}/http/{path}", "whatever listens inside says what it takes"),
    ("/.well-known/agent-skills/index.json", "the Agent Skills index, whose form others define"),
];

/// Everything that the server answers.
pub(crate) fn router(app: Shared) -> Router {
    let (keyed, document) = parts();
    let body = app.config.limits.body.bytes() as usize;
    let refused = || middleware::from_fn_with_state(app.clone(), record_refusals);
    let keyed = keyed
        .route("/run", post(run::run))
        .route("/run/stream", post(run::run_stream))
        .route("/metrics", get(status::metrics))
        .route(skills::INDEX, get(skills::index))
        .layer(refused());
    let api = keyed.clone().layer(DefaultBodyLimit::max(body)).with_state(app.clone());
    let keyed = keyed
        .merge(mcp::routes(&app, api))
        .layer(middleware::from_fn_with_state(app.clone(), once))
        .layer(middleware::from_fn_with_state(app.clone(), authenticate));
    let (open, _) = OpenApiRouter::<Shared>::new()
        .nest("/v1", people::login_route())
        .nest("/v1", status::open_routes())
        .merge(status::open_routes())
        .split_for_parts();
    // A browser can't give a WebSocket a header: a ticket is good there too.
    let ports = Router::new()
        .route("/v1/sandboxes/{id}/ports/{port}/http", any(ports::proxy))
        .route("/v1/sandboxes/{id}/ports/{port}/http/", any(ports::proxy))
        .route("/v1/sandboxes/{id}/ports/{port}/http/{*path}", any(ports::proxy))
        .layer(refused())
        .layer(middleware::from_fn_with_state(app.clone(), once))
        .layer(middleware::from_fn_with_state(app.clone(), port_sockets::ticket_or_key));
    let (terminal, _) = OpenApiRouter::<Shared>::new().nest("/v1", terminal::routes()).split_for_parts();
    let terminal =
        terminal.layer(refused()).layer(middleware::from_fn_with_state(app.clone(), terminal::ticket_or_key));
    let text = Arc::new(serde_json::to_value(&document).unwrap_or_default());
    let document = move || {
        let text = Arc::clone(&text);
        async move { Json(text.as_ref().clone()) }
    };
    let compressed = CompressionLayer::new()
        .compress_when(SizeAbove::new(1024).and(NotForContentType::const_new("text/event-stream")));
    Router::new()
        .merge(keyed)
        .merge(open)
        .merge(crate::pages::routes())
        .merge(terminal)
        .merge(ports)
        .route("/openapi.json", get(document.clone()))
        .route("/v1/openapi.json", get(document))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(body))
        .layer(compressed)
        .layer(middleware::from_fn_with_state(app.clone(), finish))
        .with_state(app)
}

async fn no_route(uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no_route",
        format!("there is nothing at `{}`", uri.path().escape_debug()),
        "see /openapi.json for what there is",
    )
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong_method",
        format!("`{}` does not take {method}", uri.path().escape_debug()),
        "see /openapi.json for what there is",
    )
}
