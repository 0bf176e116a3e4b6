//! The HTTP proxy, with curl and raw clients.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::event::Event;
use crate::http::testing::*;
use crate::testing::{Scene, Stage};

const ONE: &str = "one.example.com";
const TWO: &str = "two.example.com";

async fn stage() -> (Stage, Origin, Origin) {
    let (one, two) = (Origin::clear().await, Origin::clear().await);
    let scene = Scene::allow(&["one.example.com:8081", "two.example.com:8082"]);
    let stage = Stage::start(scene.leading(ONE, one.address).leading(TWO, two.address)).await;
    (stage, one, two)
}

async fn client(stage: &Stage) -> TcpStream {
    TcpStream::connect(stage.http_proxy).await.unwrap()
}

fn proxy(stage: &Stage) -> String {
    format!("http://{}", stage.http_proxy)
}

async fn denied(stage: &Stage) -> (String, Option<u16>, NetworkReason) {
    stage
        .event(|event| match event {
            Event::Denied { host, port, reason, .. } => Some((host.clone(), *port, reason.clone())),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn curl_by_tunnel_and_in_absolute_form() {
    let (stage, one, two) = stage().await;
    let proxy = proxy(&stage);
    // Two hosts, one connection to the proxy.
    let urls = ["http://one.example.com:8081/a", "http://two.example.com:8082/b"];
    let body = stdout(&curl(&stage, &[], &["-x", &proxy, urls[0], urls[1], urls[0]]).await);
    assert_eq!((body.matches("GET /a\n").count(), body.matches("GET /b\n").count()), (2, 1), "{body}");
    assert_eq!(one.last().header("host").as_deref(), Some("one.example.com:8081"));
    assert_eq!(one.last().header("proxy-connection"), None);
    let body = stdout(&curl(&stage, &[], &["-x", &proxy, "-p", urls[1]]).await);
    assert!(body.starts_with("GET /b\n"), "{body}");
    assert_eq!(two.seen().len(), 2);
    let via = stage.event(|event| match event {
        Event::Opened { via, host, port, .. } => Some((*via, host.clone(), *port)),
        _ => None,
    });
    assert_eq!(via.await, (Via::HttpProxy, ONE.to_owned(), 8081));
}

#[tokio::test]
async fn what_is_not_granted_is_refused_with_its_reason() {
    let (stage, ..) = stage().await;
    for request in [
        "CONNECT evil.example.com:443 HTTP/1.1\r\nHost: evil.example.com:443\r\n\r\n",
        "GET http://evil.example.com:443/ HTTP/1.1\r\nHost: evil.example.com:443\r\n\r\n",
    ] {
        let answer = raw(client(&stage).await, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("--allow-host evil.example.com"), "{answer}");
    }
    assert_eq!(denied(&stage).await, ("evil.example.com".into(), Some(443), NetworkReason::NotGranted));
    for target in [
        "one.example.com:8082",
        "127.0.0.1:8081",
        "0x7f.1:8081",
        "[::1]:8081",
        "one.example.com.evil.test:8081",
    ] {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        let answer = raw(client(&stage).await, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{target}: {answer}");
    }
}

#[tokio::test]
async fn what_is_no_request_to_a_proxy() {
    let (stage, one, _) = stage().await;
    let host = "Host: one.example.com:8081\r\n";
    for request in [
        format!("GET / HTTP/1.1\r\n{host}\r\n"),
        format!("GET https://one.example.com:8081/ HTTP/1.1\r\n{host}\r\n"),
        format!("GET http://u:p@one.example.com:8081/ HTTP/1.1\r\n{host}\r\n"),
        "GET http://one.example.com:8081/ HTTP/1.1\r\nHost: two.example.com:8082\r\n\r\n".to_owned(),
        "CONNECT one.example.com:8081 HTTP/1.1\r\nHost: two.example.com:8082\r\n\r\n".to_owned(),
        "CONNECT u@one.example.com:8081 HTTP/1.1\r\n\r\n".to_owned(),
        format!("CONNECT one.example.com HTTP/1.1\r\n{host}\r\n"),
        format!("CONNECT / HTTP/1.1\r\n{host}\r\n"),
        format!(
            "POST http://one.example.com:8081/ HTTP/1.1\r\n{host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        format!("GET http://one.example.com:8081/ HTTP/1.1\r\n{host}{host}\r\n"),
    ] {
        let answer = raw(client(&stage).await, request.as_bytes()).await;
        let status = answer.get(9..12).unwrap_or_default();
        assert!(["400", "403"].contains(&status), "{request}: {answer}");
    }
    assert_eq!(one.seen().len(), 0);
    let reasons = stage
        .all(10, |event| match event {
            Event::Denied { host, port, reason, .. } => Some((host.clone(), *port, reason.clone())),
            _ => None,
        })
        .await;
    assert_eq!(reasons.len(), 10, "{reasons:#?}");
    let why = NetworkReason::Malformed { why: "this is a proxy: the target must be a whole URL".into() };
    assert_eq!(reasons[0], ("198.18.0.2".into(), Some(3128), why));
    let why = NetworkReason::Malformed { why: "its target and its Host differ".into() };
    assert!(reasons.contains(&(ONE.into(), Some(8081), why)), "{reasons:#?}");
}

#[tokio::test]
async fn a_tunnel_holds_what_was_sent_ahead_and_is_judged_like_any_connection() {
    let (stage, one, _) = stage().await;
    let connect = "CONNECT one.example.com:8081 HTTP/1.1\r\nHost: one.example.com:8081\r\n\r\n";
    let ahead = "GET /ahead HTTP/1.1\r\nHost: one.example.com:8081\r\nConnection: close\r\n\r\n";
    let answer = raw(client(&stage).await, format!("{connect}{ahead}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("GET /ahead\n"), "{answer}");
    // Inside the tunnel the name is still the one that was granted.
    let other = ahead.replace("one.example.com", "other.example.com");
    let answer = raw(client(&stage).await, format!("{connect}{other}").as_bytes()).await;
    assert!(answer.contains("HTTP/1.1 403 "), "{answer}");
    assert_eq!(one.seen().len(), 1);
}

#[tokio::test]
async fn a_dead_host_is_said_in_the_answer_to_connect() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = Stage::start(Scene::allow(&["one.example.com:8081"]).leading(ONE, closed)).await;
    for request in
        ["CONNECT one.example.com:8081 HTTP/1.1\r\n\r\n", "GET http://one.example.com:8081/ HTTP/1.1\r\n\r\n"]
    {
        // HTTP/1.1 wants a Host.
        let request = request.replace("\r\n\r\n", "\r\nHost: one.example.com:8081\r\n\r\n");
        let answer = raw(client(&stage).await, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }
}

#[tokio::test]
async fn secrets_go_through_a_tunnel_too() {
    let trust = Trust::new();
    let origin = Origin::tls(trust.server(&Identity::of(ONE))).await;
    let mut scene = Scene::allow(&["one.example.com:8443"]);
    let secret = add_secret(&mut scene, "T=env:T@one.example.com", "planted-value-42", "stand-in-for-it");
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    let stage = Stage::start(scene.leading(ONE, origin.address)).await;
    let arguments = ["-x", &proxy(&stage), "-H", "X-Token: stand-in-for-it", "https://one.example.com:8443/"];
    let body = stdout(&curl(&stage, &[], &arguments).await);
    assert_eq!(origin.last().header("x-token").as_deref(), Some("planted-value-42"));
    assert!(body.contains("x-token: stand-in-for-it\n"), "{body}");
    let socks = stage.socks_proxy.to_string();
    let arguments =
        ["--socks5-hostname", &socks, "-H", "X-Token: stand-in-for-it", "https://one.example.com:8443/"];
    stdout(&curl(&stage, &[], &arguments).await);
    assert_eq!(origin.seen().len(), 2);
    assert_eq!(origin.last().header("x-token").as_deref(), Some("planted-value-42"));
}

#[tokio::test]
async fn a_place_among_the_connections_is_taken_once() {
    let (one, two) = (Origin::clear().await, Origin::clear().await);
    let mut scene = Scene::allow(&["one.example.com:8081", "two.example.com:8082"]);
    scene.connections = 1;
    let stage = Stage::start(scene.leading(ONE, one.address).leading(TWO, two.address)).await;
    let mut client = client(&stage).await;
    for (host, port) in [(ONE, 8081), (ONE, 8081), (TWO, 8082)] {
        let request = format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let answer = one_answer(&mut client).await;
        assert!(answer.contains(" 200 "), "{answer}");
    }
    let request = b"CONNECT one.example.com:8081 HTTP/1.1\r\nHost: one.example.com:8081\r\n\r\n";
    let answer = raw(TcpStream::connect(stage.http_proxy).await.unwrap(), request).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let mut rest = [0];
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(50), client.read(&mut rest)).await.is_err()
    );
}

#[tokio::test]
async fn an_address_that_was_given_for_a_name_is_that_name() {
    let (stage, one, _) = stage().await;
    let address = stage.address_of(ONE).await.unwrap();
    let request = "GET /x HTTP/1.1\r\nHost: one.example.com:8081\r\nConnection: close\r\n\r\n";
    for host in [format!("{address}:8081"), "one.example.com:8081".to_owned()] {
        let connect = format!("CONNECT {address}:8081 HTTP/1.1\r\nHost: {host}\r\n\r\n{request}");
        let answer = raw(client(&stage).await, connect.as_bytes()).await;
        assert!(answer.contains("GET /x\n"), "{answer}");
        let absolute =
            format!("GET http://{address}:8081/y HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = raw(client(&stage).await, absolute.as_bytes()).await;
        assert!(answer.contains("GET /y\n"), "{answer}");
        // The server is told the name, not what stands for it inside.
        assert_eq!(one.last().header("host").as_deref(), Some("one.example.com:8081"));
    }
    let opened = stage.event(|event| match event {
        Event::Opened { host, port, .. } => Some((host.clone(), *port)),
        _ => None,
    });
    assert_eq!(opened.await, (ONE.to_owned(), 8081));
    for target in [format!("{address}:8082"), "198.18.200.200:8081".to_owned()] {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        let answer = raw(client(&stage).await, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{target}: {answer}");
    }
}
