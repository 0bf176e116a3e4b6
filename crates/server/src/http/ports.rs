//! Ports of a sandbox: what listens inside is reached by HTTP through this server, with the caller's key.
//!
//! There is no forward on a port of the server's own: whoever else is on that machine would reach it without a key. What
//! comes back was written inside: it gets none of the server's cookies, headers or origin.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as RawBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use axum::{Extension, Json};
use hyper_util::rt::TokioIo;
use ringfence_sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::bounds::Within;
use super::people::entry;
use super::port_sockets::{agreed, ask_inside, is_websocket, without_ticket};
use crate::app::Shared;
use crate::auth::Caller;
use crate::blocking;
use crate::body::{Body, Named};
use crate::doors::RequestId;
use crate::error::{Answer, ApiError, ErrorBody};

/// Until what listens inside has sent its first line.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show, list)).routes(routes!(hide))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortRequest {
    #[schema(value_type = u16, minimum = 1, maximum = 65535, example = 8080)]
    port: Within<1, 65535>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PortAnswer {
    port: u16,
    /// Below it: any method, any path.
    path: String,
}

impl PortAnswer {
    fn new(id: &str, port: u16) -> Self {
        Self { port, path: format!("/v1/sandboxes/{id}/ports/{port}/http/") }
    }
}

