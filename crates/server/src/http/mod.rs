//! The routes, one file a noun.

mod audit;
mod exec;
mod files;
mod people;
mod run;
mod sandboxes;
mod status;
mod wanted;
mod workspaces;

use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;
use crate::auth::authenticate;
use crate::doors::finish;
use crate::error::ApiError;
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
        .merge(sandboxes::routes())
        .merge(exec::routes())
        .merge(files::routes())
        .merge(workspaces::routes())
        .merge(people::routes())
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
        .merge(status::open_routes())
        .split_for_parts();
    let mut document = document;
    document.merge(open);
    (keyed, document)
}

/// Everything that the server answers.
pub(crate) fn router(app: Shared) -> Router {
    let (keyed, document) = parts();
    let body = app.config.limits.body.bytes() as usize;
    let keyed = keyed
        .route("/run", post(run::run))
        .route("/run/stream", post(run::run_stream))
        .layer(middleware::from_fn_with_state(app.clone(), once))
        .layer(middleware::from_fn_with_state(app.clone(), authenticate));
    let (open, _) = OpenApiRouter::<Shared>::new()
        .nest("/v1", people::login_route())
        .merge(status::open_routes())
        .split_for_parts();
    let text = serde_json::to_value(&document).unwrap_or_default();
    let compressed = CompressionLayer::new()
        .compress_when(SizeAbove::new(1024).and(NotForContentType::const_new("text/event-stream")));
    Router::new()
        .merge(keyed)
        .merge(open)
        .route("/openapi.json", get(move || async move { Json(text) }))
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
