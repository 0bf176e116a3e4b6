//! WebSockets through a shown port: both ways once both sides have agreed to one, byte by byte. Each holds one of its caller's
//! places, and ends with either side, with its sandbox, with its caller's key and with the server.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Json, http};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ports::{shown, target};
use super::terminal::{PARTING, TicketAnswer};
use crate::app::{Permit, Shared};
use crate::auth::Caller;
use crate::body::Named;
use crate::error::{Answer, ApiError, ErrorBody};
use crate::standing::until_revoked;
use crate::tickets::{by_ticket_or_key, ticket_in};

/// Those by which the two sides agree; they concern nobody in between.
const AGREEMENT: [HeaderName; 4] = [
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_EXTENSIONS,
];
const CHUNK: usize = 16 << 10;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(ticket))
}

fn purpose(id: &str, port: u16) -> String {
    format!("/v1/sandboxes/{id}/ports/{port}/http")
}

/// A ticket for one WebSocket to a shown port of this sandbox: what a browser uses, as `?ticket=`, since it can't send a key with
/// one. Good once, for half a minute.
#[utoipa::path(
    post, path = "/sandboxes/{id}/ports/{port}/ticket", tag = "ports",
    params(("id" = String, Path), ("port" = u16, Path)),
    responses((status = 200, body = TicketAnswer), (status = "4XX", body = ErrorBody))
)]
pub(crate) async fn ticket(
    State(app): State<Shared>,
    caller: Caller,
    Named((id, port)): Named<(String, u16)>,
) -> Answer<Json<TicketAnswer>> {
    shown(&app, &caller, &id, port).await?;
    Ok(Json(TicketAnswer::new(&app, &caller, &purpose(&id, port))?))
}

/// Who asks: by a key as everywhere, and for a WebSocket by a ticket too. Any other request's query is for what listens inside.
pub(crate) async fn ticket_or_key(
    State(app): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let what = match is_websocket(&request) {
        true => target(request.uri()).ok().map(|(id, port, _)| purpose(&id, port)),
        false => None,
    };
    by_ticket_or_key(app, what, request, next).await
}

pub(super) fn is_websocket<B>(request: &http::Request<B>) -> bool {
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && asks_for_websocket(request.headers())
        && request.headers().contains_key(header::SEC_WEBSOCKET_KEY)
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let names = |header: HeaderName, wanted: &str| {
        headers
            .get_all(header)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|name| name.trim().eq_ignore_ascii_case(wanted))
    };
    names(header::CONNECTION, "upgrade") && names(header::UPGRADE, "websocket")
}

/// What goes in beside the other headers.
pub(super) fn ask_inside(from: &HeaderMap, headers: &mut HeaderMap) {
    for name in AGREEMENT {
        for value in from.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    upgrade(headers);
}

fn upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// The path and query without the ticket, which is for this server.
pub(super) fn without_ticket(uri: &Uri) -> Uri {
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    let rest: Vec<&str> =
        query.split('&').filter(|pair| !pair.is_empty() && ticket_in(pair).is_none()).collect();
    let whole = match rest.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", rest.join("&")),
    };
    whole.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

/// What is inside has agreed, or else `None`. Its answer goes out, and then what either side says.
pub(super) fn agreed(
    app: &Shared,
    caller: Caller,
    outside: OnUpgrade,
    answer: &mut hyper::Response<hyper::body::Incoming>,
    permit: Arc<Permit>,
) -> Option<Response> {
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !asks_for_websocket(answer.headers()) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let names =
        [header::SEC_WEBSOCKET_ACCEPT, header::SEC_WEBSOCKET_PROTOCOL, header::SEC_WEBSOCKET_EXTENSIONS];
    for name in names {
        if let Some(value) = answer.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    upgrade(response.headers_mut());
    let inside = hyper::upgrade::on(answer);
    let mut stopping = app.actions.stopping();
    let revoked = until_revoked(app.clone(), caller);
    tokio::spawn(async move {
        let _permit = permit;
        let (Ok(outside), Ok(inside)) = tokio::join!(outside, inside) else { return };
        let (mut outside, inside) = (TokioIo::new(outside), TokioIo::new(inside));
        {
            let (mut from_client, mut to_client) = tokio::io::split(&mut outside);
            let (mut from_inside, mut to_inside) = tokio::io::split(inside);
            // Whoever is done first ends both: nothing outlives its sandbox because a client keeps silent.
            tokio::select! {
                () = copy(&mut from_client, &mut to_inside) => {}
                () = copy(&mut from_inside, &mut to_client) => {}
                _ = stopping.wait_for(|stop| *stop) => {}
                () = revoked => {}
            }
        }
        let _ = outside.shutdown().await;
        // What a client has sent meanwhile and nobody reads would take back what it was sent last.
        let _ = tokio::time::timeout(PARTING, tokio::io::copy(&mut outside, &mut tokio::io::sink())).await;
    });
    Some(response)
}

/// Until there is nothing more to read, or nobody who takes it.
async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        if to.write_all(&chunk[..read]).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_stays_outside() {
        for (given, carried) in [
            ("/a?ticket=x", "/a"),
            ("/a?b=c&ticket=x&d=e", "/a?b=c&d=e"),
            ("/a%2Fb?my_ticket=x", "/a%2Fb?my_ticket=x"),
            ("/", "/"),
        ] {
            assert_eq!(without_ticket(&given.parse().unwrap()).to_string(), carried);
        }
    }

    #[test]
    fn only_a_websocket_is_one() {
        let asked = |headers: &[(&str, &str)], method: &str| {
            let mut request = http::Request::builder().method(method).uri("/");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            is_websocket(&request.body(()).unwrap())
        };
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let good = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket"), key];
        assert!(asked(&good, "GET") && !asked(&good, "POST"));
        assert!(!asked(&[("connection", "upgrade"), ("upgrade", "h2c"), key], "GET"));
        assert!(!asked(&[("connection", "keep-alive"), ("upgrade", "websocket"), key], "GET"));
        assert!(!asked(&good[..2], "GET"));
    }
}
