//! TLS that ends here, with real clients and hosts on loopback.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::{Request, Response, Version};
use ringfence_policy::NetworkReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::client::TlsStream;

use crate::event::Event;
use crate::http::testing::*;
use crate::http::{Body, empty};
use crate::testing::{Scene, Stage};

const NAME: &str = "api.example.com";
const PORT: u16 = 8443;
const VALUE: &str = "ghp_planted/Value+0123456789";
const STAND_IN: &str = "ringfence-stand-in-77f0c1";
const RULE: &str = "TOKEN=env:TOKEN@api.example.com";

fn scene() -> Scene {
    Scene::allow(&["api.example.com:8443", "other.example.com:8443"])
}

/// A host with one secret.
async fn stage_with(rule: &str, identity: &Identity) -> (Stage, Origin) {
    let trust = Trust::new();
    let origin = Origin::tls(trust.server(identity)).await;
    (start(scene(), rule, &trust, &origin).await, origin)
}

async fn start(mut scene: Scene, rule: &str, trust: &Trust, origin: &Origin) -> Stage {
    let secret = add_secret(&mut scene, rule, VALUE, STAND_IN);
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    Stage::start(scene.leading(NAME, origin.address)).await
}

fn post(version: Version, body: &str) -> Request<Body> {
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

async fn connect(stage: &Stage, alpn: &str) -> TlsStream<tokio::net::TcpStream> {
    tls_client(stage, NAME, PORT, &[alpn]).await.unwrap()
}

async fn denied(stage: &Stage) -> NetworkReason {
    stage
        .event(|event| match event {
            Event::Denied { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn the_host_gets_the_value_and_the_client_never_sees_it() {
    for (alpn, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
        let (stage, origin) = stage_with(RULE, &Identity::of(NAME)).await;
        let (response, body) = ask(connect(&stage, alpn).await, alpn == "h2", post(version, STAND_IN)).await;
        assert_eq!((response.status().as_u16(), response.version()), (200, version));
        let seen = origin.last();
        assert_eq!(seen.version, version);
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {VALUE}")));
        assert_eq!(seen.header("accept-encoding").as_deref(), Some("identity"));
        assert_eq!(seen.body, STAND_IN.as_bytes(), "bodies only when the rule says so");
        assert!(body.contains(&format!("authorization: Bearer {STAND_IN}\n")), "{body}");
        assert!(!body.contains("planted"), "{body}");
    }
}

#[tokio::test]
async fn curl_trusts_the_authority_and_sends_basic_authorization() {
    let (stage, origin) = stage_with(RULE, &Identity::of(NAME)).await;
    let url = "https://api.example.com:8443/curl";
    for (flag, version) in
        [("--http1.1", Version::HTTP_11), ("--http2", Version::HTTP_2), ("--tls-max", Version::HTTP_2)]
    {
        let mut arguments = vec![flag];
        if flag == "--tls-max" {
            arguments.push("1.2");
        }
        let user = format!("user:{STAND_IN}");
        arguments.extend(["-u", &user, "-i", url]);
        let body = stdout(&curl(&stage, &[(NAME, PORT)], &arguments).await);
        let seen = origin.last();
        assert_eq!(seen.version, version, "{flag}");
        let basic = STANDARD.encode(format!("user:{VALUE}"));
        assert_eq!(seen.header("authorization"), Some(format!("Basic {basic}")));
        assert!(body.contains(STAND_IN) && !body.contains(&basic[..20]), "{body}");
    }
}

#[tokio::test]
async fn bodies_are_filled_with_their_length_put_right() {
    let (stage, origin) = stage_with("TOKEN=env:TOKEN@api.example.com+body", &Identity::of(NAME)).await;
    let url = "https://api.example.com:8443/";
    let data = format!("token={STAND_IN}&x=1");
    stdout(&curl(&stage, &[(NAME, PORT)], &["--http1.1", "-d", &data, url]).await);
    let form = "token=ghp_planted%2FValue%2B0123456789&x=1";
    assert_eq!(String::from_utf8(origin.last().body).unwrap(), form);
    assert_eq!(origin.last().header("content-length"), Some(form.len().to_string()));

    // Larger than what is held as a whole: sent in chunks.
    let large = tempfile::NamedTempFile::new().unwrap();
    let text = format!("{}{STAND_IN}", "a".repeat(9_999)).repeat(60);
    std::fs::write(large.path(), &text).unwrap();
    let file = format!("@{}", large.path().display());
    for version in ["--http1.1", "--http2"] {
        let arguments =
            [version, "-H", "Content-Type: text/plain", "--data-binary", &file, "-o", "/dev/null", url];
        stdout(&curl(&stage, &[(NAME, PORT)], &arguments).await);
        let seen = origin.last();
        assert_eq!(seen.header("content-length"), None);
        assert!(seen.body == text.replace(STAND_IN, VALUE).as_bytes());
    }
}

#[tokio::test]
async fn every_form_in_an_answer_is_masked() {
    let trust = Trust::new();
    let config = trust.server(&Identity::of(NAME));
    let origin = Origin::tls_answering(config, |seen| {
        let basic = STANDARD.encode(format!("someone:{VALUE}"));
        let text =
            format!("{VALUE} {basic} ghp_planted%2FValue%2B0123456789 ghp_planted\\/Value+0123456789 ");
        let body = if seen.target.ends_with("large") { text.repeat(5_000) } else { text.clone() };
        let mut response = Response::new(crate::http::text(body));
        response.headers_mut().insert("x-echo", VALUE.parse().unwrap());
        response.headers_mut().insert("set-cookie", format!("t={basic}; Secure").parse().unwrap());
        response
    })
    .await;
    let stage = start(scene(), RULE, &trust, &origin).await;
    for (version, path) in
        [("--http1.1", "small"), ("--http1.1", "large"), ("--http2", "small"), ("--http2", "large")]
    {
        let url = format!("https://api.example.com:8443/{path}");
        let answer = stdout(&curl(&stage, &[(NAME, PORT)], &["-i", version, &url]).await);
        assert!(answer.matches(STAND_IN).count() >= 5, "{answer:.2000}");
        assert!(!answer.contains("planted"), "{answer:.2000}");
        assert!(!answer.contains(&STANDARD.encode(VALUE)[8..24]), "{answer:.2000}");
    }
}

#[tokio::test]
async fn no_other_host_gets_it_and_nobody_gets_it_in_clear() {
    let trust = Trust::new();
    let other = Origin::tls(trust.server(&Identity::of("other.example.com"))).await;
    let clear = Origin::clear().await;
    let mut scene = Scene::allow(&["api.example.com:8080", "other.example.com:8443"]);
    let secret = add_secret(&mut scene, RULE, VALUE, STAND_IN);
    // The other host's TLS ends here, too, for another reason.
    scene.network.http.push(http_rule("other.example.com", &[], &[]));
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    let stage =
        Stage::start(scene.leading("other.example.com", other.address).leading(NAME, clear.address)).await;
    let header = format!("X-Token: {STAND_IN}");
    for (name, port, origin, url) in [
        ("other.example.com", 8443, &other, "https://other.example.com:8443/"),
        (NAME, 8080, &clear, "http://api.example.com:8080/"),
    ] {
        stdout(&curl(&stage, &[(name, port)], &["-H", &header, url]).await);
        assert_eq!(origin.last().header("x-token").as_deref(), Some(STAND_IN), "{url}");
    }
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
async fn a_websocket_is_carried_and_what_it_echoes_is_covered() {
    let (stage, origin) = stage_with(RULE, &Identity::of(NAME)).await;
    let mut client = connect(&stage, "http/1.1").await;
    let ask = "GET /upgrade HTTP/1.1\r\nHost: api.example.com:8443\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
               Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
    client.write_all(ask.as_bytes()).await.unwrap();
    assert!(one_answer(&mut client).await.starts_with("HTTP/1.1 101 "));
    assert_eq!(origin.last().header("sec-websocket-extensions"), None);
    // A host that knows the value, played by a client that does.
    let frame = format!("\u{1}frame<{VALUE}>");
    client.write_all(frame.as_bytes()).await.unwrap();
    let mut back = vec![0; frame.len()];
    client.read_exact(&mut back).await.unwrap();
    assert_eq!(String::from_utf8(back).unwrap(), frame.replace(VALUE, &"*".repeat(VALUE.len())));
}

#[tokio::test]
async fn an_answer_in_which_nothing_can_be_masked_is_not_passed_on() {
    let trust = Trust::new();
    let origin = Origin::tls_answering(trust.server(&Identity::of(NAME)), |_| {
        let mut response = Response::new(crate::http::text("compressed".into()));
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response
    })
    .await;
    let stage = start(scene(), RULE, &trust, &origin).await;
    let mut request = post(Version::HTTP_11, "");
    request.headers_mut().insert("range", "bytes=1-2".parse().unwrap());
    request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
    let (response, body) = ask(connect(&stage, "http/1.1").await, false, request).await;
    assert_eq!(response.status(), 502);
    assert!(body.contains("compressed answer"), "{body}");
    assert_eq!(origin.last().header("range"), None);
    assert_eq!(origin.last().header("accept-encoding").as_deref(), Some("identity"));
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
async fn no_event_holds_a_value() {
    let (stage, _) = stage_with(RULE, &Identity::of(NAME)).await;
    ask(connect(&stage, "h2").await, true, post(Version::HTTP_2, "")).await;
    let mut client = connect(&stage, "http/1.1").await;
    client.write_all(format!("GET / HTTP/1.1\r\nHost: {STAND_IN}\r\n\r\n").as_bytes()).await.unwrap();
    one_answer(&mut client).await;
    denied(&stage).await;
    assert!(!format!("{:?}", stage.events()).contains("planted"));
}

#[tokio::test]
async fn a_message_that_ends_like_a_value_begins_is_not_kept_back() {
    let (stage, _) = stage_with(RULE, &Identity::of(NAME)).await;
    let mut client = connect(&stage, "http/1.1").await;
    let ask = "GET /upgrade HTTP/1.1\r\nHost: api.example.com:8443\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(ask.as_bytes()).await.unwrap();
    one_answer(&mut client).await;
    for message in ["ping", "pong", "high"] {
        client.write_all(message.as_bytes()).await.unwrap();
        let mut back = vec![0; message.len()];
        tokio::time::timeout(PATIENCE, client.read_exact(&mut back)).await.expect("it is kept back").unwrap();
        assert_eq!(back, message.as_bytes());
    }
}

#[tokio::test]
async fn trailers_are_masked_too() {
    let trust = Trust::new();
    let origin = Origin::tls_answering(trust.server(&Identity::of(NAME)), |_| {
        let trailers = hyper::HeaderMap::from_iter([("x-sum".parse().unwrap(), VALUE.parse().unwrap())]);
        let body = http_body_util::Full::new(bytes::Bytes::from("body"));
        let body = http_body_util::BodyExt::with_trailers(body, async move { Some(Ok(trailers)) });
        Response::new(crate::http::boxed(body))
    })
    .await;
    let stage = start(scene(), RULE, &trust, &origin).await;
    let stream = hyper_util::rt::TokioIo::new(connect(&stage, "h2").await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(post(Version::HTTP_2, "")).await.unwrap();
    let collected = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], STAND_IN);
    assert_eq!(collected.to_bytes(), "body");
}
