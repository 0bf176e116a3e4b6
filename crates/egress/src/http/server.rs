//! The client's side: hyper as a server, with bounds on what a client may send and how long it may take.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::body::Body;
use super::exchange::Abort;
use super::flushed::Flushed;
use super::handover::{Client, Handover};
use super::sender::Protocol;

/// For a whole head, from the end of the request before; so it is also how long a connection may rest.
const HEAD: Duration = Duration::from_secs(60);
const LARGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;
/// HTTP/2 requests at one time, and the largest head of one: what programs need, and little to hold for each.
const MOST_STREAMS: u32 = 64;
const LARGEST_HEADERS: u32 = 32 << 10;
/// A silent HTTP/2 client is asked for a sign of life.
const PING: Duration = Duration::from_secs(60);
const PONG: Duration = Duration::from_secs(20);

/// Answer a client's requests until it or the answers end the connection.
pub(crate) async fn serve<S, A, F>(client: S, protocol: Protocol, answer: A) -> Result<(), hyper::Error>
where
    S: Client,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response<Body>, Abort>> + Send + 'static,
{
    match protocol {
        Protocol::Http1 => {
            let handover = Handover::default();
            let answer = |mut request: Request<Incoming>| {
                if S::IS_TCP {
                    request.extensions_mut().insert(handover.clone());
                }
                answer(request)
            };
            let client = TokioIo::new(Flushed::new(client, handover.clone()));
            let mut connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_header_size(LARGEST_HEAD)
                .max_headers(MOST_HEADERS)
                // Some simple clients close their side behind the request.
                .half_close(true)
                .preserve_header_case(true)
                .auto_date_header(false)
                .serve_connection(client, service_fn(answer))
                .with_upgrades();
            let (ended, due) = poll_fn(|context| match Pin::new(&mut connection).poll(context) {
                Poll::Ready(ended) => Poll::Ready((ended, None)),
                Poll::Pending => match handover.due() {
                    Some(due) => Poll::Ready((Ok(()), Some(due))),
                    None => Poll::Pending,
                },
            })
            .await;
            if let (Some(due), Some(parts)) = (due, connection.into_parts())
                && let Some(client) = parts.io.into_inner().into_inner().into_tcp()
            {
                due.carry(client).await;
            }
            ended
        }
        Protocol::Http2 => {
            http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_header_list_size(LARGEST_HEADERS)
                .max_concurrent_streams(MOST_STREAMS)
                // The client is near: small windows fill its line, and bound what a slow host lets pile up here.
                .initial_stream_window_size(128 << 10)
                .initial_connection_window_size(256 << 10)
                .keep_alive_interval(PING)
                .keep_alive_timeout(PONG)
                .auto_date_header(false)
                .serve_connection(TokioIo::new(client), service_fn(answer))
                .await
        }
    }
}
