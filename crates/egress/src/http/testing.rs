//! For tests: hosts on loopback that remember what they were asked, with certificates of every sort, and clients.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::UPGRADE;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use ringfence_policy::{HttpRule, SecretRule};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::body::{Body, empty, text};
use crate::lock::Lock;
use crate::secrets::{Secret, Secrets};
use crate::setup::Setup;
use crate::terminate::Terminator;
use crate::testing::{Scene, Stage};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A request as a host received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

type Handler = Arc<dyn Fn(&Seen) -> Response<Body> + Send + Sync>;

/// A host that answers, and remembers.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    seen: Arc<Lock<Vec<Seen>>>,
}

impl Origin {
    /// In clear, HTTP/1 or HTTP/2; says back what it got.
    pub(crate) async fn clear() -> Self {
        Self::start(None, Arc::new(echo)).await
    }

    pub(crate) async fn answering(handler: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(handler)).await
    }

    pub(crate) async fn tls(config: ServerConfig) -> Self {
        Self::start(Some(config), Arc::new(echo)).await
    }

    pub(crate) async fn tls_answering(
        config: ServerConfig,
        handler: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(config), Arc::new(handler)).await
    }

    async fn start(config: Option<ServerConfig>, handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let acceptor = config.map(|config| TlsAcceptor::from(Arc::new(config)));
        let seen = origin.seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen, handler) = (acceptor.clone(), seen.clone(), handler.clone());
                tokio::spawn(async move {
                    match acceptor {
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else { return };
                            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                            serve(stream, is_h2, seen, handler).await;
                        }
                        None => {
                            let mut first = [0; 3];
                            let is_h2 = stream.peek(&mut first).await.is_ok() && first == *b"PRI";
                            serve(stream, is_h2, seen, handler).await;
                        }
                    }
                });
            }
        });
        origin
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen().pop().expect("no request came")
    }
}

async fn serve<S>(stream: S, is_h2: bool, seen: Arc<Lock<Vec<Seen>>>, handler: Handler)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(request, seen.clone(), handler.clone()));
    let stream = TokioIo::new(stream);
    if is_h2 {
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(stream, service).await;
    } else {
        let server = hyper::server::conn::http1::Builder::new();
        let _ = server.serve_connection(stream, service).with_upgrades().await;
    }
}

async fn answer(
    mut request: Request<Incoming>,
    seen: Arc<Lock<Vec<Seen>>>,
    handler: Handler,
) -> Result<Response<Body>, hyper::Error> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, body) = request.into_parts();
    let collected = body.collect().await?;
    let it = Seen {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        version: parts.version,
        headers: parts.headers,
        trailers: collected.trailers().cloned(),
        body: collected.to_bytes().to_vec(),
    };
    seen.lock().push(it.clone());
    let protocol = it.header("upgrade").filter(|_| it.target.ends_with("/upgrade"));
    let Some(protocol) = protocol else { return Ok(handler(&it)) };
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            let _ = stream.write_all(&buffer[..count]).await;
        }
    });
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert("connection", "upgrade".parse().unwrap());
    response.headers_mut().insert(UPGRADE, protocol.parse().unwrap());
    Ok(response)
}

/// What was asked, as text.
pub(crate) fn echo(seen: &Seen) -> Response<Body> {
    let mut out = format!("{} {}\n", seen.method, seen.target);
    for (name, value) in &seen.headers {
        out += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
    }
    out += &String::from_utf8_lossy(&seen.body);
    Response::new(text(out))
}

/// The authority that a test's machine trusts.
pub(crate) struct Trust(CertifiedIssuer<'static, KeyPair>);

/// A certificate for a host.
pub(crate) struct Identity {
    pub(crate) names: Vec<String>,
    pub(crate) expired: bool,
    pub(crate) self_signed: bool,
    pub(crate) wants_client_certificate: bool,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) alpn: Vec<&'static str>,
}

