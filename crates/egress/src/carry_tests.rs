use std::time::{Duration, Instant};

use ringfence_policy::{HostName, HttpRule, NetworkReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::event::{Event, SocketRole, Via};
use crate::testing::{Scene, Stage};

pub(super) const NAME: &str = "host.example";
pub(super) const RULE: &str = "host.example:8443";
pub(super) const PORT: u16 = 8443;

/// A server of the test's own, and a stage on which `NAME` leads to it.
pub(super) async fn stage() -> (Stage, TcpListener) {
    stage_with(|_| {}).await
}

pub(super) async fn stage_with(change: impl FnOnce(&mut Scene)) -> (Stage, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut scene = Scene::allow(&[RULE]).leading(NAME, listener.local_addr().unwrap());
    change(&mut scene);
    (Stage::start(scene).await, listener)
}

pub(super) async fn accept(listener: &TcpListener) -> TcpStream {
    timeout(Duration::from_secs(10), listener.accept()).await.expect("nothing was dialled").unwrap().0
}

pub(super) async fn read_all(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await.expect("no end")?;
    Ok(all)
}

pub(super) async fn read_some(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut part = vec![0; length];
    timeout(Duration::from_secs(10), stream.read_exact(&mut part)).await.expect("nothing came").unwrap();
    part
}

pub(super) async fn denial(stage: &Stage) -> NetworkReason {
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
    assert!(
        matches!(denial(&stage).await, NetworkReason::BadName { why } if why.contains("the server spoke first"))
    );
}

/// MySQL: the server greets, and the client asks for TLS in a packet of 32 bytes.
#[tokio::test]
async fn a_packet_whose_length_is_a_blank_goes_on() {
    for first in [&b"\x20\0\0\x01\x85\xae\x3f\x20\0\0\0\x01\x21\0"[..], b"\x85\0\0\x01", b"\x1f\0\0\x01"] {
        let (stage, listener) = stage().await;
        let mut client = stage.connect(NAME, PORT).await;
        let mut server = accept(&listener).await;
        server.write_all(b"\x4a\0\0\0\x0a8.0.36\0").await.unwrap();
        read_some(&mut client, 12).await;
        client.write_all(first).await.unwrap();
        assert_eq!(read_some(&mut server, first.len()).await, first);
        let hello = super::tls::tests::hello(Some("db.other.example"));
        client.write_all(&hello).await.unwrap();
        assert_eq!(read_some(&mut server, hello.len()).await, hello);
        assert!(!stage.events().iter().any(|event| matches!(event, Event::Denied { .. })));
    }
}

/// LDAP: the client asks for TLS, in a packet without a line end or a NUL, and waits.
#[tokio::test]
async fn a_packet_that_begins_like_a_method_goes_on() {
    let ask = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    for part in ask.chunks(2) {
        client.write_all(part).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(read_some(&mut server, ask.len()).await, ask);
    server.write_all(b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\0\x04\0\x04\0").await.unwrap();
    read_some(&mut client, 14).await;
    let hello = super::tls::tests::hello(Some("ldap.other.example"));
    client.write_all(&hello).await.unwrap();
    assert_eq!(read_some(&mut server, hello.len()).await, hello);
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
    assert!(
        timeout(Duration::from_millis(100), client.read(&mut none)).await.is_err(),
        "the server waits too"
    );
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

/// Beyond what the descriptors are enough for, whatever the policy says.
#[tokio::test]
async fn a_connection_beyond_the_cap_is_refused_and_said() {
    let (stage, listener) = stage_with(|scene| scene.caps.accepted = 2).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push((stage.connect(NAME, PORT).await, accept(&listener).await));
    }
    let mut third = stage.connect(NAME, PORT).await;
    assert!(read_all(&mut third).await.is_err(), "reset");
    assert!(
        matches!(denial(&stage).await, NetworkReason::BadName { why } if why.starts_with("2 connections"))
    );
    let mut proxied = TcpStream::connect(stage.http_proxy).await.unwrap();
    assert!(read_all(&mut proxied).await.is_err(), "reset");
    let is_told = |event: &Event| match event {
        Event::Denied { host, port, .. } => (host == "198.18.0.2" && *port == Some(3128)).then_some(()),
        _ => None,
    };
    stage.event(is_told).await;
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

#[tokio::test]
async fn a_client_that_does_not_say_what_it_speaks_is_given_up() {
    for first in [&b"GET / HT"[..], b"\x16\x03", b"\x16\x03\x01\0\x50\x01\0", b"\r\n\r\n"] {
        let (stage, listener) = stage().await;
        let mut client = stage.connect(NAME, PORT).await;
        let mut server = accept(&listener).await;
        client.write_all(first).await.unwrap();
        // It is with egress. From here on the clock jumps to the next deadline whenever everything waits.
        tokio::time::sleep(Duration::from_millis(100)).await;
        tokio::time::pause();
        let started = tokio::time::Instant::now();
        assert!(client.read(&mut [0]).await.is_err(), "reset");
        assert!(started.elapsed() < Duration::from_secs(11));
        tokio::time::resume();
        assert!(matches!(denial(&stage).await, NetworkReason::BadName { why } if why.contains("in time")));
        assert!(matches!(server.read(&mut [0]).await, Ok(0) | Err(_)), "nothing was passed on");
    }
}

/// How the connection ends, after each side has heard the other.
async fn ends(end: impl AsyncFnOnce(TcpStream, TcpStream)) -> Option<String> {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all(b"\0question").await.unwrap();
    let mut server = accept(&listener).await;
    read_some(&mut server, 9).await;
    server.write_all(b"answer").await.unwrap();
    read_some(&mut client, 6).await;
    end(client, server).await;
    closed(&stage).await.2
}

/// Dropped, it is reset.
fn resetting(stream: TcpStream) -> TcpStream {
    crate::relay::reset_on_close(&stream);
    stream
}

#[tokio::test]
async fn a_reset_at_the_end_is_no_error() {
    // The client closes over bytes that it does not read.
    let unread = ends(async |client, mut server| {
        drop(resetting(client));
        let _ = server.write_all(b"more").await;
        let _ = read_all(&mut server).await;
    });
    assert_eq!(unread.await, None);
    // The client has ended; the server, which wanted to say goodbye, resets.
    let late = ends(async |mut client, mut server| {
        client.shutdown().await.unwrap();
        read_all(&mut server).await.unwrap();
        drop(resetting(server));
        let _ = read_all(&mut client).await;
    });
    assert_eq!(late.await, None);
    // The server has ended; the client still writes.
    let goodbye = ends(async |mut client, server| {
        drop(server);
        read_all(&mut client).await.unwrap();
        for _ in 0..20 {
            let _ = client.write_all(b"bye").await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(goodbye.await, None);
    // A server that resets in the middle is one.
    let cut = ends(async |mut client, server| {
        drop(resetting(server));
        read_all(&mut client).await.unwrap_err();
    });
    assert!(cut.await.is_some_and(|error| error.contains("reset")));
}
