//! The SOCKS proxy, with curl and raw clients.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::event::Event;
use crate::http::testing::{Origin, PATIENCE, curl, stdout};
use crate::testing::{Scene, Stage};

const NAME: &str = "one.example.com";

async fn stage() -> (Stage, Origin) {
    let origin = Origin::clear().await;
    let scene = Scene::allow(&["one.example.com:8081", "192.0.2.7:22"]);
    (Stage::start(scene.leading(NAME, origin.address)).await, origin)
}

/// What comes back for a greeting without login, then this request.
async fn ask(stage: &Stage, request: &[u8]) -> Vec<u8> {
    let mut client = TcpStream::connect(stage.socks_proxy).await.unwrap();
    client.write_all(&[5, 1, 0]).await.unwrap();
    let mut chosen = [0; 2];
    client.read_exact(&mut chosen).await.unwrap();
    assert_eq!(chosen, [5, 0]);
    client.write_all(request).await.unwrap();
    let mut reply = Vec::new();
    let _ = timeout(PATIENCE, client.read_to_end(&mut reply)).await.expect("it stays open");
    reply
}

fn by_name(name: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 3, name.len() as u8], name, &port.to_be_bytes()].concat()
}

#[tokio::test]
async fn curl_reaches_a_granted_name() {
    let (stage, origin) = stage().await;
    let proxy = stage.socks_proxy.to_string();
    let body =
        stdout(&curl(&stage, &[], &["--socks5-hostname", &proxy, "http://one.example.com:8081/s"]).await);
    assert!(body.starts_with("GET /s\n"), "{body}");
    assert_eq!(origin.seen().len(), 1);
    let via = stage.event(|event| match event {
        Event::Opened { via, host, port, .. } => Some((*via, host.clone(), *port)),
        _ => None,
    });
    assert_eq!(via.await, (Via::Socks, NAME.to_owned(), 8081));
    let refused = curl(&stage, &[], &["--socks5-hostname", &proxy, "http://evil.example.com:8081/"]).await;
    assert!(!refused.status.success());
}

#[tokio::test]
async fn refusals_have_their_codes() {
    let (stage, _) = stage().await;
    for (request, reply) in [
        (by_name(b"evil.example.com", 443), Reply::NotAllowed),
        (by_name(b"one.example.com", 443), Reply::NotAllowed),
        (by_name(b"one.example.com\0.evil.test", 8081), Reply::NotAllowed),
        (by_name("öne.example.com".as_bytes(), 8081), Reply::NotAllowed),
        (by_name(b"", 8081), Reply::NotAllowed),
        (by_name(b"0x7f000001", 8081), Reply::NotAllowed),
        (by_name(b"one.example.com", 0), Reply::Refused),
        (vec![5, 1, 0, 1, 127, 0, 0, 1, 0x1f, 0x91], Reply::NotAllowed),
        (
            vec![5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1, 0x1f, 0x91],
            Reply::NotAllowed,
        ),
        (vec![5, 2, 0, 1, 192, 0, 2, 7, 0, 22], Reply::CommandNotSupported),
        (vec![5, 3, 0, 1, 192, 0, 2, 7, 0, 22], Reply::CommandNotSupported),
        (vec![5, 1, 0, 2, 1, 2, 3], Reply::AddressNotSupported),
    ] {
        assert_eq!(ask(&stage, &request).await, written(reply), "{request:?}");
    }
    let bad = stage.event(|event| match event {
        Event::Denied { reason: NetworkReason::BadName { .. }, host, .. } => Some(host.clone()),
        _ => None,
    });
    assert!(bad.await.contains("evil.test"));
}

#[tokio::test]
async fn a_dead_host_is_refused_by_code() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = Stage::start(Scene::allow(&["one.example.com:8081"]).leading(NAME, closed)).await;
    assert_eq!(ask(&stage, &by_name(NAME.as_bytes(), 8081)).await, written(Reply::Refused));
}

#[tokio::test]
async fn what_is_not_socks_5_is_closed() {
    let (stage, _) = stage().await;
    for (bytes, answer) in [
        (&[4, 1, 0, 80, 127, 0, 0, 1, 0][..], &[][..]),
        (b"GET / HTTP/1.1\r\n\r\n", &[]),
        (&[5, 1, 2], &[5, 0xff]),
        (&[5, 0], &[5, 0xff]),
        (&[5, 1, 0, 4, 1, 0, 1], &[5, 0]),
    ] {
        let mut client = TcpStream::connect(stage.socks_proxy).await.unwrap();
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = Vec::new();
        let _ = timeout(PATIENCE, client.read_to_end(&mut back)).await.expect("it stays open");
        assert_eq!(back, answer, "{bytes:?}");
    }
}

/// Some programs look a name up first and ask the proxy for the address that they got.
#[tokio::test]
async fn an_address_that_was_given_for_a_name_is_that_name() {
    let (stage, origin) = stage().await;
    let address = stage.address_of(NAME).await.unwrap();
    let proxy = stage.socks_proxy.to_string();
    let resolve = format!("one.example.com:8081:{address}");
    let arguments = ["--socks5", &proxy, "--resolve", &resolve, "http://one.example.com:8081/s"];
    let body = stdout(&curl(&stage, &[], &arguments).await);
    assert!(body.starts_with("GET /s\n"), "{body}");
    assert_eq!(origin.last().header("host").as_deref(), Some("one.example.com:8081"));
    let opened = stage.event(|event| match event {
        Event::Opened { via, host, port, .. } => Some((*via, host.clone(), *port)),
        _ => None,
    });
    assert_eq!(opened.await, (Via::Socks, NAME.to_owned(), 8081));
    // It is judged as that name is: other ports, and addresses that no name has, are refused.
    let std::net::IpAddr::V4(v4) = address else { panic!("{address}") };
    for (octets, port) in [(v4.octets(), 8082_u16), ([198, 18, 200, 200], 8081)] {
        let request = [&[5, 1, 0, 1][..], &octets, &port.to_be_bytes()].concat();
        assert_eq!(ask(&stage, &request).await, written(Reply::NotAllowed), "{octets:?}");
    }
    let denied = stage.event(|event| match event {
        Event::Denied { host, port: Some(8082), reason, .. } => Some((host.clone(), reason.clone())),
        _ => None,
    });
    assert_eq!(denied.await, (NAME.to_owned(), NetworkReason::Port { granted: vec![8081] }));
}

/// Not where everything is open either: outside, such an address is somebody else's.
#[tokio::test]
async fn an_address_of_ours_that_no_name_has_is_refused_in_every_mode() {
    let mut scene = Scene::allow(&[]);
    scene.network.mode = ringfence_policy::NetworkMode::Open;
    scene.network.private = vec!["fd00::/8".parse().unwrap()];
    let stage = Stage::start(scene).await;
    let address: std::net::Ipv6Addr = "fd72:6664:0:1::100".parse().unwrap();
    let request = [&[5, 1, 0, 4][..], &address.octets(), &[0, 80]].concat();
    assert_eq!(ask(&stage, &request).await, written(Reply::NotAllowed));
}