/// Show a port of the sandbox's own loopback: requests to `/v1/sandboxes/{id}/ports/{port}/http/…`, with a key of its owner,
/// go to what listens there.
#[utoipa::path(
    post, path = "/sandboxes/{id}/ports", tag = "ports", params(("id" = String, Path)), request_body = PortRequest,
    responses((status = 201, body = PortAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn show(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named(id): Named<String>,
    Body(request): Body<PortRequest>,
) -> Answer<(StatusCode, Json<PortAnswer>)> {
    app.own_sandbox(&caller, &id).await?;
    let port = request.port.get() as u16;
    app.store.add_port(&id, port).await?;
    let about = json!({ "port": port });
    app.record(entry(&caller, &request_id, "port.show", Some(id.clone()), about)).await?;
    Ok((StatusCode::CREATED, Json(PortAnswer::new(&id, port))))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PortsAnswer {
    /// At most 32.
    ports: Vec<PortAnswer>,
}

/// The ports of a sandbox that are shown.
#[utoipa::path(
    get, path = "/sandboxes/{id}/ports", tag = "ports", params(("id" = String, Path)),
    responses((status = 200, body = PortsAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<PortsAnswer>> {
    app.sandbox(&caller, &id).await?;
    let ports = app.store.ports(&id).await?.into_iter().map(|port| PortAnswer::new(&id, port)).collect();
    Ok(Json(PortsAnswer { ports }))
}

/// Show a port no longer.
#[utoipa::path(
    delete, path = "/sandboxes/{id}/ports/{port}", tag = "ports", params(("id" = String, Path), ("port" = u16, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn hide(
    State(app): State<Shared>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    Named((id, port)): Named<(String, u16)>,
) -> Answer<StatusCode> {
    app.own_sandbox(&caller, &id).await?;
    if !app.store.remove_port(&id, port).await? {
        return Err(ApiError::not_found("shown port", &port.to_string()));
    }
    app.record(entry(&caller, &request_id, "port.hide", Some(id), json!({ "port": port }))).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The sandbox of a port that is shown, for whoever may go there.
pub(super) async fn shown(app: &Shared, caller: &Caller, id: &str, port: u16) -> Answer<Sandbox> {
    let (_, sandbox) = app.own_sandbox(caller, id).await?;
    match app.store.ports(id).await?.contains(&port) {
        true => Ok(sandbox),
        false => Err(ApiError::not_found("shown port", &port.to_string())),
    }
}

/// One request to what listens inside, or a WebSocket.
pub(crate) async fn proxy(
    State(app): State<Shared>,
    caller: Caller,
    mut request: Request,
) -> Answer<Response> {
    let (id, port, mut target) = target(request.uri())?;
    let sandbox = shown(&app, &caller, &id, port).await?;
    let permit = Arc::new(app.slot(&caller)?);
    let outside = is_websocket(&request).then(|| hyper::upgrade::on(&mut request));
    let silent = move |_| nobody(port);
    let stream = blocking(move || sandbox.connect_port(port).map_err(silent)).await?;
    stream.set_nonblocking(true)?;
    let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream)?);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.map_err(|_| nobody(port))?;
    let held = Arc::clone(&permit);
    tokio::spawn(async move {
        // As long as the answer is on its way.
        let _permit = held;
        let _ = connection.with_upgrades().await;
    });
    let (parts, body) = request.into_parts();
    if outside.is_some() {
        target = without_ticket(&target);
    }
    let mut inwards = hyper::Request::new(body);
    *inwards.method_mut() = parts.method;
    *inwards.uri_mut() = target;
    *inwards.headers_mut() = carried(&parts.headers, &NOT_INWARDS);
    let host = HeaderValue::try_from(format!("localhost:{port}")).map_err(|_| nobody(port))?;
    inwards.headers_mut().insert(header::HOST, host);
    if outside.is_some() {
        ask_inside(&parts.headers, inwards.headers_mut());
    }
    let answer = tokio::time::timeout(PATIENCE, sender.send_request(inwards)).await;
    let mut answer = answer.map_err(|_| nobody(port))?.map_err(|_| nobody(port))?;
    if let Some(outside) = outside
        && let Some(response) = agreed(&app, caller, outside, &mut answer, permit)
    {
        return Ok(response);
    }
    let (parts, body) = answer.into_parts();
    let mut response = Response::new(RawBody::new(body));
    // What asks to be spoken to in another way is not carried.
    *response.status_mut() =
        if parts.status.is_informational() { StatusCode::BAD_GATEWAY } else { parts.status };
    *response.headers_mut() = carried(&parts.headers, &NOT_OUTWARDS);
    // A page from inside is no page of this server.
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; frame-ancestors 'none'"));
    Ok(response)
}

fn nobody(port: u16) -> ApiError {
    ApiError::new(
        StatusCode::BAD_GATEWAY,
        "no_answer",
        format!("nothing in the sandbox answers by HTTP on port {port}"),
        "start what should listen there, on the sandbox's loopback",
    )
}

/// `/v1/sandboxes/ID/ports/PORT/http/REST?QUERY`, as it came: what is coded in REST is for whoever listens inside.
pub(super) fn target(uri: &Uri) -> Answer<(String, u16, Uri)> {
    let missing = || ApiError::not_found("port", uri.path());
    let rest = uri.path().strip_prefix("/v1/sandboxes/").ok_or_else(missing)?;
    let mut parts = rest.splitn(5, '/');
    let (id, ports, port, http) = (parts.next(), parts.next(), parts.next(), parts.next());
    let (Some(id), Some("ports"), Some(port), Some("http")) = (id, ports, port, http) else {
        return Err(missing());
    };
    let port = port.parse().map_err(|_| missing())?;
    let path = format!("/{}", parts.next().unwrap_or_default());
    let whole = uri.query().map_or(path.clone(), |query| format!("{path}?{query}"));
    Ok((id.to_owned(), port, whole.parse().map_err(|_| missing())?))
}

/// The caller's key is for this server, and what concerns one connection stays with it.
const NOT_INWARDS: [HeaderName; 4] =
    [header::AUTHORIZATION, header::COOKIE, header::HOST, header::PROXY_AUTHORIZATION];
/// What would act for this server's origin.
const NOT_OUTWARDS: [HeaderName; 6] = [
    header::SET_COOKIE,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::STRICT_TRANSPORT_SECURITY,
    header::WWW_AUTHENTICATE,
    header::CONTENT_SECURITY_POLICY,
];
const OF_THE_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

fn carried(headers: &HeaderMap, without: &[HeaderName]) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    let stays = |name: &HeaderName| {
        without.contains(name)
            || OF_THE_CONNECTION.contains(name)
            || name.as_str().starts_with("sec-")
            || name.as_str() == "service-worker-allowed"
            || name.as_str() == "clear-site-data"
            || named.iter().any(|one| one == name.as_str())
    };
    headers
        .iter()
        .filter(|(name, _)| !stays(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_path_is_carried_as_it_came() {
        let of =
            |text: &str| target(&text.parse().unwrap()).map(|(id, port, uri)| (id, port, uri.to_string()));
        let whole = |port, uri: &str| ("a".to_owned(), port, uri.to_owned());
        assert_eq!(of("/v1/sandboxes/a/ports/80/http").unwrap(), whole(80, "/"));
        assert_eq!(of("/v1/sandboxes/a/ports/80/http/b%2Fc/?d=e").unwrap(), whole(80, "/b%2Fc/?d=e"));
        for text in ["/v1/sandboxes/a/ports/x/http/", "/v1/sandboxes/a/ports/99999/http/", "/v1/sandboxes/a"]
        {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_key_goes_in_and_no_cookie_comes_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer rf_x"),
            ("cookie", "a=b"),
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("sec-fetch-site", "none"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let inwards = carried(&headers, &NOT_INWARDS);
        assert_eq!(inwards.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-other"]);
        headers.insert(header::SET_COOKIE, HeaderValue::from_static("a=b"));
        assert!(!carried(&headers, &NOT_OUTWARDS).contains_key(header::SET_COOKIE));
    }
}
