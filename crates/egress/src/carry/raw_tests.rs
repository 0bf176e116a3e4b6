use std::time::Duration;

use ringfence_policy::{HostName, NetworkReason};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::super::tests::*;
use super::super::tls::tests::{hello, server_hello};
use super::REQUESTS;

const TLS: [u8; 8] = REQUESTS[0];
const KERBEROS: [u8; 8] = REQUESTS[1];

/// Agree on TLS as PostgreSQL does.
async fn agree(client: &mut TcpStream, server: &mut TcpStream) {
    client.write_all(&TLS).await.unwrap();
    assert_eq!(read_some(server, 8).await, TLS);
    server.write_all(b"S").await.unwrap();
    assert_eq!(read_some(client, 1).await, b"S");
}

#[tokio::test]
async fn tls_that_postgres_agrees_on_is_for_the_granted_name() {
    for (name, alert, reason) in [
        (Some("other.example"), 112, NetworkReason::Sni { found: "other.example".into() }),
        (None, 109, NetworkReason::NoSni),
    ] {
        let (stage, listener) = stage().await;
        let mut client = stage.connect(NAME, PORT).await;
        let mut server = accept(&listener).await;
        agree(&mut client, &mut server).await;
        for part in hello(name).chunks(11) {
            client.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(read_all(&mut client).await.unwrap(), [21, 3, 3, 0, 2, 2, alert], "{name:?}");
        assert_eq!(denial(&stage).await, reason);
        assert_eq!(read_all(&mut server).await.unwrap_or_default(), b"", "{name:?}");
    }
}

#[tokio::test]
async fn tls_that_postgres_agrees_on_is_passed_on_unchanged() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    // Byte by byte, and after another kind of encryption was refused.
    for byte in KERBEROS {
        client.write_all(&[byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(read_some(&mut server, 8).await, KERBEROS);
    server.write_all(b"N").await.unwrap();
    assert_eq!(read_some(&mut client, 1).await, b"N");
    agree(&mut client, &mut server).await;
    let first = hello(Some(NAME));
    client.write_all(&first).await.unwrap();
    assert_eq!(read_some(&mut server, first.len()).await, first);
    let answer = server_hello(&[9; 32]);
    server.write_all(&answer).await.unwrap();
    assert_eq!(read_some(&mut client, answer.len()).await, answer);
    client.write_all(b"encrypted").await.unwrap();
    assert_eq!(read_some(&mut server, 9).await, b"encrypted");
}

#[tokio::test]
async fn a_hello_sent_too_soon_waits_for_the_servers_word() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    client.write_all(&[&TLS[..], &hello(Some("other.example"))].concat()).await.unwrap();
    let mut server = accept(&listener).await;
    assert_eq!(read_some(&mut server, 8).await, TLS);
    server.write_all(b"S").await.unwrap();
    assert_eq!(read_all(&mut client).await.unwrap(), [b'S', 21, 3, 3, 0, 2, 2, 112]);
    assert_eq!(denial(&stage).await, NetworkReason::Sni { found: "other.example".into() });
    assert_eq!(read_all(&mut server).await.unwrap_or_default(), b"");
}

#[tokio::test]
async fn what_is_no_hello_is_not_taken_for_one() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    agree(&mut client, &mut server).await;
    client.write_all(b"\0\0\0\x54\0\x03\0\0user\0me\0").await.unwrap();
    assert!(matches!(denial(&stage).await, NetworkReason::BadName { .. }));
    assert_eq!(read_all(&mut server).await.unwrap_or_default(), b"");
}

#[tokio::test]
async fn a_postgres_client_may_do_without_a_name_or_without_tls() {
    let (stage, listener) =
        stage_with(|scene| _ = scene.network.no_sni.insert(HostName::parse(NAME).unwrap())).await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    agree(&mut client, &mut server).await;
    client.write_all(&hello(None)).await.unwrap();
    assert_eq!(read_some(&mut server, hello(None).len()).await, hello(None));

    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    client.write_all(&TLS).await.unwrap();
    assert_eq!(read_some(&mut server, 8).await, TLS);
    server.write_all(b"N").await.unwrap();
    assert_eq!(read_some(&mut client, 1).await, b"N");
    client.write_all(b"\0\0\0\x10\0\x03\0\0user\0me\0").await.unwrap();
    assert_eq!(read_some(&mut server, 16).await, b"\0\0\0\x10\0\x03\0\0user\0me\0");
}

#[tokio::test]
async fn a_request_behind_something_else_does_not_get_there() {
    for (first, second) in [
        (&b"PING\r\nGET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"[..], &b""[..]),
        (b"PING\r\n", b"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"),
        (b"PING\r\nget http://oth", b"er.example/\r\n"),
        (b"(GET / HTTP/1.1", b"\r\nHost: other.example\r\n\r\n"),
        (b"\0\nCONNECT other.example:443", b"\n"),
        // Taken for a packet of git or LDAP by how it begins.
        (b"0 /\x02 HTTP/1.1\r\nHost: other.example\r\n\r\n", b""),
        (b"\r\n123 /\x01", b" HTTP/1.1\r\nHost: other.example\r\n\r\n"),
        (b"123 /\x01 HTTP/1.1\rHost: other.example\r\r", b""),
        (b"0033get /\0", b" http/1.0\r\nHost: other.example\r\n\r\n"),
    ] {
        let (stage, listener) = stage().await;
        let mut client = stage.connect(NAME, PORT).await;
        let mut server = accept(&listener).await;
        client.write_all(first).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        // It may be cut off by now.
        let _ = client.write_all(second).await;
        assert!(matches!(denial(&stage).await, NetworkReason::Malformed { .. }), "{first:?}");
        let mut got = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut server, &mut got).await;
        let whole = [first, second].concat();
        assert!(got.len() < whole.len() && whole.starts_with(&got), "{got:?}");
        let ends = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        assert!(ends(&got) <= 1, "no request is whole: {got:?}");
    }
}

#[tokio::test]
async fn a_first_line_that_is_too_long_for_a_packet_does_not_end_there() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    let text = format!("123 /\x01{} HTTP/1.1\r\nHost: other.example\r\n\r\n", "a".repeat(40_000));
    let _ = client.write_all(text.as_bytes()).await;
    assert!(matches!(denial(&stage).await, NetworkReason::Malformed { .. }));
    let mut got = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut server, &mut got).await;
    assert!(!got.contains(&b'\n'), "the line has its end");
}

#[tokio::test]
async fn lines_after_an_answer_are_the_protocols_own() {
    let (stage, listener) = stage().await;
    let mut client = stage.connect(NAME, PORT).await;
    let mut server = accept(&listener).await;
    client.write_all(b"get key\r\n").await.unwrap();
    assert_eq!(read_some(&mut server, 9).await, b"get key\r\n");
    server.write_all(b"END\r\n").await.unwrap();
    assert_eq!(read_some(&mut client, 5).await, b"END\r\n");
    let text = b"set page 0 0 15\r\nGET / HTTP/1.1\r\n";
    client.write_all(text).await.unwrap();
    assert_eq!(read_some(&mut server, text.len()).await, text);
}
