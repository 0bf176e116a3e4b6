//! Leaving HTTP behind on a connection, as WebSocket does: only when the client asked and the host agreed, and never for
//! another kind of HTTP, whose requests nobody would look at.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::time::timeout;

use super::body::QUIET;
use super::headers::tokens;
use crate::admission::Admission;
use crate::swap::{Streaming, Swap};

/// The one protocol that a request asks to go on with; `None` if it asks for none that may be.
///
/// `strict`: the host has secrets or HTTP rules, so only WebSocket, which can't carry a request.
pub(super) fn wanted(method: &Method, version: Version, headers: &HeaderMap, strict: bool) -> Option<String> {
    let asked = tokens(headers, UPGRADE);
    let [protocol] = asked.as_slice() else { return None };
    let named = tokens(headers, CONNECTION).iter().any(|token| token == "upgrade");
    if version != Version::HTTP_11 || !named || *method == Method::CONNECT {
        return None;
    }
    let is_http = |name: &str| name == "h2" || name == "h2c" || name.starts_with("http");
    let may_be = if strict { protocol == "websocket" } else { !is_http(protocol) && !protocol.is_empty() };
    may_be.then(|| protocol.clone())
}

/// Ask for it, or agree to it.
pub(super) fn set(headers: &mut HeaderMap, protocol: &str) {
    if let Ok(value) = HeaderValue::from_str(protocol) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, value);
    }
}

/// Did the host agree to this very protocol?
pub(super) fn agreed(headers: &HeaderMap, protocol: &str) -> bool {
    tokens(headers, UPGRADE) == [protocol]
}

/// Carry what follows, both ways, until both have ended.
pub(super) async fn carry(client: OnUpgrade, host: OnUpgrade, swap: Option<Arc<Swap>>, admission: Admission) {
    let (client, host) = match tokio::try_join!(client, host) {
        Ok(both) => both,
        Err(error) => return admission.fail(format!("the upgrade failed: {error}")),
    };
    let (mut from_client, mut to_client) = split(TokioIo::new(client));
    let (mut from_host, mut to_host) = split(TokioIo::new(host));
    let outward = async {
        copy(&mut from_client, &mut to_host).await?;
        admission.settle();
        to_host.shutdown().await
    };
    let inward = async {
        match swap {
            Some(swap) => copy_covered(&mut from_host, &mut to_client, swap.cover()).await?,
            None => {
                copy(&mut from_host, &mut to_client).await?;
            }
        }
        admission.settle();
        to_client.shutdown().await
    };
    if let Err(error) = tokio::try_join!(outward, inward) {
        admission.break_off(&error);
    }
}

async fn copy_covered(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut stream: Streaming,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer);
        let count = if stream.holds_little() {
            match timeout(QUIET, read).await {
                Ok(count) => count?,
                Err(_) => {
                    to.write_all(&stream.release()).await?;
                    to.flush().await?;
                    continue;
                }
            }
        } else {
            read.await?
        };
        let out =
            if count == 0 { stream.finish() } else { stream.push(Bytes::copy_from_slice(&buffer[..count])) };
        to.write_all(&out).await?;
        to.flush().await?;
        if count == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(connection: &'static str, upgrade: &'static str, strict: bool) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static(connection));
        headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
        wanted(&Method::GET, Version::HTTP_11, &headers, strict)
    }

    #[test]
    fn never_to_another_http() {
        assert_eq!(asks("Upgrade", "WebSocket", true).as_deref(), Some("websocket"));
        assert_eq!(asks("keep-alive, Upgrade", "tcp", false).as_deref(), Some("tcp"));
        for (connection, upgrade, strict) in [
            ("Upgrade", "tcp", true),
            ("Upgrade", "h2c", false),
            ("Upgrade, HTTP2-Settings", "H2C", false),
            ("Upgrade", "HTTP/2.0", false),
            ("Upgrade", "websocket, h2c", false),
            ("Upgrade", "", false),
            ("close", "websocket", false),
        ] {
            assert_eq!(asks(connection, upgrade, strict), None, "{upgrade}");
        }
        let mut headers = HeaderMap::new();
        set(&mut headers, "websocket");
        assert!(agreed(&headers, "websocket") && !agreed(&headers, "tcp"));
        assert_eq!(wanted(&Method::GET, Version::HTTP_10, &headers, false), None);
    }
}