impl Identity {
    pub(crate) fn of(name: &str) -> Self {
        Self {
            names: vec![name.to_owned()],
            expired: false,
            self_signed: false,
            wants_client_certificate: false,
            versions: rustls::ALL_VERSIONS.to_vec(),
            alpn: vec!["h2", "http/1.1"],
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Trust {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "An authority that is trusted");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    pub(crate) fn server(&self, identity: &Identity) -> ServerConfig {
        let mut params = CertificateParams::new(identity.names.clone()).unwrap();
        if identity.expired {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate =
            if identity.self_signed { params.self_signed(&key) } else { params.signed_by(&key, &self.0) };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&identity.versions)
            .unwrap();
        let builder = if identity.wants_client_certificate {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()), provider())
                .build()
                .unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(vec![certificate.unwrap().der().clone()], key).unwrap();
        config.alpn_protocols = identity.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// What the sandbox's egress has, trusting this.
    pub(crate) fn terminator(&self, scene: &Scene, secrets: Vec<Secret>) -> Terminator {
        let setup = Setup {
            network: scene.network.clone(),
            secrets: Vec::new(),
            upstream: Default::default(),
            connections: None,
            bandwidth: None,
            learn: false,
            become_id: None,
            secret_store: Default::default(),
            written: Vec::new(),
        };
        Terminator::trusting(self.roots(), &setup, Secrets::of(secrets)).unwrap()
    }
}

/// Add a secret to a scene's policy: its rule, and the secret as it would have been fetched.
pub(crate) fn add_secret(scene: &mut Scene, rule: &str, value: &str, placeholder: &str) -> Secret {
    let rule = SecretRule::parse(rule).unwrap();
    let body = rule.body;
    scene.network.secrets.push(rule);
    let index = scene.network.secrets.len() - 1;
    Secret { placeholder: placeholder.into(), value: value.into(), rule: index, body }
}

pub(crate) fn http_rule(host: &str, methods: &[&str], paths: &[&str]) -> HttpRule {
    let list = |list: &[&str]| list.iter().map(|&item| item.to_owned()).collect();
    HttpRule { host: host.parse().unwrap(), methods: list(methods), paths: list(paths) }
}

/// Everything that comes back for these bytes.
pub(crate) async fn raw(mut stream: TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Up to the end of a head and a body with a length.
pub(crate) async fn one_answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    timeout(PATIENCE, async {
        while !answer.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap() == 1 {
            answer.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        answer.extend_from_slice(&body);
    })
    .await
    .expect("no whole answer");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A TLS client inside, which trusts the sandbox's authority.
pub(crate) async fn tls_client(
    stage: &Stage,
    name: &str,
    port: u16,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let pem = stage.gate.terminator().unwrap().authority_pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = stage.connect(name, port).await;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    timeout(PATIENCE, TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
}

/// Send one request over a stream that speaks HTTP/2, or HTTP/1; the answer with its whole body.
pub(crate) async fn ask<S>(stream: S, is_h2: bool, request: Request<Body>) -> (Response<()>, String)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let response = timeout(PATIENCE, async {
        if is_h2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        }
    });
    let (parts, body) = response.await.unwrap().into_parts();
    let body = timeout(PATIENCE, body.collect()).await.unwrap().unwrap().to_bytes();
    (Response::from_parts(parts, ()), String::from_utf8_lossy(&body).into_owned())
}

/// The real curl, inside: names lead where the sandbox's DNS says, and its authority is trusted.
pub(crate) async fn curl(stage: &Stage, hosts: &[(&str, u16)], arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("curl");
    command.args(["-sS", "-m", "20", "--noproxy", ""]);
    if let Some(terminator) = stage.gate.terminator() {
        let bundle = directory.path().join("authority.pem");
        std::fs::write(&bundle, terminator.authority_pem()).unwrap();
        command.arg("--cacert").arg(bundle);
    }
    for (name, port) in hosts {
        let address = stage.address_of(name).await.unwrap();
        command.args(["--resolve", &format!("{name}:{port}:{address}")]);
    }
    command.args(arguments);
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("curl is installed")).await.unwrap();
    drop(directory);
    output
}

pub(crate) fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
