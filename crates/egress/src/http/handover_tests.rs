//! Large answers in clear, which are taken over from hyper. That one was shows in its `Connection: close`.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::body::{Body, boxed};
use super::exchange::LARGE;
use super::testing::*;
use super::tests::{NAME, PORT, get, stage};
use crate::event::Event;
use crate::testing::{Scene, Stage};

const LARGE_SIZE: usize = LARGE as usize;
const TAKEN: &str = "\r\nconnection: close\r\n";

/// No two places of it look the same.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn head(length: usize) -> String {
    format!(
        "HTTP/1.1 200 Fine\r\nX-Odd-Case: 1\r\nConnection: X-Mine\r\nX-Mine: 1\r\nContent-Length: {length}\r\n\r\n"
    )
}

fn request() -> String {
    get("web.example.com:8081") + "\r\n"
}

/// A host that does this once it was asked.
async fn host<F>(answer: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return };
                asked.push(byte);
            }
            tokio::spawn(answer(stream));
        }
    });
    address
}

async fn stage_to(address: SocketAddr) -> Stage {
    Stage::start(Scene::allow(&["web.example.com:8081"]).leading(NAME, address)).await
}

async fn asked(stage: &Stage, request: &str) -> TcpStream {
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all(request.as_bytes()).await.unwrap();
    client
}

/// The head, and everything behind it up to the end or an error.
async fn whole(client: &mut TcpStream) -> (String, Vec<u8>, std::io::Result<()>) {
    let mut answer = Vec::new();
    let ended = timeout(PATIENCE, client.read_to_end(&mut answer)).await.expect("the connection stays open");
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let body = answer.split_off(at);
    (String::from_utf8(answer).unwrap(), body, ended.map(|_| ()))
}

async fn closed(stage: &Stage) -> (u64, u64, Option<String>) {
    let pick = |event: &Event| match event {
        Event::Closed { sent, received, error, .. } => Some((*sent, *received, error.clone())),
        _ => None,
    };
    stage.event(pick).await
}

fn large(length: usize) -> Response<Body> {
    Response::new(boxed(Full::new(Bytes::from(pattern(length)))))
}

#[tokio::test]
async fn a_large_answer_arrives_byte_for_byte_and_is_counted() {
    const LENGTH: usize = 8 << 20;
    let address = host(|mut stream| async move {
        stream.write_all(head(LENGTH).as_bytes()).await.unwrap();
        stream.write_all(&pattern(LENGTH)).await.unwrap();
        // The connection stays: the length alone says where the body ends.
        sleep(PATIENCE).await;
    })
    .await;
    let stage = stage_to(address).await;
    let mut client = asked(&stage, &request()).await;
    let (said, body, ended) = whole(&mut client).await;
    ended.unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.contains("X-Odd-Case: 1\r\n"), "{said}");
    let said = said.to_ascii_lowercase();
    assert!(said.contains(TAKEN) && !said.contains("x-mine"), "{said}");
    assert_eq!(said.matches("content-length:").count(), 1, "{said}");
    assert!(body == pattern(LENGTH), "{} bytes", body.len());
    drop(client);
    let (sent, received, error) = closed(&stage).await;
    assert_eq!((received, error), ((head(LENGTH).len() + LENGTH) as u64, None));
    assert!(sent > 30);
}

#[tokio::test]
async fn only_from_a_certain_length_on() {
    let origin = Origin::answering(|seen| large(seen.target[1..].parse().unwrap())).await;
    let stage = stage(&origin).await;
    let mut client = stage.connect(NAME, PORT).await;
    // Below it a connection is kept, however many answers it brings.
    for (length, is_taken) in [(10, false), (LARGE_SIZE - 1, false), (0, false), (LARGE_SIZE, true)] {
        let request = format!("GET /{length} HTTP/1.1\r\nHost: web.example.com:8081\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            said.push(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap());
        }
        let said = String::from_utf8(said).unwrap().to_ascii_lowercase();
        assert_eq!(said.contains(TAKEN), is_taken, "{length}: {said}");
        let mut body = vec![0; length];
        timeout(PATIENCE, client.read_exact(&mut body)).await.unwrap().unwrap();
        assert!(body == pattern(length), "{length}");
    }
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(origin.seen().len(), 4);
}

