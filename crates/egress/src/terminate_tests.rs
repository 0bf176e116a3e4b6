//! TLS that ends here, with real clients and hosts on loopback.

use hyper::{Request, Version};
use ringfence_policy::NetworkReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::client::TlsStream;

use crate::event::Event;
use crate::http::testing::*;
use crate::http::{Body, empty};
use crate::testing::{Scene, Stage};

pub(super) const NAME: &str = "api.example.com";
pub(super) const PORT: u16 = 8443;
pub(super) const VALUE: &str = "ghp_planted/Value+0123456789";
pub(super) const STAND_IN: &str = "ringfence-stand-in-77f0c1";
pub(super) const RULE: &str = "TOKEN=env:TOKEN@api.example.com";

pub(super) fn scene() -> Scene {
    Scene::allow(&["api.example.com:8443", "other.example.com:8443"])
}

/// A host with one secret.
pub(super) async fn stage_with(rule: &str, identity: &Identity) -> (Stage, Origin) {
    let trust = Trust::new();
    let origin = Origin::tls(trust.server(identity)).await;
    (start(scene(), rule, &trust, &origin).await, origin)
}

pub(super) async fn start(mut scene: Scene, rule: &str, trust: &Trust, origin: &Origin) -> Stage {
    let secret = add_secret(&mut scene, rule, VALUE, STAND_IN);
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    Stage::start(scene.leading(NAME, origin.address)).await
}

pub(super) fn post(version: Version, body: &str) -> Request<Body> {
    let target = if version == Version::HTTP_2 { "https://api.example.com:8443/x" } else { "/x" };
    let request = Request::builder().method("POST").uri(target).version(version);
    let request =
        if version == Version::HTTP_2 { request } else { request.header("host", "api.example.com:8443") };
    request
        .header("authorization", format!("Bearer {STAND_IN}"))
        .header("x-basic", "1")
        .body(crate::http::text(body.to_owned()))
        .unwrap()
}

pub(super) async fn connect(stage: &Stage, alpn: &str) -> TlsStream<tokio::net::TcpStream> {
    tls_client(stage, NAME, PORT, &[alpn]).await.unwrap()
}

