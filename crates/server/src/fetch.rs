//! The server as a client: fetch a set of keys, send spans. HTTP/1.1 over rustls, with the host's certificates; nothing is
//! followed elsewhere, and what comes back is bounded in size and time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Which addresses may be asked without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Never,
    Loopback,
    Anywhere,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) plain: Plain,
    pub(crate) body: usize,
    pub(crate) time: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("`{0}` is no address to fetch from: it has no scheme http or https and no host")]
    Address(String),
    #[error("`{0}` would be fetched without TLS")]
    Plain(String),
    #[error("{host} can't be reached: {source}")]
    Reach { host: String, source: std::io::Error },
    #[error("{host} can't be asked: {source}")]
    Ask { host: String, source: hyper::Error },
    #[error("{0} did not answer in time")]
    Late(String),
    #[error("the answer of {host} can't be read, or is longer than {most} bytes")]
    Body { host: String, most: usize },
}

/// One request, and the whole answer.
pub(crate) async fn fetch(request: Request<Bytes>, bounds: Bounds) -> Result<Response<Bytes>, FetchError> {
    let target = Target::of(request.uri())?;
    let host = target.host.clone();
    tokio::time::timeout(bounds.time, target.ask(request, bounds))
        .await
        .unwrap_or(Err(FetchError::Late(host)))
}

struct Target {
    host: String,
    port: u16,
    secure: bool,
}

impl Target {
    fn of(uri: &Uri) -> Result<Self, FetchError> {
        let wrong = || FetchError::Address(without_query(uri));
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }), secure })
    }

    async fn ask(self, request: Request<Bytes>, bounds: Bounds) -> Result<Response<Bytes>, FetchError> {
        let reach = |source| FetchError::Reach { host: self.host.clone(), source };
        if !self.secure && bounds.plain == Plain::Never {
            return Err(FetchError::Plain(without_query(request.uri())));
        }
        let loopback_only = !self.secure && bounds.plain == Plain::Loopback;
        let mut found = None;
        for address in tokio::net::lookup_host((self.host.as_str(), self.port)).await.map_err(reach)? {
            // The address that was looked at is the one that is dialled.
            if loopback_only && !address.ip().is_loopback() {
                return Err(FetchError::Plain(without_query(request.uri())));
            }
            found = Some(TcpStream::connect(address).await);
            if matches!(found, Some(Ok(_))) {
                break;
            }
        }
        let nowhere = || std::io::Error::new(std::io::ErrorKind::NotFound, "it has no address");
        let stream = found.ok_or_else(nowhere).and_then(|tried| tried).map_err(reach)?;
        let _ = stream.set_nodelay(true);
        if !self.secure {
            return self.exchange(stream, request, bounds).await;
        }
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error| reach(std::io::Error::new(std::io::ErrorKind::InvalidInput, error)))?;
        let stream =
            TlsConnector::from(trust().map_err(reach)?).connect(name, stream).await.map_err(reach)?;
        self.exchange(stream, request, bounds).await
    }

    async fn exchange(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Bytes>,
        bounds: Bounds,
    ) -> Result<Response<Bytes>, FetchError> {
        let host = self.host;
        let ask = |source| FetchError::Ask { host: host.clone(), source };
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(64 << 10)
            .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(ask)?;
        // Ends with its answer; dropped with this future, so that nothing goes on after the deadline.
        let mut connection = tokio::task::JoinSet::from_iter([async move {
            let _ = connection.await;
        }]);
        let (mut parts, body) = request.into_parts();
        let authority =
            parts.uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        if let Ok(value) = HeaderValue::from_str(authority.rsplit('@').next().unwrap_or_default()) {
            parts.headers.insert(header::HOST, value);
        }
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(|_| FetchError::Address(path.to_owned()))?;
        let answer = sender.send_request(Request::from_parts(parts, Full::new(body))).await.map_err(ask)?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, bounds.body).collect().await;
        connection.abort_all();
        let body = body.map_err(|_| FetchError::Body { host, most: bounds.body })?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }
}

/// Queries may hold what is secret.
fn without_query(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("none");
    format!("{scheme}://{}{}", uri.host().unwrap_or_default(), uri.path())
}

/// Who is believed: the certificates of this host (SSL_CERT_FILE and SSL_CERT_DIR name others). Read once.
fn trust() -> std::io::Result<Arc<rustls::ClientConfig>> {
    static TRUST: OnceLock<Arc<rustls::ClientConfig>> = OnceLock::new();
    if let Some(known) = TRUST.get() {
        return Ok(Arc::clone(known));
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(std::io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
    Ok(Arc::clone(TRUST.get_or_init(|| Arc::new(config))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str, plain: Plain) -> Result<Response<Bytes>, FetchError> {
        let request = Request::get(url).body(Bytes::new()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(fetch(request, Bounds { plain, body: 1000, time: Duration::from_secs(20) }))
    }

    #[test]
    fn without_tls_nothing_goes_where_it_may_not() {
        // Documentation addresses: nothing is dialled, or this would be late and not refused.
        for url in ["http://192.0.2.1/", "http://[2001:db8::1]:80/keys?secret", "http://192.0.2.1:1/"] {
            for plain in [Plain::Never, Plain::Loopback] {
                let refused = asked(url, plain).unwrap_err();
                assert!(matches!(refused, FetchError::Plain(_)), "{refused}");
                assert!(!refused.to_string().contains("secret"), "{refused}");
            }
        }
        assert!(matches!(asked("http://127.0.0.1:1/", Plain::Never).unwrap_err(), FetchError::Plain(_)));
        assert!(matches!(
            asked("http://127.0.0.1:1/", Plain::Loopback).unwrap_err(),
            FetchError::Reach { .. }
        ));
        assert!(matches!(asked("ftp://127.0.0.1/", Plain::Anywhere).unwrap_err(), FetchError::Address(_)));
        assert!(matches!(asked("/keys", Plain::Anywhere).unwrap_err(), FetchError::Address(_)));
    }

    #[test]
    fn an_answer_is_bounded_and_not_followed() {
        use std::io::{Read, Write};
        let serve = |answer: String| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let served = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            });
            let told = asked(&url, Plain::Loopback);
            served.join().unwrap();
            told
        };
        let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n{}", "x".repeat(2000));
        assert!(matches!(serve(long).unwrap_err(), FetchError::Body { .. }));
        let elsewhere = "HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(serve(elsewhere.to_owned()).unwrap().status(), 302);
        assert!(matches!(serve("rubbish".into()).unwrap_err(), FetchError::Ask { .. }));
    }
}
