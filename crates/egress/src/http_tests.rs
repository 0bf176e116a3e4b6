//! HTTP in clear, with real clients and hosts on loopback.

use hyper::{HeaderMap, Request, Response, Version};
use ringfence_policy::NetworkReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::body::{empty, text};
use super::testing::*;
use crate::event::Event;
use crate::testing::{Scene, Stage, rules};

pub(super) const NAME: &str = "web.example.com";
pub(super) const PORT: u16 = 8081;

pub(super) async fn stage(origin: &Origin) -> Stage {
    Stage::start(Scene::allow(&["web.example.com:8081"]).leading(NAME, origin.address)).await
}

/// `GET` for a host, to be continued.
pub(super) fn get(host: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: {host}\r\n")
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
async fn a_request_is_written_anew_and_its_answer_comes_back() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let request = get("Web.Example.com.:8081")
        + "X-Odd-Case: 1\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nProxy-Authorization: x\r\nKeep-Alive: 5\r\n\r\n";
    let mut client = stage.connect(NAME, PORT).await;
    for _ in 0..2 {
        client.write_all(request.as_bytes()).await.unwrap();
        let answer = one_answer(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("GET /x\n") && !answer.to_ascii_lowercase().contains("\r\nvia:"), "{answer}");
    }
    let seen = origin.last();
    assert_eq!(seen.header("host").as_deref(), Some("web.example.com:8081"));
    let mut names: Vec<&str> = seen.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["host", "x-odd-case"]);
    assert_eq!(origin.seen().len(), 2);
}

#[tokio::test]
async fn every_request_of_a_connection_is_for_the_granted_host() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all((get("web.example.com:8081") + "\r\n").as_bytes()).await.unwrap();
    assert!(one_answer(&mut client).await.contains(" 200 "));
    let answer = raw(client, (get("other.example.com:8081") + "\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("ringfence: ") && answer.contains("other.example.com"), "{answer}");
    assert_eq!(denied(&stage).await, NetworkReason::HostHeader { found: "other.example.com:8081".into() });
    assert_eq!(origin.seen().len(), 1);
}

#[tokio::test]
async fn the_port_of_a_host_counts_and_http_1_0_may_leave_it_out() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    // Without a port it means 80.
    for host in [NAME, "web.example.com:80", "web.example.com:8082"] {
        let answer = raw(stage.connect(NAME, PORT).await, (get(host) + "\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{host}: {answer}");
    }
    let answer = raw(stage.connect(NAME, PORT).await, b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.contains(" 200 OK\r\n"), "{answer}");
    assert_eq!(origin.last().header("host").as_deref(), Some("web.example.com:8081"));
    assert_eq!(origin.last().version, Version::HTTP_11);
}

/// Nobody can say which names an address has; what is denied stays so, and what has rules is reached by its own name.
#[tokio::test]
async fn an_address_may_be_called_by_a_name() {
    let origin = Origin::clear().await;
    let mut scene = Scene::allow(&["192.0.2.1:8081"]);
    scene.network.deny = rules(&["denied.example"]);
    scene.network.http.push(http_rule("ruled.example", &[], &[]));
    let stage = Stage::start(scene.leading("192.0.2.1", origin.address)).await;
    let ask = async |host: &str| {
        let mut client = TcpStream::connect(stage.http_proxy).await.unwrap();
        client.write_all(b"CONNECT 192.0.2.1:8081 HTTP/1.1\r\nHost: 192.0.2.1:8081\r\n\r\n").await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        client.write_all((get(host) + "\r\n").as_bytes()).await.unwrap();
        one_answer(&mut client).await
    };
    for (host, sent) in [
        ("192.0.2.1:8081", "192.0.2.1:8081"),
        ("web.example.com:8081", "web.example.com:8081"),
        ("Web.Example.com.:8081", "web.example.com:8081"),
    ] {
        let answer = ask(host).await;
        assert!(answer.contains(" 200 "), "{host}: {answer}");
        assert_eq!(origin.last().header("host").as_deref(), Some(sent));
    }
    let asked = origin.seen().len();
    for host in [
        "denied.example:8081",
        "ruled.example:8081",
        "localhost:8081",
        "web.example.com",
        "web.example.com:80",
        "192.0.2.2:8081",
    ] {
        let answer = ask(host).await;
        assert!(answer.contains(" 403 "), "{host}: {answer}");
    }
    assert_eq!(origin.seen().len(), asked);
    stage
        .event(|event| match event {
            Event::Denied { reason: NetworkReason::Denied { rule }, .. } => Some(rule.clone()),
            _ => None,
        })
        .await;
}

#[tokio::test]
async fn heads_of_requests_that_wait_have_a_bound_together() {
    let origin = Origin::clear().await;
    let mut scene = Scene::allow(&["web.example.com:8081"]).leading(NAME, origin.address);
    scene.heads = 2_000;
    let stage = Stage::start(scene).await;
    let large = format!("{}X-Large: {}\r\n\r\n", get("web.example.com:8081"), "y".repeat(3_000));
    let answer = raw(stage.connect(NAME, PORT).await, large.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("too many requests"), "{answer}");
    assert_eq!(origin.seen().len(), 0);
    // What was held is free again.
    for _ in 0..20 {
        let mut client = stage.connect(NAME, PORT).await;
        let small = format!("{}X-Small: {}\r\n\r\n", get("web.example.com:8081"), "y".repeat(1_000));
        client.write_all(small.as_bytes()).await.unwrap();
        assert!(one_answer(&mut client).await.contains(" 200 "));
    }
}

#[tokio::test]
async fn http_2_without_tls() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let request = |uri: &str| Request::builder().uri(uri).body(empty()).unwrap();
    let (response, body) =
        ask(stage.connect(NAME, PORT).await, true, request("http://web.example.com:8081/two")).await;
    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2), "{body}");
    assert_eq!(origin.last().version, Version::HTTP_2);
    let (response, body) =
        ask(stage.connect(NAME, PORT).await, true, request("http://evil.example.com/")).await;
    assert_eq!(response.status(), 403);
    assert!(body.contains("evil.example.com"), "{body}");
    assert_eq!(origin.seen().len(), 1);
}

