use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ringfence_policy::{HostName, HttpRule, NetworkReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::tls::RETRY;
use crate::event::{Event, SocketRole, Via};
use crate::testing::{Scene, Stage};

const NAME: &str = "host.example";
const RULE: &str = "host.example:8443";
const PORT: u16 = 8443;

/// A server of the test's own, and a stage on which `NAME` leads to it.
async fn stage() -> (Stage, TcpListener) {
    stage_with(|_| {}).await
}

async fn stage_with(change: impl FnOnce(&mut Scene)) -> (Stage, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut scene = Scene::allow(&[RULE]).leading(NAME, listener.local_addr().unwrap());
    change(&mut scene);
    (Stage::start(scene).await, listener)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    timeout(Duration::from_secs(10), listener.accept()).await.expect("nothing was dialled").unwrap().0
}

async fn read_all(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await.expect("no end")?;
    Ok(all)
}

async fn read_some(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut part = vec![0; length];
    timeout(Duration::from_secs(10), stream.read_exact(&mut part)).await.expect("nothing came").unwrap();
    part
}

async fn denial(stage: &Stage) -> NetworkReason {
    stage
        .event(|event| match event {
            Event::Denied { host, port, reason, .. } => {
                assert_eq!((host.as_str(), *port), (NAME, Some(PORT)));
                Some(reason.clone())
            }
            _ => None,
        })
        .await
}

async fn closed(stage: &Stage) -> (u64, u64, Option<String>) {
    stage
        .event(|event| match event {
            Event::Closed { sent, received, error, .. } => Some((*sent, *received, error.clone())),
            _ => None,
        })
        .await
}

/// A client hello in one record.
fn hello(name: Option<&str>) -> Vec<u8> {
    let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
    if let Some(name) = name {
        let length = u16::try_from(name.len()).unwrap();
        for (kind, more) in [(0u16, 5), (length + 3, 0), (length, 0)].into_iter().take(1) {
            extensions.extend(kind.to_be_bytes());
            extensions.extend((length + more).to_be_bytes());
        }
        extensions.extend((length + 3).to_be_bytes());
        extensions.push(0);
        extensions.extend(length.to_be_bytes());
        extensions.extend(name.as_bytes());
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    record(22, &[&[1][..], &length[1..], &body].concat())
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

fn server_hello(random: &[u8; 32]) -> Vec<u8> {
    let body = [&[3, 3][..], random, &[0, 0x13, 1, 0, 0, 0]].concat();
    record(22, &[&[2, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat())
}

#[tokio::test]
async fn bytes_go_both_ways_and_half_closes_are_kept() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all(b"\0question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut server = accept(&listener).await;
    assert_eq!(read_all(&mut server).await.unwrap(), b"\0question");
    server.write_all(b"the whole answer").await.unwrap();
    drop(server);
    assert_eq!(read_all(&mut client).await.unwrap(), b"the whole answer");
    let from = client.local_addr().unwrap();
    let opened = Event::Opened { id: 0, from, host: NAME.into(), port: PORT, via: Via::Direct };
    stage.event(|event| (*event == opened).then_some(())).await;
    assert_eq!(closed(&stage).await, (9, 16, None));
}

#[tokio::test]
async fn a_server_may_speak_first() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    server.write_all(b"220 ready\r\n").await.unwrap();
    assert_eq!(read_some(&mut client, 11).await, b"220 ready\r\n");
    client.write_all(b"EHLO me\r\n").await.unwrap();
    assert_eq!(read_some(&mut server, 9).await, b"EHLO me\r\n");
    // A server that has said all it will still listens.
    server.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await.unwrap(), b"");
    client.write_all(b"QUIT\r\n").await.unwrap();
    assert_eq!(read_some(&mut server, 6).await, b"QUIT\r\n");
}

#[tokio::test]
async fn a_request_after_a_servers_greeting_is_not_let_through() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    server.write_all(b"hello").await.unwrap();
    read_some(&mut client, 5).await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n").await.unwrap();
    assert!(read_all(&mut client).await.is_err(), "reset");
    assert!(read_all(&mut server).await.is_err(), "reset");
}

#[tokio::test]
async fn tls_for_the_granted_name_is_passed_on_unchanged() {
    let (stage, listener) = stage().await;
    let first = hello(Some("HOST.example"));
    let mut client = stage.connect(NAME, PORT).await;
    // In small pieces.
    for part in first.chunks(11) {
        client.write_all(part).await.unwrap();
        client.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut server = accept(&listener).await;
    assert_eq!(read_some(&mut server, first.len()).await, first);
    let answer = server_hello(&[9; 32]);
    server.write_all(&answer).await.unwrap();
    assert_eq!(read_some(&mut client, answer.len()).await, answer);
    client.write_all(b"encrypted").await.unwrap();
    assert_eq!(read_some(&mut server, 9).await, b"encrypted");
}

#[tokio::test]
async fn tls_for_another_name_gets_an_alert_and_nothing_is_sent_on() {
    for (name, alert, reason) in [
        (Some("other.example"), 112, NetworkReason::Sni { found: "other.example".into() }),
        (Some("host.example.other.example"), 112, NetworkReason::Sni { found: "host.example.other.example".into() }),
        (Some("192.0.2.1"), 112, NetworkReason::Sni { found: "192.0.2.1".into() }),
        (Some("host\0.example"), 112, NetworkReason::Sni { found: "host\0.example".into() }),
        (None, 109, NetworkReason::NoSni),
    ] {
        let (stage, listener) = stage().await;
        let mut client = stage.connect(NAME, PORT).await;
        client.write_all(&hello(name)).await.unwrap();
        assert_eq!(read_all(&mut client).await.unwrap(), [21, 3, 3, 0, 2, 2, alert], "{name:?}");
        assert_eq!(denial(&stage).await, reason);
        // It may have been dialled meanwhile.
        if let Ok(Ok((mut server, _))) = timeout(Duration::from_millis(100), listener.accept()).await {
            assert_eq!(read_all(&mut server).await.unwrap_or_default(), b"", "{name:?}");
        }
    }
}

#[tokio::test]
async fn a_missing_name_is_fine_where_that_is_granted() {
    let (stage, listener) = stage_with(|scene| {
        scene.network.no_sni.insert(HostName::parse(NAME).unwrap());
    })
    .await;
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all(&hello(None)).await.unwrap();
    let mut server = accept(&listener).await;
    assert_eq!(read_some(&mut server, hello(None).len()).await, hello(None));
}

#[tokio::test]
async fn a_second_hello_is_held_to_the_name_too() {
    for (second, passes) in [(Some(NAME), true), (Some("other.example"), false), (None, false)] {
        let (stage, listener) = stage().await;
        let first = hello(Some(NAME));
        let mut client = stage.connect(NAME, PORT).await;
        // Without waiting for the server, and behind what looks like early data.
        let middle = [record(20, &[1]), record(23, b"early")].concat();
        let second = hello(second);
        client.write_all(&[&first[..], &middle, &second].concat()).await.unwrap();
        let mut server = accept(&listener).await;
        assert_eq!(read_some(&mut server, first.len()).await, first);
        let mut none = [0];
        let early = timeout(Duration::from_millis(100), server.read(&mut none)).await;
        assert!(early.is_err(), "nothing more before the server has answered");
        server.write_all(&server_hello(&RETRY)).await.unwrap();
        if passes {
            assert_eq!(read_some(&mut server, middle.len()).await, middle);
            assert_eq!(read_some(&mut server, second.len()).await, second);
            client.write_all(b"more").await.unwrap();
            assert_eq!(read_some(&mut server, 4).await, b"more");
        } else {
            let seen = read_all(&mut server).await.unwrap_or_default();
            assert!(middle.starts_with(&seen), "{seen:?}");
            assert!(matches!(denial(&stage).await, NetworkReason::Sni { .. } | NetworkReason::NoSni));
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_retry_gets_what_follows() {
    for answer in [server_hello(&[1; 32]), record(21, &[2, 40]), b"not TLS at all".to_vec(), record(22, &[2, 0])] {
        let (stage, listener) = stage().await;
        let mut client = stage.connect(NAME, PORT).await;
        let rest = [record(20, &[1]), record(22, &[16, 0, 0, 1, 7]), record(23, b"data")].concat();
        client.write_all(&[hello(Some(NAME)), rest.clone()].concat()).await.unwrap();
        let mut server = accept(&listener).await;
        read_some(&mut server, hello(Some(NAME)).len()).await;
        server.write_all(&answer).await.unwrap();
        assert_eq!(read_some(&mut client, answer.len().min(9)).await, answer[..answer.len().min(9)]);
        if answer.len() < 43 {
            server.shutdown().await.unwrap();
        }
        assert_eq!(read_some(&mut server, rest.len()).await, rest, "after {answer:?}");
    }
}

#[tokio::test]
async fn what_is_no_honest_hello_is_refused() {
    let (stage, _listener) = stage().await;
    for broken in [&[21, 3, 1, 0, 2, 1, 0][..], &[22, 3, 1, 0, 0], &[22, 3, 1, 0, 4, 1, 1, 0, 0]] {
        let mut client = stage.connect(NAME, PORT).await;
        client.write_all(broken).await.unwrap();
        assert_eq!(read_all(&mut client).await.unwrap(), [21, 3, 3, 0, 2, 2, 49]);
    }
    assert!(matches!(denial(&stage).await, NetworkReason::BadName { .. }));
}

#[tokio::test]
async fn a_host_with_http_rules_takes_nothing_else() {
    let (stage, listener) = stage_with(|scene| {
        let host = HostName::parse(NAME).unwrap();
        scene.network.http.push(HttpRule { host, methods: Vec::new(), paths: Vec::new() });
    })
    .await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    server.write_all(b"220 ready\r\n").await.unwrap();
    let mut none = [0];
    assert!(timeout(Duration::from_millis(100), client.read(&mut none)).await.is_err(), "the server waits too");
    client.write_all(b"EHLO me\r\n").await.unwrap();
    assert!(read_all(&mut client).await.is_err(), "reset");
    assert_eq!(denial(&stage).await, NetworkReason::NotHttp);
}

#[tokio::test]
async fn only_granted_ports_are_there() {
    let (stage, _listener) = stage().await;
    let address = stage.address_of(NAME).await.unwrap();
    let error = TcpStream::connect((address, PORT + 1)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn connections_have_a_limit_and_places_come_back() {
    let (stage, listener) = stage_with(|scene| scene.connections = 2).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push((stage.connect(NAME, PORT).await, accept(&listener).await));
    }
    let mut third = stage.connect(NAME, PORT).await;
    assert!(read_all(&mut third).await.is_err(), "reset");
    assert_eq!(denial(&stage).await, NetworkReason::Connections { limit: 2 });
    held.pop();
    closed(&stage).await;
    let mut again = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    server.write_all(b"hi").await.unwrap();
    assert_eq!(read_some(&mut again, 2).await, b"hi");
}

#[tokio::test]
async fn what_cannot_be_reached_is_reset() {
    let (stage, listener) = stage().await;
    drop(listener);
    let started = Instant::now();
    for first in [&b""[..], b"\0binary"] {
        let mut client = stage.connect(NAME, PORT).await;
        client.write_all(first).await.unwrap();
        assert!(read_all(&mut client).await.is_err(), "reset");
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    let (_, _, error) = closed(&stage).await;
    assert!(error.unwrap().contains("refused"));
}

#[tokio::test]
async fn a_reset_is_passed_on() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let server = accept(&listener).await;
    super::reset_on_close(&server);
    drop(server);
    assert!(read_all(&mut client).await.is_err(), "reset");
}

#[tokio::test]
async fn much_data_arrives_whole_in_both_directions() {
    const MUCH: usize = 24 << 20;
    let (stage, listener) = stage().await;
    let pattern = |seed: u32| {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        }
    };
    let data = |seed| std::iter::repeat_with(pattern(seed)).take(MUCH).collect::<Vec<u8>>();
    let client = stage.connect(NAME, PORT).await;
    let server = accept(&listener).await;
    // Raw from the first byte.
    let (mut there, mut back) = (data(1), data(2));
    there[0] = 0;
    back[0] = 0;
    let exchange = |mut stream: TcpStream, sent: Vec<u8>| async move {
        let (mut read, mut write) = stream.split();
        let mut all = Vec::new();
        let (written, got) = tokio::join!(
            async {
                write.write_all(&sent).await?;
                write.shutdown().await
            },
            read.read_to_end(&mut all)
        );
        written.unwrap();
        got.unwrap();
        all
    };
    let (got_back, got_there) = tokio::join!(exchange(client, there.clone()), exchange(server, back.clone()));
    assert!(got_there == there && got_back == back);
    assert_eq!(closed(&stage).await, (MUCH as u64, MUCH as u64, None));
}

#[tokio::test]
async fn bandwidth_is_kept() {
    const RATE: u64 = 1 << 20;
    let (stage, listener) = stage_with(|scene| scene.bandwidth = Some(RATE)).await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    let started = Instant::now();
    let sent = tokio::spawn(async move { server.write_all(&vec![0; RATE as usize]).await });
    let got = read_all(&mut client).await.unwrap();
    sent.await.unwrap().unwrap();
    assert_eq!(got.len() as u64, RATE);
    // A tenth of a second's worth is there at once.
    assert!(started.elapsed() >= Duration::from_millis(850), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_address_needs_no_server_name_but_may_not_name_what_is_denied() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut scene = Scene::allow(&["192.0.2.7:8443"]).leading("192.0.2.7", listener.local_addr().unwrap());
    scene.network.deny = crate::testing::rules(&["*.bad.example"]);
    let stage = Stage::start(scene).await;
    let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = inside.local_addr().unwrap();
    let literal: SocketAddr = "192.0.2.7:8443".parse().unwrap();
    stage.give(vec![(SocketRole::Literal(literal), inside.into())]);
    for (name, passes) in [(None, true), (Some("any.example"), true), (Some("192.0.2.7"), true), (Some("x.bad.example"), false)] {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(&hello(name)).await.unwrap();
        let mut server = accept(&listener).await;
        if passes {
            assert_eq!(read_some(&mut server, hello(name).len()).await, hello(name));
        } else {
            assert_eq!(read_all(&mut client).await.unwrap(), [21, 3, 3, 0, 2, 2, 49]);
        }
    }
}

#[tokio::test]
async fn a_port_of_the_callers_own_is_reached_whatever_is_spoken() {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = service.local_addr().unwrap().port();
    let mut scene = Scene::allow(&[]);
    scene.network.local.insert(port);
    let stage = Stage::start(scene).await;
    // Inside it would have the same port; here that one is taken, so that another loopback address listens for it.
    let inside = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = inside.local_addr().unwrap();
    stage.give(vec![(SocketRole::Local(port), inside.into())]);
    for first in [&b"GET / HTTP/1.1\r\nHost: whatever\r\n\r\n"[..], b"\x16\x03\x01\0\x10\x01", b"plain\n"] {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(first).await.unwrap();
        let mut server = accept(&service).await;
        assert_eq!(read_some(&mut server, first.len()).await, first);
    }
}