#[tokio::test]
async fn a_host_that_takes_its_time() {
    let address = host(|mut stream| async move {
        stream.set_nodelay(true).unwrap();
        stream.write_all(head(LARGE_SIZE).as_bytes()).await.unwrap();
        for piece in pattern(LARGE_SIZE).chunks(LARGE_SIZE / 7) {
            sleep(Duration::from_millis(60)).await;
            stream.write_all(piece).await.unwrap();
        }
        sleep(PATIENCE).await;
    })
    .await;
    let stage = stage_to(address).await;
    let mut client = asked(&stage, &request()).await;
    // The head does not wait for the body.
    let mut first = [0; 15];
    client.read_exact(&mut first).await.unwrap();
    let (said, body, ended) = whole(&mut client).await;
    assert!(ended.is_ok() && said.to_ascii_lowercase().contains(TAKEN), "{said}");
    assert!(body == pattern(LARGE_SIZE));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_to_be_short() {
    let address = host(|mut stream| async move {
        stream.write_all(head(3 * LARGE_SIZE).as_bytes()).await.unwrap();
        stream.write_all(&pattern(LARGE_SIZE)).await.unwrap();
    })
    .await;
    let stage = stage_to(address).await;
    let (said, body, _) = whole(&mut asked(&stage, &request()).await).await;
    assert!(said.to_ascii_lowercase().contains(TAKEN), "{said}");
    assert!(body.len() <= LARGE_SIZE && pattern(LARGE_SIZE).starts_with(&body), "{}", body.len());
    let (_, _, error) = closed(&stage).await;
    assert!(error.as_ref().is_some_and(|error| error.contains("its answer broke off")), "{error:?}");
}

#[tokio::test]
async fn what_comes_behind_the_answer_is_not_passed_on() {
    // Both in what hyper has read already, and in the socket.
    for pause in [0, 100] {
        let address = host(move |mut stream| async move {
            let mut all = head(LARGE_SIZE).into_bytes();
            all.extend(pattern(LARGE_SIZE));
            let extra = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil".repeat(1000);
            if pause == 0 {
                all.extend_from_slice(&extra);
            }
            stream.write_all(&all).await.unwrap();
            sleep(Duration::from_millis(pause)).await;
            let _ = stream.write_all(&extra).await;
            sleep(PATIENCE).await;
        })
        .await;
        let stage = stage_to(address).await;
        let (_, body, ended) = whole(&mut asked(&stage, &request()).await).await;
        ended.unwrap();
        assert!(body == pattern(LARGE_SIZE), "{}", body.len());
    }
}

#[tokio::test]
async fn a_client_may_go_away_in_the_middle() {
    // While the host sends, and while it is silent.
    for is_silent in [false, true] {
        let address = host(move |mut stream| async move {
            stream.write_all(head(64 * LARGE_SIZE).as_bytes()).await.unwrap();
            let count = if is_silent { 1 } else { 64 };
            for _ in 0..count {
                if stream.write_all(&pattern(LARGE_SIZE)).await.is_err() {
                    return;
                }
            }
            sleep(PATIENCE).await;
        })
        .await;
        let stage = stage_to(address).await;
        let mut client = asked(&stage, &request()).await;
        let mut some = vec![0; 300_000];
        client.read_exact(&mut some).await.unwrap();
        crate::relay::reset_on_close(&client);
        drop(client);
        let (_, received, error) = closed(&stage).await;
        assert_eq!(error, None, "silent: {is_silent}");
        assert!(received < 64 * LARGE);
    }
}

#[tokio::test]
async fn a_request_behind_it_is_not_answered() {
    let origin = Origin::answering(|_| large(2 * LARGE_SIZE)).await;
    let stage = stage(&origin).await;
    let mut client = asked(&stage, &request().repeat(2)).await;
    sleep(Duration::from_millis(100)).await;
    client.write_all(request().as_bytes()).await.unwrap();
    let (said, body, ended) = whole(&mut client).await;
    assert!(ended.is_ok() && said.to_ascii_lowercase().contains(TAKEN), "{said} {ended:?}");
    assert!(body == pattern(2 * LARGE_SIZE), "{}", body.len());
    assert_eq!(origin.seen().len(), 1);
}

#[tokio::test]
async fn answers_before_it_that_the_client_has_not_read_are_not_lost() {
    const BEFORE: usize = LARGE_SIZE - 1;
    let origin = Origin::answering(|seen| large(if seen.target == "/x" { LARGE_SIZE } else { BEFORE })).await;
    let stage = stage(&origin).await;
    let before = "GET /before HTTP/1.1\r\nHost: web.example.com:8081\r\n\r\n".repeat(20);
    let mut client = asked(&stage, &(before + &request())).await;
    sleep(Duration::from_millis(300)).await;
    for _ in 0..20 {
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            said.push(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap());
        }
        let mut body = vec![0; BEFORE];
        timeout(PATIENCE, client.read_exact(&mut body)).await.unwrap().unwrap();
        assert!(body == pattern(BEFORE));
    }
    let (said, body, ended) = whole(&mut client).await;
    assert!(ended.is_ok() && said.to_ascii_lowercase().contains(TAKEN), "{said}");
    assert!(body == pattern(LARGE_SIZE), "{}", body.len());
}