#[tokio::test]
async fn curl_speaks_to_a_granted_host() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let url = "http://web.example.com:8081/curl?q=1";
    for version in ["--http1.0", "--http1.1", "--http2", "--http2-prior-knowledge"] {
        let body = stdout(&curl(&stage, &[(NAME, PORT)], &[version, "-d", "sent", url]).await);
        assert!(
            body.starts_with("POST ") && body.contains("/curl?q=1\n") && body.ends_with("sent"),
            "{version}: {body}"
        );
    }
    // An upgrade to HTTP/2 was asked for in one of them: nobody else heard of it.
    assert!(origin.seen().iter().all(|seen| seen.header("upgrade").is_none()));
    let large =
        curl(&stage, &[(NAME, PORT)], &["-H", "Expect: 100-continue", "-d", &"x".repeat(50_000), url]).await;
    assert!(stdout(&large).ends_with("xxx"));
}

#[tokio::test]
async fn bodies_and_trailers_pass_both_ways() {
    let origin = Origin::answering(|seen| {
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
        let body = http_body_util::BodyExt::with_trailers(
            http_body_util::Full::new(bytes::Bytes::from(seen.body.clone())),
            async move { Some(Ok(trailers)) },
        );
        let mut response = Response::new(super::body::boxed(body));
        response.headers_mut().insert("trailer", "x-sum".parse().unwrap());
        response.headers_mut().insert("transfer-encoding", "chunked".parse().unwrap());
        response
    })
    .await;
    let stage = stage(&origin).await;
    let request = "POST / HTTP/1.1\r\nHost: web.example.com:8081\r\nTE: trailers\r\nTrailer: x-mine\r\nConnection: TE, close\r\n\
                   Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Mine: 5\r\n\r\n";
    let answer = raw(stage.connect(NAME, PORT).await, request.as_bytes()).await;
    assert!(answer.contains("abcde") && answer.to_ascii_lowercase().contains("x-sum: 7"), "{answer}");
    let seen = origin.last();
    assert_eq!(seen.body, b"abcde");
    assert_eq!(seen.trailers.unwrap()["x-mine"], "5");
}

