use std::net::SocketAddr;
use std::time::Duration;

use ringfence_policy::{HostName, NetworkReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::super::tests::*;
use super::RETRY;
use crate::event::SocketRole;
use crate::testing::{Scene, Stage};

/// A client hello in one record.
pub(in crate::carry) fn hello(name: Option<&str>) -> Vec<u8> {
    let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
    if let Some(name) = name {
        let length = u16::try_from(name.len()).unwrap();
        extensions.extend([0, 0]);
        extensions.extend((length + 5).to_be_bytes());
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

pub(in crate::carry) fn server_hello(random: &[u8; 32]) -> Vec<u8> {
    let body = [&[3, 3][..], random, &[0, 0x13, 1, 0, 0, 0]].concat();
    record(22, &[&[2, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat())
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
        (
            Some("host.example.other.example"),
            112,
            NetworkReason::Sni { found: "host.example.other.example".into() },
        ),
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
    for answer in
        [server_hello(&[1; 32]), record(21, &[2, 40]), b"not TLS at all".to_vec(), record(22, &[2, 0])]
    {
        let (stage, listener) = stage().await;
        let mut client = stage.connect(NAME, PORT).await;
        let rest = [record(20, &[1]), record(22, &[16, 0, 0, 1, 7]), record(23, b"data")].concat();
        client.write_all(&[hello(Some(NAME)), rest.clone()].concat()).await.unwrap();
        let mut server = accept(&listener).await;
        read_some(&mut server, hello(Some(NAME)).len()).await;
        server.write_all(&answer).await.unwrap();
        if answer.len() < 43 {
            server.shutdown().await.unwrap();
        }
        assert_eq!(read_some(&mut client, answer.len()).await, answer);
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
async fn an_address_needs_no_server_name_but_may_not_name_what_is_denied() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut scene = Scene::allow(&["192.0.2.7:8443"]).leading("192.0.2.7", listener.local_addr().unwrap());
    scene.network.deny = crate::testing::rules(&["*.bad.example"]);
    let stage = Stage::start(scene).await;
    let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = inside.local_addr().unwrap();
    let literal: SocketAddr = "192.0.2.7:8443".parse().unwrap();
    stage.give(vec![(SocketRole::Literal(literal), inside.into())]);
    for (name, passes) in
        [(None, true), (Some("any.example"), true), (Some("192.0.2.7"), true), (Some("x.bad.example"), false)]
    {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(&hello(name)).await.unwrap();
        if passes {
            let mut server = accept(&listener).await;
            assert_eq!(read_some(&mut server, hello(name).len()).await, hello(name));
        } else {
            assert_eq!(read_all(&mut client).await.unwrap(), [21, 3, 3, 0, 2, 2, 49]);
        }
    }
}