#[tokio::test]
async fn answers_without_a_length_or_a_body_go_the_ordinary_way() {
    // Trailers, and so no length.
    let chunks = || {
        let whole = Full::new(Bytes::from(pattern(2 * LARGE_SIZE)));
        let mut response = Response::new(boxed(whole.with_trailers(async { None })));
        response.headers_mut().insert("transfer-encoding", "chunked".parse().unwrap());
        response
    };
    let origin = Origin::answering(move |seen| match seen.method.as_str() {
        "HEAD" => large(2 * LARGE_SIZE),
        _ => chunks(),
    })
    .await;
    let stage = stage(&origin).await;
    let mut client = asked(&stage, &request().replace("GET", "HEAD")).await;
    for _ in 0..2 {
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            said.push(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap());
        }
        let said = String::from_utf8(said).unwrap().to_ascii_lowercase();
        assert!(said.contains("content-length: 2097152\r\n") && !said.contains(TAKEN), "{said}");
        client.write_all(request().replace("GET", "HEAD").as_bytes()).await.unwrap();
    }
    let body = curl(&stage, &[(NAME, PORT)], &["-i", "http://web.example.com:8081/x"]).await;
    assert!(body.status.success() && body.stdout.ends_with(&pattern(2 * LARGE_SIZE)));
    let said = String::from_utf8_lossy(&body.stdout[..300]).to_ascii_lowercase();
    assert!(said.contains("transfer-encoding: chunked\r\n") && !said.contains(TAKEN), "{said}");
}

#[tokio::test]
async fn parts_and_older_clients() {
    let origin = Origin::answering(|_| {
        let mut response = large(LARGE_SIZE + 5);
        *response.status_mut() = hyper::StatusCode::PARTIAL_CONTENT;
        response.headers_mut().insert("content-range", "bytes 0-1048580/9999999".parse().unwrap());
        response
    })
    .await;
    let stage = stage(&origin).await;
    for version in ["1.1", "1.0"] {
        let request = format!("GET /x HTTP/{version}\r\nHost: web.example.com:8081\r\n\r\n");
        let (said, body, ended) = whole(&mut asked(&stage, &request).await).await;
        ended.unwrap();
        assert!(said.starts_with(&format!("HTTP/{version} 206 Partial Content\r\n")), "{said}");
        let said = said.to_ascii_lowercase();
        assert!(
            said.contains("content-range: bytes 0-1048580/9999999\r\n") && said.contains(TAKEN),
            "{said}"
        );
        assert!(body == pattern(LARGE_SIZE + 5), "{}", body.len());
    }
}

