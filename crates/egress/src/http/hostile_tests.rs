//! Clients and hosts that mean no good.

use ringfence_policy::NetworkReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::testing::*;
use super::tests::{NAME, PORT, get, stage};
use crate::event::Event;
use crate::testing::{Scene, Stage};

fn denied(event: &Event) -> Option<NetworkReason> {
    match event {
        Event::Denied { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

/// A host that says these bytes to whatever it is asked.
async fn saying(words: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(words).await;
        }
    });
    address
}

#[tokio::test]
async fn nothing_ambiguous_leaves() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let host = "Host: web.example.com:8081\r\n";
    for request in [
        format!("POST / HTTP/1.1\r\n{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 1\r\n\r\na"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\na"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{host}{host}\r\n"),
        format!("GET / HTTP/1.1\r\n{host}X: a\r\n folded\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{host}X : a\r\n\r\n"),
        format!("GET / HTTP/1.1\n{host}\n"),
        format!("GET / HTTP/1.1\r\n{host}X: a\rY: b\r\n\r\n"),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        get("u@web.example.com:8081") + "\r\n",
        format!("GET http://other.example.com:8081/ HTTP/1.1\r\n{host}\r\n"),
        "GET http://web.example.com:8081/ HTTP/1.1\r\nHost: other.example.com\r\n\r\n".to_owned(),
        format!("GET https://web.example.com:8081/ HTTP/1.1\r\n{host}\r\n"),
        format!("CONNECT web.example.com:8081 HTTP/1.1\r\n{host}\r\n"),
        format!("GET / HTTP/9.9\r\n{host}\r\n"),
        format!("GET / HTTP/1.1\r\n{host}X: {}\r\n\r\n", "a".repeat(100_000)),
        format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X: a\r\n".repeat(200)),
    ] {
        let answer = raw(stage.connect(NAME, PORT).await, request.as_bytes()).await;
        let status = answer.get(9..12).unwrap_or_default();
        assert!(["400", "403", "431"].contains(&status), "{request:.300}: {answer}");
    }
    assert_eq!(origin.seen().len(), 0);
    // Each is a denial that says what was wrong.
    let reasons = stage.all(20, denied).await;
    assert_eq!(reasons.len(), 20, "{reasons:#?}");
    for reason in &reasons {
        match reason {
            NetworkReason::Malformed { why } => assert!(!why.is_empty() && why.len() <= 300, "{why}"),
            NetworkReason::HostHeader { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    let malformed = |words: &str| {
        let why = NetworkReason::Malformed { why: words.to_owned() };
        reasons.iter().filter(|reason| **reason == why).count()
    };
    assert_eq!(malformed("it has both Content-Length and Transfer-Encoding"), 2, "{reasons:#?}");
    assert_eq!(malformed("it has more than one Host"), 1, "{reasons:#?}");
    assert_eq!(malformed("it has no Host"), 1, "{reasons:#?}");
    // A body that looks like requests is a body.
    let inner = format!("GET /inner HTTP/1.1\r\n{host}\r\n");
    let outer = format!(
        "POST /outer HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    assert!(raw(stage.connect(NAME, PORT).await, outer.as_bytes()).await.contains(" 200 "));
    assert_eq!(origin.seen().iter().map(|seen| seen.target.as_str()).collect::<Vec<_>>(), ["/outer"]);
}

#[tokio::test]
async fn a_host_that_switches_unasked_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: tcp\r\n\r\n").await;
            let _ = stream.read(&mut buffer).await;
        }
    });
    let stage = Stage::start(Scene::allow(&["web.example.com:8081"]).leading(NAME, address)).await;
    for extra in ["\r\n", "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"] {
        let answer =
            raw(stage.connect(NAME, PORT).await, (get("web.example.com:8081") + extra).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_does_not_look_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
    });
    let stage = Stage::start(Scene::allow(&["web.example.com:8081"]).leading(NAME, address)).await;
    let answer =
        raw(stage.connect(NAME, PORT).await, (get("web.example.com:8081") + "\r\n").as_bytes()).await;
    assert!(answer.contains("abc") && !answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn answers_have_one_meaning_too() {
    let cases: [(&'static [u8], &str, &str); 7] = [
        (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200", "ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "200", "ok"),
        (b"HTTP/1.1 200 Injected-Reason\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nX: smuggled\r\n\r\n", "200", "ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", "502", ""),
        (b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n", "502", ""),
        (b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n", "502", ""),
        (b"SSH-2.0-OpenSSH\r\n", "502", ""),
    ];
    for (words, status, body) in cases {
        let address = saying(words).await;
        let stage = Stage::start(Scene::allow(&["web.example.com:8081"]).leading(NAME, address)).await;
        let request = get("web.example.com:8081") + "Connection: close\r\n\r\n";
        let answer = raw(stage.connect(NAME, PORT).await, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(!answer.contains("smuggled") && !answer.contains("Injected"), "{answer}");
        assert!(answer.contains(body), "{answer}");
    }
}
