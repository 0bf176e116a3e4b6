//! Requests that may be sent twice: with an `Idempotency-Key`, a POST is carried out once, and whoever sends it again gets
//! the first answer, as long as there is room for it: see `tally`. A stream that was begun once is taken up from its
//! beginning; the secret of a key is told once only.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ringfence_store::{Answer as Answered, Begun, RequestKey};
use serde_json::{Value, json};
use tracing::Instrument;

use crate::app::Shared;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::events;

const HEADER: &str = "idempotency-key";
const LONGEST: usize = 255;
/// Of what is kept with an answer.
const LONGEST_ROUTE: usize = 1024;
/// Longer answers are not kept: the request is carried out, and can't be repeated.
const MOST_ANSWER: usize = 8 << 20;
/// Where a secret is in the answer, which is kept without it.
const KEYS: &str = "/v1/keys";
/// The stream that an answer is, where it is one.
pub(crate) const STREAM: &str = "x-stream-id";

pub(crate) async fn once(
    State(app): State<Shared>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let given = request.headers().get(HEADER).cloned();
    let Some(given) = given.filter(|_| request.method() == Method::POST) else {
        return Ok(next.run(request).await);
    };
    let key = given.to_str().ok().filter(|key| !key.is_empty() && key.len() <= LONGEST).map(str::to_owned);
    let key = key.ok_or_else(|| {
        ApiError::bad(
            "the Idempotency-Key can't be used",
            "give 1 to 255 printable characters, such as a UUID",
        )
    })?;
    let route = request.uri().path().to_owned();
    if route.len() > LONGEST_ROUTE {
        return Err(ApiError::bad(
            "the path is too long to be repeated",
            "leave Idempotency-Key out, or use a shorter path",
        ));
    }
    if route.ends_with("/ticket") {
        return Err(ApiError::bad(
            "a ticket is good once, and can't be told again",
            "leave Idempotency-Key out, and ask for another ticket",
        ));
    }
    let (parts, body) = request.into_parts();
    let most = app.config.limits.body.bytes() as usize;
    let body = to_bytes(body, most).await.map_err(|_| {
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body is too large", "send less")
    })?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(parts.uri.to_string().as_bytes()).update(&[0]).update(&body);
    let digest = hasher.finalize().to_hex().to_string();
    let named = RequestKey { user: &caller.user, route: &route, key: &key };
    match app.store.idempotency().begin(named, &digest).await? {
        Begun::Fresh => {}
        Begun::Running => {
            let mut error = ApiError::new(
                StatusCode::CONFLICT,
                "still_running",
                "the same request is being carried out",
                "ask again later",
            );
            error.retry_after = Some(1);
            return Err(error);
        }
        Begun::Mismatch => {
            return Err(ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "key_reused",
                "this Idempotency-Key was used for another request",
                "use a new one for each request",
            ));
        }
        Begun::Done(answer) => return told_again(&app, &caller, answer),
    }
    // Goes on when its client goes away: the answer is for whoever asks again.
    let carrying = async move {
        let response = next.run(Request::from_parts(parts, Body::from(body))).await;
        let named = RequestKey { user: &caller.user, route: &route, key: &key };
        keep(&app, named, response).await
    };
    tokio::spawn(carrying.in_current_span()).await.map_err(|error| ApiError::internal("finish", error))?
}

fn told_again(app: &Shared, caller: &Caller, answer: Answered) -> Result<Response, ApiError> {
    let headers = answer.headers.unwrap_or_default();
    if headers["let_go"] == true {
        return Err(ApiError::new(
            StatusCode::GONE,
            "answer_let_go",
            format!(
                "the request was carried out, with the status {}; its answer is kept no longer, and it is not carried out again",
                answer.status
            ),
            "look at what it made; use a new Idempotency-Key to begin anew",
        ));
    }
    let mut response = match headers["stream"].as_str() {
        Some(stream) => {
            let log = app.streams.whole(&caller.user, stream).ok_or_else(|| {
                ApiError::new(
                    StatusCode::GONE,
                    "stream_over",
                    "the stream of this request is over, and it is not carried out again",
                    "send \"keep\": true with what should outlive its reader; use a new Idempotency-Key to begin anew",
                )
            })?;
            events(app, caller, &log, None, app.hold(caller)?)
        }
        None => {
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
            (status, answer.body).into_response()
        }
    };
    if let Some(kind) = headers["content-type"].as_str().and_then(|kind| HeaderValue::from_str(kind).ok()) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

/// A key's answer, as it is kept: nothing that opens anything is in the database.
fn without_secret(body: &[u8]) -> Vec<u8> {
    let mut answer: Value = serde_json::from_slice(body).unwrap_or_default();
    answer["key"] = "".into();
    answer.to_string().into_bytes()
}

/// What was refused or failed may be tried again; what was done is told again.
async fn keep(app: &Shared, named: RequestKey<'_>, response: Response) -> Result<Response, ApiError> {
    if !response.status().is_success() {
        app.store.idempotency().abandon(named).await?;
        return Ok(response);
    }
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if let Some(stream) = response.headers().get(STREAM).and_then(|stream| stream.to_str().ok()) {
        let headers = Some(json!({ "content-type": kind, "stream": stream }));
        let answer = Answered { status: response.status().as_u16(), headers, body: Vec::new() };
        app.store.idempotency().finish(named, &answer).await?;
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, MOST_ANSWER).await else {
        app.store.idempotency().abandon(named).await?;
        return Err(ApiError::internal("keep an answer", "it is too long"));
    };
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let answer = Answered {
        status: parts.status.as_u16(),
        headers: Some(json!({ "content-type": kind })),
        body: if named.route == KEYS { without_secret(&body) } else { body.to_vec() },
    };
    app.store.idempotency().finish(named, &answer).await?;
    // It was done, and is in the database: room for it is made, and if not now then with the next.
    if let Err(error) = app.answer_kept(named.user, answer.body.len() as u64).await {
        tracing::warn!(%error, "answers that are kept were not counted");
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}