#[tokio::test]
async fn an_upgrade_that_both_want() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let ask = |protocol: &str| {
        format!(
            "GET /upgrade HTTP/1.1\r\nHost: web.example.com:8081\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        )
    };
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all(ask("websocket").as_bytes()).await.unwrap();
    let answer = one_answer(&mut client).await.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 101 ") && answer.contains("upgrade: websocket\r\n"), "{answer}");
    // No longer HTTP, whatever it looks like.
    for words in ["GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "\0\x01\x02"] {
        client.write_all(words.as_bytes()).await.unwrap();
        let mut back = vec![0; words.len()];
        client.read_exact(&mut back).await.unwrap();
        assert_eq!(back, words.as_bytes());
    }
    // The host would have agreed to this one.
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all(ask("h2c").as_bytes()).await.unwrap();
    assert!(one_answer(&mut client).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_host_that_closes_after_each_answer_is_dialled_again() {
    let origin = Origin::answering(|_| {
        let mut response = Response::new(text("bye".into()));
        response.headers_mut().insert("connection", "close".parse().unwrap());
        response
    })
    .await;
    let stage = stage(&origin).await;
    let mut client = stage.connect(NAME, PORT).await;
    for _ in 0..3 {
        client.write_all((get("web.example.com:8081") + "\r\n").as_bytes()).await.unwrap();
        assert!(one_answer(&mut client).await.ends_with("bye"));
    }
    assert_eq!(origin.seen().len(), 3);
}

#[tokio::test]
async fn what_can_not_be_reached_is_said() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let stage = Stage::start(Scene::allow(&["web.example.com:8081"]).leading(NAME, closed)).await;
    let answer =
        raw(stage.connect(NAME, PORT).await, (get("web.example.com:8081") + "\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("refused"), "{answer}");
}

#[tokio::test]
async fn the_users_own_proxy_is_asked_in_absolute_form() {
    let proxy = Origin::clear().await;
    let mut scene = Scene::allow(&["web.example.com:8081"]);
    scene.upstream.http = Some(format!("http://me:pass@{}", proxy.address));
    let stage = Stage::start(scene).await;
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all((get("web.example.com:8081") + "\r\n").as_bytes()).await.unwrap();
    let answer = one_answer(&mut client).await;
    assert!(answer.contains("GET http://web.example.com:8081/x\n"), "{answer}");
    assert_eq!(proxy.last().header("proxy-authorization").as_deref(), Some("Basic bWU6cGFzcw=="));
}

#[tokio::test]
async fn traffic_is_counted_and_the_end_reported() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let request = get("web.example.com:8081") + "Connection: close\r\n\r\n";
    assert!(raw(stage.connect(NAME, PORT).await, request.as_bytes()).await.contains(" 200 "));
    let (sent, received, error) = stage
        .event(|event| match event {
            Event::Closed { sent, received, error, .. } => Some((*sent, *received, error.clone())),
            _ => None,
        })
        .await;
    assert!(sent > 30 && received > 50, "{sent} {received}");
    assert_eq!(error, None);
}

#[tokio::test]
async fn requests_sent_at_once_are_answered_in_order() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let request = |n: u32| {
        format!("POST /{n} HTTP/1.1\r\nHost: web.example.com:8081\r\nContent-Length: 3\r\n\r\nb{n}c")
    };
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all((1..=3).map(request).collect::<String>().as_bytes()).await.unwrap();
    for n in 1..=3 {
        let answer = one_answer(&mut client).await;
        assert!(answer.contains(&format!("POST /{n}\n")) && answer.ends_with(&format!("b{n}c")), "{answer}");
    }
}

#[tokio::test]
async fn a_client_may_close_its_side_behind_the_request() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all((get("web.example.com:8081") + "\r\n").as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(one_answer(&mut client).await.contains("GET /x\n"));
}
