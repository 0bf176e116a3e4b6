//! HTTP that is read here: in clear, through TLS that ends here, and by proxy.
//!
//! hyper parses every request and writes it anew, so that what a host receives has one meaning; each request is checked
//! by itself. A client's connection has a connection to the host of its own, in the same version of HTTP.

mod answer;
mod authority;
mod body;
mod exchange;
mod flushed;
mod framing;
mod handover;
mod headers;
mod prefixed;
mod recall;
mod sender;
mod server;
#[cfg(test)]
pub(crate) mod testing;
mod upgrade;
mod watched;
mod write_through;

use std::sync::Arc;

use bytes::Bytes;
use ringfence_policy::NetworkReason;
use tokio::net::TcpStream;

use crate::admission::Admission;
use crate::dial::HttpDialling;

pub(crate) use answer::Answer;
pub(crate) use body::{Body, empty};
#[cfg(test)]
pub(crate) use body::{boxed, text};
pub(crate) use exchange::{Abort, Exchange};
pub(crate) use flushed::Flushed;
pub(crate) use handover::Client;
pub(crate) use prefixed::Prefixed;
pub(crate) use sender::{Open, Protocol, Sender, chain, open_metered};
pub(crate) use server::serve as serve_requests;
pub(crate) use watched::{Finding, Watched};

/// How HTTP/2 begins where nothing was negotiated.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// HTTP in clear, to the end of the connection. `prefix`: what was read already.
pub(crate) async fn serve(client: TcpStream, prefix: Bytes, admission: Admission, upstream: HttpDialling) {
    let protocol = if is_preface(&prefix) { Protocol::Http2 } else { Protocol::Http1 };
    let sender = Sender::clear(admission.clone(), protocol, Some(upstream));
    let exchange = Exchange::new(admission, sender);
    serve_exchange(Prefixed::new(prefix, client), protocol, exchange).await;
}

/// No request of HTTP/1 has the method `PRI`: its first bytes decide.
fn is_preface(prefix: &[u8]) -> bool {
    let common = prefix.len().min(PREFACE.len());
    common > 3 && prefix[..common] == PREFACE[..common]
}

/// Answer a client's requests to one host.
pub(crate) async fn serve_exchange<S>(client: S, protocol: Protocol, exchange: Exchange)
where
    S: Client,
{
    let admission = exchange.admission().clone();
    let finding = Finding::default();
    let ended = match protocol {
        Protocol::Http1 => {
            let client = Watched::new(client, finding.clone());
            answer_all(client, protocol, exchange.with_finding(finding.clone())).await
        }
        Protocol::Http2 => answer_all(client, protocol, exchange).await,
    };
    let rules = admission.gate().rules();
    let is_strict = admission.host().name().is_some_and(|name| rules.terminates(name));
    // hyper has answered for itself what it could not read.
    match (finding.untold(), ended) {
        (_, Err(error)) if error.is_parse() && is_strict && !finding.is_http() => {
            admission.refuse(NetworkReason::NotHttp);
        }
        (Some(why), _) => admission.refuse(NetworkReason::Malformed { why: why.to_owned() }),
        (None, Err(error)) if error.is_parse() => {
            admission.refuse(NetworkReason::Malformed { why: chain(&error) });
        }
        (None, Err(error)) if error.is_user() => admission.fail(chain(&error)),
        // The client went away, which it may at any time.
        (None, Err(_) | Ok(())) => {}
    }
}

async fn answer_all<S>(client: S, protocol: Protocol, exchange: Exchange) -> Result<(), hyper::Error>
where
    S: Client,
{
    let exchange = Arc::new(exchange);
    serve_requests(client, protocol, |request| {
        let exchange = exchange.clone();
        async move { exchange.answer(request).await }
    })
    .await
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "http/handover_tests.rs"]
mod handover_tests;

#[cfg(test)]
#[path = "http/patience_tests.rs"]
mod patience_tests;

#[cfg(test)]
#[path = "http/hostile_tests.rs"]
mod hostile_tests;