pub(super) async fn denied(stage: &Stage) -> NetworkReason {
    stage
        .event(|event| match event {
            Event::Denied { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_certificate_that_does_not_hold_is_said_and_nothing_is_sent() {
    type Spoil = fn(&mut Identity);
    let cases: [(&str, Spoil); 4] = [
        ("expired", |identity| identity.expired = true),
        ("self-signed", |identity| identity.self_signed = true),
        ("another name", |identity| identity.names = vec!["other.example.com".into()]),
        ("client certificate", |identity| identity.wants_client_certificate = true),
    ];
    for (why, spoil) in cases {
        for versions in [vec![&rustls::version::TLS12], vec![&rustls::version::TLS13]] {
            let mut identity = Identity { versions, ..Identity::of(NAME) };
            spoil(&mut identity);
            let (stage, origin) = stage_with(RULE, &identity).await;
            for alpn in ["http/1.1", "h2"] {
                let version = if alpn == "h2" { Version::HTTP_2 } else { Version::HTTP_11 };
                let (response, body) =
                    ask(connect(&stage, alpn).await, alpn == "h2", post(version, "")).await;
                assert_eq!(response.status(), 502, "{why}: {body}");
                assert!(body.contains(why), "{why}: {body}");
            }
            assert_eq!(origin.seen().len(), 0);
            match denied(&stage).await {
                NetworkReason::Certificate { why: said } => assert!(said.contains(why), "{why}: {said}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn rules_hold_for_each_request() {
    let trust = Trust::new();
    let origin = Origin::tls(trust.server(&Identity::of(NAME))).await;
    let mut scene = scene();
    scene.network.http.push(http_rule(NAME, &["GET"], &["/repos"]));
    scene.terminator = Some(trust.terminator(&scene, Vec::new()));
    let stage = Stage::start(scene.leading(NAME, origin.address)).await;
    let get = |path: &str, extra: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: api.example.com:8443\r\n{extra}\r\n").into_bytes()
    };
    let mut client = connect(&stage, "http/1.1").await;
    for path in ["/repos", "/repos/x?y=/../z", "/repos/%61"] {
        client.write_all(&get(path, "")).await.unwrap();
        let answer = one_answer(&mut client).await;
        assert!(answer.contains(" 200 "), "{path}: {answer}");
    }
    let asked = origin.seen().len();
    let post = b"POST /repos HTTP/1.1\r\nHost: api.example.com:8443\r\nContent-Length: 0\r\n\r\n".to_vec();
    for request in [
        post,
        get("/", ""),
        get("/repository", ""),
        get("/repos/../user", ""),
        get("/repos/%2e%2e/user", ""),
        get("/repos/..%2fuser", ""),
        get("/repos/%252e%252e/user", ""),
        get("//repos", ""),
        get("/repos\\..\\user", ""),
        get("/repos/x", "X-HTTP-Method-Override: DELETE\r\n"),
        get("/repos/x", "X-Original-URL: /user\r\n"),
        get("/repos/x", "X-Original-URI: /user\r\n"),
        get("/repos/x", "X-Forwarded-Uri: /user\r\n"),
        get("/repos/x", "X-Forwarded-Path: /user\r\n"),
        get("/repos/x", "X-Forwarded-Host: other.example.com\r\n"),
        get("/repos/x", "X-Host: other.example.com\r\n"),
        get("/repos/x", "Forwarded: for=192.0.2.1;host=other.example.com\r\n"),
        get("https://api.example.com:8443/user", ""),
    ] {
        let mut client = connect(&stage, "http/1.1").await;
        client.write_all(&request).await.unwrap();
        let answer = one_answer(&mut client).await;
        let status = &answer[9..12];
        assert!(status == "403" || status == "400", "{}: {answer}", String::from_utf8_lossy(&request));
    }
    assert_eq!(origin.seen().len(), asked);
    assert!(matches!(denied(&stage).await, NetworkReason::Http { .. }));
    let request =
        Request::builder().method("DELETE").uri("https://api.example.com:8443/repos").body(empty()).unwrap();
    let (response, body) = ask(connect(&stage, "h2").await, true, request).await;
    assert_eq!(response.status(), 403);
    assert!(body.contains("DELETE") && body.contains("api.example.com"), "{body}");
}

#[tokio::test]
async fn both_sides_speak_the_same() {
    // The client could do both, the host only one.
    for (alpn, version) in
        [(vec!["http/1.1"], Version::HTTP_11), (vec!["h2"], Version::HTTP_2), (vec![], Version::HTTP_11)]
    {
        let (stage, origin) = stage_with(RULE, &Identity { alpn, ..Identity::of(NAME) }).await;
        let client = tls_client(&stage, NAME, PORT, &["h2", "http/1.1"]).await.unwrap();
        let is_h2 = client.get_ref().1.alpn_protocol() == Some(b"h2");
        assert_eq!(is_h2, version == Version::HTTP_2);
        let (response, _) = ask(client, is_h2, post(version, "")).await;
        assert_eq!((response.status().as_u16(), origin.last().version), (200, version));
    }
    // A client that does not say.
    let (stage, origin) = stage_with(RULE, &Identity::of(NAME)).await;
    let client = tls_client(&stage, NAME, PORT, &[]).await.unwrap();
    assert_eq!(ask(client, false, post(Version::HTTP_11, "")).await.0.status(), 200);
    assert_eq!(origin.last().version, Version::HTTP_11);
    // A client that wants only what the host has not.
    let (stage, _) = stage_with(RULE, &Identity { alpn: vec!["http/1.1"], ..Identity::of(NAME) }).await;
    let (response, _) = ask(connect(&stage, "h2").await, true, post(Version::HTTP_2, "")).await;
    assert_eq!(response.status(), 502);
    // And one that does not want HTTP.
    assert!(tls_client(&stage, NAME, PORT, &["imap"]).await.is_err());
    assert_eq!(denied(&stage).await, NetworkReason::NotHttp);
}

#[tokio::test]
async fn what_is_not_http_inside_tls_is_refused() {
    let (stage, origin) = stage_with(RULE, &Identity::of(NAME)).await;
    let mut client = connect(&stage, "http/1.1").await;
    client.write_all(b"\x00\x01\x02 not http at all\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "));
    assert_eq!(denied(&stage).await, NetworkReason::NotHttp);
    assert_eq!(origin.seen().len(), 0);
}

#[tokio::test]
async fn host_and_server_name_both_count() {
    let (stage, origin) = stage_with(RULE, &Identity::of(NAME)).await;
    let mut client = connect(&stage, "http/1.1").await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: other.example.com:8443\r\n\r\n").await.unwrap();
    assert!(one_answer(&mut client).await.starts_with("HTTP/1.1 403 "));
    let request = Request::builder().uri("https://other.example.com:8443/").body(empty()).unwrap();
    assert_eq!(ask(connect(&stage, "h2").await, true, request).await.0.status(), 403);
    assert_eq!(origin.seen().len(), 0);
}

#[tokio::test]
async fn a_host_that_can_not_be_reached_is_answered_for() {
    let trust = Trust::new();
    let mut scene = scene();
    let secret = add_secret(&mut scene, RULE, VALUE, STAND_IN);
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = Stage::start(scene.leading(NAME, closed)).await;
    for alpn in ["http/1.1", "h2"] {
        let version = if alpn == "h2" { Version::HTTP_2 } else { Version::HTTP_11 };
        let (response, body) = ask(connect(&stage, alpn).await, alpn == "h2", post(version, "")).await;
        assert_eq!(response.status(), 502);
        assert!(body.contains("refused"), "{body}");
    }
}

#[tokio::test]
async fn a_host_that_breaks_off_before_its_first_answer_is_answered_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closing = listener.local_addr().unwrap();
    let trust = Trust::new();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(
        trust.server(&Identity { alpn: vec!["http/1.1"], ..Identity::of(NAME) }),
    ));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut buffer = [0; 100];
            let _ = stream.read(&mut buffer).await;
        }
    });
    let mut scene = scene();
    let secret = add_secret(&mut scene, RULE, VALUE, STAND_IN);
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    let stage = Stage::start(scene.leading(NAME, closing)).await;
    let (response, body) = ask(connect(&stage, "http/1.1").await, false, post(Version::HTTP_11, "")).await;
    assert_eq!(response.status(), 502);
    assert!(body.contains("broke the connection off"), "{body}");
}
