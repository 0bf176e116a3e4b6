//! Secrets on their way through TLS that ends here.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::{Response, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::tests::{NAME, PORT, RULE, STAND_IN, VALUE, connect, denied, post, scene, stage_with, start};
use crate::http::testing::*;
use crate::lock::Lock;
use crate::testing::{Scene, Stage};

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
        // As .NET, Go, JavaScript and PHP write it in JSON and HTML; and a dump of its bytes.
        let written = [
            "ghp_planted/Value\\u002B0123456789",
            "ghp_planted/Value&#43;0123456789",
            "ghp_planted&#x2F;Value+0123456789",
            "ghp&#95;planted&#47;Value&#43;0123456789",
            "6768705f706c616e7465642f56616c75652b30313233343536373839",
            "6768705F706C616E7465642F56616C75652B30313233343536373839",
        ];
        let text = text + &written.join(" ") + " ";
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
        assert!(answer.matches(STAND_IN).count() >= 11, "{answer:.2000}");
        assert!(!answer.to_ascii_lowercase().contains("706c616e746564"), "{answer:.2000}");
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

/// What it was given over TLS it gives out on its other ports, in clear and over TLS, which the secret is not for.
#[tokio::test]
async fn a_host_that_keeps_the_value_gives_it_to_nobody_inside() {
    let trust = Trust::new();
    let kept = Arc::<Lock<String>>::default();
    let keep = kept.clone();
    let storing = Origin::tls_answering(trust.server(&Identity::of(NAME)), move |seen| {
        *keep.lock() = seen.header("x-token").unwrap_or_default();
        Response::new(crate::http::text("stored".into()))
    });
    let storing = storing.await;
    let give_out = |kept: Arc<Lock<String>>| {
        move |seen: &Seen| {
            let value = kept.lock().clone();
            let basic = STANDARD.encode(format!("someone:{value}"));
            let mut response = Response::new(crate::http::text(format!("<{value}> {basic}\n")));
            response.headers_mut().insert("x-kept", value.parse().unwrap());
            assert_eq!(seen.header("accept-encoding").as_deref(), Some("identity"));
            response
        }
    };
    let clear = Origin::answering(give_out(kept.clone())).await;
    let other = Origin::tls_answering(trust.server(&Identity::of(NAME)), give_out(kept.clone())).await;
    let mut scene = Scene::allow(&["api.example.com:8443", "api.example.com:8080", "api.example.com:9443"]);
    let secret = add_secret(&mut scene, "TOKEN=env:TOKEN@api.example.com:8443", VALUE, STAND_IN);
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    let scene = scene.leading(NAME, storing.address).leading("api.example.com:8080", clear.address);
    let stage = Stage::start(scene.leading("api.example.com:9443", other.address)).await;
    let header = format!("X-Token: {STAND_IN}");
    stdout(&curl(&stage, &[(NAME, PORT)], &["-H", &header, "https://api.example.com:8443/"]).await);
    assert_eq!(*kept.lock(), VALUE);
    let proxy = format!("http://{}", stage.http_proxy);
    for (port, origin, more, url) in [
        (8080, &clear, ["--http1.1", "-i"], "http://api.example.com:8080/"),
        (8080, &clear, ["--http2-prior-knowledge", "-i"], "http://api.example.com:8080/"),
        (8080, &clear, ["--proxy", proxy.as_str()], "http://api.example.com:8080/"),
        (9443, &other, ["--http1.1", "-i"], "https://api.example.com:9443/"),
    ] {
        let arguments = ["-i", more[0], more[1], "-H", &header, url];
        let answer = stdout(&curl(&stage, &[(NAME, port)], &arguments).await);
        assert!(!answer.contains("planted"), "{url}: {answer}");
        assert!(!answer.contains(&STANDARD.encode(format!("someone:{VALUE}"))[12..24]), "{url}: {answer}");
        assert!(answer.contains(&format!("<{STAND_IN}>")), "{url}: {answer}");
        assert!(answer.contains(&format!("x-kept: {STAND_IN}")), "{url}: {answer}");
        assert_eq!(
            origin.last().header("x-token").as_deref(),
            Some(STAND_IN),
            "{url}: it is not for that port"
        );
    }
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
