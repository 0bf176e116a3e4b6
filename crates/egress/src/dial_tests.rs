use std::fs;
use std::path::Path;

use ringfence_policy::AddressClass;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;
use crate::event::{Event, Via};
use crate::resolve::Files;
use crate::testing::{Scene, Stage};

fn files(directory: &Path, hosts: &str) -> Files {
    let files = Files { servers: directory.join("resolv.conf"), hosts: directory.join("hosts") };
    // Nobody listens there: only the hosts file answers.
    fs::write(&files.servers, "nameserver 127.0.0.77\noptions timeout:1 attempts:1\n").unwrap();
    fs::write(&files.hosts, hosts).unwrap();
    files
}

async fn reason_for(stage: &Stage, name: &str) -> Option<NetworkReason> {
    let host = Host::parse(name).unwrap();
    let from = "127.0.0.1:1".parse().unwrap();
    let admission = stage.gate.admit(&host, 8095, from, Via::Direct).unwrap();
    match dial(&stage.gate, &admission).await {
        Err(DialError::Refused(reason)) => Some(reason),
        Err(_) => None,
        Ok(stream) => panic!("{name} was reached at {:?}", stream.peer_addr()),
    }
}

#[tokio::test]
async fn forbidden_addresses_are_never_dialled() {
    let directory = tempfile::tempdir().unwrap();
    let mut scene = Scene::allow(&["*.example:8095", "10.9.9.9:8095"]);
    scene.files = files(
        directory.path(),
        "127.0.0.1 loop.example\n10.1.2.3 private.example\n169.254.169.254 meta.example\n::1 six.example\n\
         ::ffff:10.0.0.1 mapped.example\n64:ff9b::a00:1 nat.example\nfd00::1 unique.example\n0.0.0.0 zero.example\n\
         127.0.0.1 both.example\n10.0.0.1 both.example\n198.18.0.1 ours.example\n",
    );
    let stage = Stage::start(scene).await;
    for (name, class) in [
        ("loop.example", AddressClass::Loopback),
        ("private.example", AddressClass::Private),
        ("meta.example", AddressClass::Metadata),
        ("six.example", AddressClass::Loopback),
        ("mapped.example", AddressClass::Private),
        ("nat.example", AddressClass::Private),
        ("unique.example", AddressClass::UniqueLocal),
        ("zero.example", AddressClass::Unspecified),
        ("ours.example", AddressClass::Benchmark),
    ] {
        let reason = reason_for(&stage, name).await;
        assert!(
            matches!(reason, Some(NetworkReason::Address { class: found, .. }) if found == class),
            "{name}: {reason:?}"
        );
    }
    assert!(matches!(reason_for(&stage, "both.example").await, Some(NetworkReason::Address { .. })));
    let denied = stage.event(|event| match event {
        Event::Denied { host, reason, .. } if host == "meta.example" => Some(reason.clone()),
        _ => None,
    });
    assert!(matches!(denied.await, NetworkReason::Address { .. }));
}

#[tokio::test]
async fn a_changed_hosts_file_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut scene = Scene::allow(&["*.example:8095"]);
    scene.files = files(directory.path(), "10.1.2.3 moving.example\n");
    let stage = Stage::start(scene).await;
    let first = reason_for(&stage, "moving.example").await;
    assert!(matches!(first, Some(NetworkReason::Address { class: AddressClass::Private, .. })));
    files(directory.path(), "169.254.169.254 moving.example another.example\n");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let second = reason_for(&stage, "moving.example").await;
    assert!(
        matches!(second, Some(NetworkReason::Address { class: AddressClass::Metadata, .. })),
        "{second:?}"
    );
}

#[tokio::test]
async fn localhost_is_granted_by_port_only() {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = service.local_addr().unwrap().port();
    let mut scene = Scene::allow(&[]);
    scene.network.local.insert(port);
    let stage = Stage::start(scene).await;
    let from = "127.0.0.1:1".parse().unwrap();
    for name in ["localhost", "127.0.0.1", "::1"] {
        let admission = stage.gate.admit(&Host::parse(name).unwrap(), port, from, Via::Socks).unwrap();
        let mut stream = dial(&stage.gate, &admission).await.unwrap();
        drop(service.accept().await.unwrap());
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
    for (name, port) in [("localhost", port ^ 1), ("127.0.0.2", port), ("127.0.0.1", port ^ 1)] {
        assert!(
            stage.gate.admit(&Host::parse(name).unwrap(), port, from, Via::Socks).is_err(),
            "{name}:{port}"
        );
    }
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let addresses = ["[::1]", "127.0.0.2", "127.0.0.1"].map(|it| format!("{it}:{port}").parse().unwrap());
    let stream = connect(&addresses).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    assert!(connect(&addresses[..2]).await.is_err());
}

#[test]
fn families_take_turns() {
    let parse = |list: &[&str]| list.iter().map(|it| it.parse().unwrap()).collect::<Vec<IpAddr>>();
    let mixed = parse(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"]);
    assert_eq!(in_turn(mixed), parse(&["2001:db8::1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]));
    let many: Vec<IpAddr> = (0..100).map(|last| Ipv4Addr::new(192, 0, 2, last).into()).collect();
    assert_eq!(in_turn(many).len(), MOST_ADDRESSES);
}
