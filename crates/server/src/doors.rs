//! What every request passes first: its id, the names it may come by, and the shape of what goes out.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::Empty;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use uuid::Uuid;

use crate::app::Shared;
use crate::error::{Answer, ApiError};
use crate::listen::Room;
use crate::patience::TooSlow;

/// The id of a request, for its answer, the log and the audit.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

/// Outermost: give the request an id, and every error its body.
pub(crate) async fn finish(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().simple().to_string();
    let begun = Instant::now();
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "other".to_owned());
    request.extensions_mut().insert(RequestId(id.clone()));
    let too_slow = request.extensions_mut().remove::<TooSlow>();
    let span = request_span(&id, method, &route, request.headers());
    let reserve = request.extensions_mut().remove::<Room>() == Some(Room::Reserve);
    let checked =
        check_names(&app, &request).and_then(|()| match reserve && !is_health(request.uri().path()) {
            true => Err(busy()),
            false => Ok(()),
        });
    let mut response = match checked {
        Ok(()) => next.run(request).instrument(span.clone()).await,
        Err(error) => error.respond(&id),
    };
    let _entered = span.enter();
    if too_slow.is_some_and(|slow| slow.is_set()) {
        response = late().respond(&id);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        if error.status == StatusCode::TOO_MANY_REQUESTS {
            app.metrics.limited(&error.code);
        }
        response = app.mask.error(error).respond(&id);
    }
    let headers = response.headers_mut();
    if reserve {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert("x-request-id", value);
    }
    // Nothing here is for another site's page, to be guessed at or to be kept.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let (status, took) = (response.status(), begun.elapsed());
    app.metrics.request(&route, method, status.as_u16(), took);
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    tracing::info!(status = status.as_u16(), ms = took.as_millis() as u64, "request");
    response
}

/// What is logged of a request, and sent to a collector: its route, never its path, query, headers or body, where secrets are.
fn request_span(id: &str, method: &'static str, route: &str, headers: &HeaderMap) -> Span {
    let span = tracing::info_span!(
        "request",
        request_id = id,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        enduser.id = Empty,
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
    );
    // Part of a trace that the client began, if it says so.
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    let _ = span.set_parent(parent);
    span
}

/// Anybody can make up any number of methods: all of those are one in what is counted and told.
fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// Answered whoever else has taken every connection.
fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/v1/healthz" | "/v1/readyz")
}

fn busy() -> ApiError {
    let mut error = ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "as many connections are open as this server takes",
        "try again soon, and close connections that are not needed",
    );
    error.retry_after = Some(1);
    error
}

fn late() -> ApiError {
    ApiError::new(
        StatusCode::REQUEST_TIMEOUT,
        "slow_body",
        "the body of the request came too slowly",
        "send it at once, at 1 KiB a second or more",
    )
}

/// A page of another site that reaches this server by a name of its own (DNS rebinding), or by a form, is refused.
fn check_names(app: &Shared, request: &Request) -> Answer<()> {
    let refused = |what: &str| {
        ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            format!("the request's {what} is not this server"),
            "use the address that `ringfence serve` printed, or start it with --allow-name NAME",
        )
    };
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next(), request.uri().authority()) {
        (Some(host), None, None) => text(host),
        (Some(host), None, Some(authority)) if text(host).as_deref() == Some(authority.as_str()) => {
            text(host)
        }
        (None, None, Some(authority)) => Some(authority.as_str().to_owned()),
        _ => None,
    };
    let known = |name: &str| app.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    let host = host.filter(|host| known(without_port(host))).ok_or_else(|| refused("Host"))?;
    for origin in request.headers().get_all(header::ORIGIN) {
        let origin = text(origin).unwrap_or_default();
        if !same_place(&origin, &host, known) {
            return Err(refused("Origin"));
        }
    }
    Ok(())
}

/// Is a page of this origin one of this server's own? Its name is one that the server has, and its port is the one that
/// it was asked at: what else listens on this machine is somebody else.
fn same_place(origin: &str, host: &str, known: impl Fn(&str) -> bool) -> bool {
    let (theirs, usual) = match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
        (Some(theirs), _) => (theirs, "80"),
        (_, Some(theirs)) => (theirs, "443"),
        _ => return false,
    };
    let port = |place| port_of(place).unwrap_or(usual).trim_start_matches('0').to_owned();
    known(without_port(theirs)) && port(theirs) == port(host)
}

fn port_of(host: &str) -> Option<&str> {
    let name = without_port(host);
    host.strip_prefix(name)?.strip_prefix(':').filter(|port| !port.is_empty())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::{same_place, without_port};

    #[test]
    fn another_port_is_another_origin() {
        let known = |name: &str| matches!(name, "127.0.0.1" | "localhost" | "box.example" | "[::1]");
        for (origin, host, own) in [
            ("http://127.0.0.1:7070", "127.0.0.1:7070", true),
            ("http://localhost:7070", "127.0.0.1:7070", true),
            ("http://[::1]:7070", "[::1]:7070", true),
            ("https://box.example", "box.example", true),
            ("https://box.example", "box.example:443", true),
            ("http://127.0.0.1:9999", "127.0.0.1:7070", false),
            ("http://127.0.0.1", "127.0.0.1:7070", false),
            ("https://box.example", "box.example:7070", false),
            ("http://evil.example:7070", "127.0.0.1:7070", false),
            ("null", "127.0.0.1:7070", false),
            ("file://", "127.0.0.1:7070", false),
        ] {
            assert_eq!(same_place(origin, host, known), own, "{origin} at {host}");
        }
    }

    #[test]
    fn a_port_is_no_part_of_a_name() {
        for (host, name) in [
            ("localhost:7070", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:7070", "[::1]"),
            ("[::1]", "[::1]"),
            (":80", ":80"),
            ("evil.example:80", "evil.example"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