#[tokio::test]
async fn other_answers_and_hosts_go_the_ordinary_way() {
    let origin = Origin::answering(|seen| {
        let mut response = large(LARGE_SIZE);
        if seen.target == "/missing" {
            *response.status_mut() = hyper::StatusCode::NOT_FOUND;
        }
        response
    })
    .await;
    let plain = || Scene::allow(&["web.example.com:8081"]).leading(NAME, origin.address);
    let mut ruled = plain();
    ruled.network.http.push(http_rule(NAME, &["GET"], &["/"]));
    let mut secret = plain();
    add_secret(&mut secret, "T=env:T@web.example.com", "planted-value-42", "stand-in-for-it");
    let mut limited = plain();
    limited.bandwidth = Some(100 << 20);
    let sent = "POST /x HTTP/1.1\r\nHost: web.example.com:8081\r\nContent-Length: 3\r\n\r\nabc".to_owned();
    for (what, scene, request) in [
        ("status", plain(), request().replace("/x", "/missing")),
        ("body", plain(), sent),
        ("kept", plain(), "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned()),
        ("rules", ruled, request()),
        ("secret", secret, request()),
        ("bandwidth", limited, request()),
    ] {
        let stage = Stage::start(scene).await;
        let mut client = asked(&stage, &request).await;
        client.shutdown().await.unwrap();
        let (said, body, ended) = whole(&mut client).await;
        ended.unwrap();
        let said = said.to_ascii_lowercase();
        assert!(said.contains("content-length: 1048576\r\n") && !said.contains(TAKEN), "{what}: {said}");
        assert!(body == pattern(LARGE_SIZE), "{what}: {}", body.len());
    }
}

#[tokio::test]
async fn through_tls_that_ends_here_nothing_is_taken_over() {
    let trust = Trust::new();
    let origin = Origin::tls_answering(trust.server(&Identity::of(NAME)), |_| large(LARGE_SIZE)).await;
    let mut scene = Scene::allow(&["web.example.com:8081"]).leading(NAME, origin.address);
    scene.network.http.push(http_rule(NAME, &["GET"], &["/"]));
    scene.terminator = Some(trust.terminator(&scene, Vec::new()));
    let stage = Stage::start(scene).await;
    let mut client = tls_client(&stage, NAME, PORT, &["http/1.1"]).await.unwrap();
    // Twice over one connection.
    for _ in 0..2 {
        client.write_all(request().as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let end = pattern(LARGE_SIZE);
        while !answer.ends_with(&end[LARGE_SIZE - 5000..]) {
            let read = timeout(PATIENCE, client.read_buf(&mut answer)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{} bytes", answer.len());
        }
        assert!(answer.ends_with(&end));
        assert!(!String::from_utf8_lossy(&answer[..300]).to_ascii_lowercase().contains(TAKEN));
    }
}

#[tokio::test]
async fn by_proxy_inside_and_by_the_users_own() {
    let origin = Origin::answering(|_| large(3 * LARGE_SIZE)).await;
    let inside = stage(&origin).await;
    let url = "http://web.example.com:8081/x";
    let mut client = TcpStream::connect(inside.http_proxy).await.unwrap();
    let request_in_full = request().replace("/x", url);
    client.write_all(request_in_full.as_bytes()).await.unwrap();
    let (said, body, ended) = whole(&mut client).await;
    assert!(ended.is_ok() && said.to_ascii_lowercase().contains(TAKEN), "{said}");
    assert!(body == pattern(3 * LARGE_SIZE), "{}", body.len());
    drop(client);
    assert_eq!(closed(&inside).await.2, None);

    let mut scene = Scene::allow(&["web.example.com:8081"]);
    scene.upstream.http = Some(format!("http://me:pass@{}", origin.address));
    let outside = Stage::start(scene).await;
    let (said, body, ended) = whole(&mut asked(&outside, &request()).await).await;
    assert!(ended.is_ok() && said.to_ascii_lowercase().contains(TAKEN), "{said}");
    assert!(body == pattern(3 * LARGE_SIZE), "{}", body.len());
    assert_eq!(origin.last().target, url);
}

#[tokio::test]
async fn an_upgrade_after_other_requests() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let mut client = asked(&stage, &request()).await;
    assert!(one_answer(&mut client).await.contains("GET /x\n"));
    let upgrade = "GET /upgrade HTTP/1.1\r\nHost: web.example.com:8081\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(upgrade.as_bytes()).await.unwrap();
    assert!(one_answer(&mut client).await.starts_with("HTTP/1.1 101 "));
    client.write_all(b"\x01words").await.unwrap();
    let mut back = [0; 6];
    timeout(PATIENCE, client.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(&back, b"\x01words");
}
