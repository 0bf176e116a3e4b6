//! The server killed under load: run apart from the others, since what is left until the next start is counted.

use ringfence_testing::{Leftovers, Test, eventually};
use serde_json::json;

use crate::{scene, server};

#[test]
fn killed_under_load_again_and_again() {
    let rounds: usize =
        std::env::var("RINGFENCE_SOAK_SERVER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let before = Leftovers::before();
    {
        let scene = scene();
        let first = server(&scene);
        let key = first.key("ada", "operator");
        drop(first);
        let mut acknowledged = 0_usize;
        for round in 0..rounds {
            let mut server = server(&scene);
            let address = server.address();
            let done = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        while hurried(address, &key) {
                            done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        }
                    });
                }
                eventually("some runs are done", || {
                    done.load(std::sync::atomic::Ordering::SeqCst) > round % 7
                });
                server.kill();
            });
            acknowledged += done.into_inner();
            let rows = Test::in_scene(&scene).verb(["audit", "export"]).call();
            let recorded = rows.output.lines().filter(|line| line.contains("\"kind\":\"run\"")).count();
            assert!(recorded >= acknowledged, "{acknowledged} acknowledged, {recorded} recorded");
            let verdict = Test::in_scene(&scene).verb(["audit", "verify"]).call();
            assert_eq!(verdict.exit, 0, "round {round}: {}", verdict.describe());
        }
        // What a killed server's workers left is swept by the next one.
        let last = server(&scene);
        eventually("what was left is swept", || {
            let _ =
                last.ask(Some(&key), "POST", "/v1/run", Some(&json!({ "command": ["true"] }))).status(200);
            !before.since_within(std::time::Duration::ZERO).iter().any(|left| left.starts_with("cgroup"))
        });
        drop(last);
        eprintln!("{rounds} kills, {acknowledged} runs acknowledged and all in the audit");
    }
    before.assert_none_since();
}

/// One run; false where the server went away.
fn hurried(address: std::net::SocketAddr, key: &str) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(address) else { return false };
    let body = "{\"command\":[\"true\"]}";
    let head = format!(
        "POST /v1/run HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = Vec::new();
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(60)));
    stream.write_all(head.as_bytes()).is_ok()
        && stream.read_to_end(&mut answer).is_ok()
        && answer.starts_with(b"HTTP/1.1 200")
        && answer.ends_with(b"}")
}
