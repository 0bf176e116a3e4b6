use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::event::Event;
use crate::testing::{Scene, Stage};

const RULE: &str = "far.example:8090";

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

async fn proxy_server() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

async fn stage(url: String) -> Stage {
    let mut scene = Scene::allow(&[RULE]);
    scene.upstream.all = Some(url);
    Stage::start(scene).await
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_tunnel_through_an_http_proxy_loses_no_byte() {
    let (listener, at) = proxy_server().await;
    let stage = stage(format!("http://me:p%40ss@{at}")).await;
    let mut client = stage.connect("far.example", 8090).await;
    client.write_all(b"\0first").await.unwrap();
    let (mut proxy, _) = listener.accept().await.unwrap();
    assert_eq!(
        read_head(&mut proxy).await,
        "CONNECT far.example:8090 HTTP/1.1\r\nHost: far.example:8090\r\n\
         Proxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n"
    );
    // The server behind it speaks in the same breath.
    proxy.write_all(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nserver speaks").await.unwrap();
    let mut got = [0; 13];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"server speaks");
    let mut got = [0; 6];
    proxy.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"\0first");
}

#[tokio::test]
async fn a_proxy_that_refuses_says_why() {
    let (listener, at) = proxy_server().await;
    let stage = stage(format!("http://{at}")).await;
    let mut client = stage.connect("far.example", 8090).await;
    client.write_all(b"\0first").await.unwrap();
    let (mut proxy, _) = listener.accept().await.unwrap();
    read_head(&mut proxy).await;
    proxy.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.unwrap();
    let mut got = Vec::new();
    assert!(client.read_to_end(&mut got).await.is_err(), "reset");
    let error = stage
        .event(|event| match event {
            Event::Closed { error, .. } => error.clone(),
            _ => None,
        })
        .await;
    assert_eq!(error, "the upstream proxy refused: HTTP/1.1 407 Proxy Authentication Required");
}

#[tokio::test]
async fn a_tunnel_through_socks() {
    let (listener, at) = proxy_server().await;
    let stage = stage(format!("socks5h://me:secret@{at}")).await;
    let mut client = stage.connect("far.example", 8090).await;
    let (mut proxy, _) = listener.accept().await.unwrap();
    let mut methods = [0; 4];
    proxy.read_exact(&mut methods).await.unwrap();
    assert_eq!(methods, [5, 2, 0, 2]);
    proxy.write_all(&[5, 2]).await.unwrap();
    let mut login = [0; 11];
    proxy.read_exact(&mut login).await.unwrap();
    assert_eq!(&login, b"\x01\x02me\x06secret");
    proxy.write_all(&[1, 0]).await.unwrap();
    let mut request = [0; 18];
    proxy.read_exact(&mut request).await.unwrap();
    assert_eq!(&request, b"\x05\x01\0\x03\x0bfar.example\x1f\x9a");
    proxy.write_all(b"\x05\0\0\x01\x7f\0\0\x01\x12\x34hello").await.unwrap();
    let mut got = [0; 5];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

#[test]
fn only_known_kinds_of_proxies_are_taken_and_logins_are_not_shown() {
    for good in
        ["http://127.0.0.1:3128", "proxy.example:8080", "socks5://[::1]:1080", "HTTP://proxy.example/"]
    {
        assert!(Proxy::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "https://me:hidden@proxy.example",
        "socks4://me:hidden@proxy.example",
        "http://me:hidden@:80",
        "ftp://x",
    ] {
        let error = Proxy::parse(bad).unwrap_err();
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
    let proxy = Proxy::parse("http://me:hidden@proxy.example:3128").unwrap();
    assert_eq!(format!("{proxy:?}"), "Http proxy proxy.example:3128");
}

#[test]
fn each_variable_is_for_what_it_says() {
    let proxies = Proxies::new(&Upstream {
        http: Some("http://plain.example:1".into()),
        https: None,
        all: Some("socks5://all.example:2".into()),
        except: Some(
            "near.example, .inner.example,10.0.0.0/8,192.0.2.1,[2001:db8::1]:8443,port.example:81,\
             198.51.100.0/24,2001:db8:5::/48"
                .into(),
        ),
    })
    .unwrap();
    let chosen = |target: &str, port, purpose| {
        proxies.for_target(&host(target), port, purpose).map(|proxy| proxy.host.to_string())
    };
    assert_eq!(chosen("far.example", 80, Purpose::PlainHttp).as_deref(), Some("plain.example"));
    assert_eq!(chosen("far.example", 443, Purpose::Tunnel).as_deref(), Some("all.example"));
    assert_eq!(chosen("notnear.example", 443, Purpose::Tunnel).as_deref(), Some("all.example"));
    assert_eq!(chosen("port.example", 80, Purpose::Tunnel).as_deref(), Some("all.example"));
    for other in ["198.51.101.7", "2001:db8:6::7", "11.1.2.3"] {
        assert_eq!(chosen(other, 443, Purpose::Tunnel).as_deref(), Some("all.example"), "{other}");
    }
    for (direct, port) in [
        ("near.example", 443),
        ("a.near.example", 443),
        ("inner.example", 443),
        ("b.inner.example", 443),
        ("10.1.2.3", 443),
        ("198.51.100.7", 443),
        ("2001:db8:5::7", 443),
        ("192.0.2.1", 443),
        ("2001:db8::1", 8443),
        ("port.example", 81),
        ("127.0.0.1", 443),
        ("::1", 443),
    ] {
        assert_eq!(chosen(direct, port, Purpose::Tunnel), None, "{direct}");
    }
    let none = Proxies::new(&Upstream {
        all: Some("http://p:1".into()),
        except: Some("*".into()),
        ..Default::default()
    });
    assert!(none.unwrap().for_target(&host("far.example"), 443, Purpose::Tunnel).is_none());
}
