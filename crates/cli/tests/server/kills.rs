//! The server killed under load: run apart from the others, since what is left until the next start is counted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_testing::{Leftovers, Scene, Server, Test, eventually};
use serde_json::{Value, json};

use crate::scene;

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn crowded(scene: &Scene) -> Server<'_> {
    Server::start(scene, ["--config".to_owned(), scene.path("server.toml").display().to_string()])
}

#[test]
fn killed_under_load_again_and_again() {
    let rounds = number("RINGFENCE_SOAK_SERVER_KILLS", 5);
    let clients = number("RINGFENCE_SOAK_SERVER_CLIENTS", 8);
    let before = Leftovers::before();
    {
        let scene = scene();
        scene.write(
            "server.toml",
            "[roles.operator.quotas]\ncommands = 256\nsandboxes = 64\nrequests_per_minute = 0\n[server]\ncommands = 256\n",
        );
        let first = crowded(&scene);
        let key = first.key("ada", "operator");
        let kept = first.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
        let kept = kept["id"].as_str().expect("an id").to_owned();
        drop(first);
        let mut acknowledged = 0_usize;
        for round in 0..rounds {
            let mut server = crowded(&scene);
            readopted(&server, &key, &kept);
            let address = server.address();
            let done = AtomicUsize::new(0);
            let made = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..clients {
                    scope.spawn(|| {
                        let body = "{\"command\":[\"true\"]}";
                        while hurried(address, &key, "/v1/run", body, "200").is_some() {
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
                // Half-made ones are what a kill finds too.
                scope.spawn(|| {
                    while let Some(answer) = hurried(address, &key, "/v1/sandboxes", "{}", "201") {
                        let mut made = made.lock().expect("a list");
                        made.extend(answer["id"].as_str().map(str::to_owned));
                        if made.len() >= 3 {
                            return;
                        }
                    }
                });
                eventually("some runs are done", || done.load(Ordering::SeqCst) > round % 7);
                server.kill();
            });
            acknowledged += done.into_inner();
            let rows = Test::in_scene(&scene).verb(["audit", "export"]).call();
            let recorded = rows.output.lines().filter(|line| line.contains("\"kind\":\"run\"")).count();
            assert!(recorded >= acknowledged, "{acknowledged} acknowledged, {recorded} recorded");
            let verdict = Test::in_scene(&scene).verb(["audit", "verify"]).call();
            assert_eq!(verdict.exit, 0, "round {round}: {}", verdict.describe());
            let again = crowded(&scene);
            for id in made.into_inner().expect("a list") {
                readopted(&again, &key, &id);
            }
            cleared(&again, &key, &kept);
        }
        // What a killed server's workers left is swept by the next one.
        let last = crowded(&scene);
        readopted(&last, &key, &kept);
        let _ = last.ask(Some(&key), "DELETE", &format!("/v1/sandboxes/{kept}"), None).status(204);
        eventually("what was left is swept", || {
            let _ =
                last.ask(Some(&key), "POST", "/v1/run", Some(&json!({ "command": ["true"] }))).status(200);
            !before.since_within(std::time::Duration::ZERO).iter().any(|left| left.starts_with("cgroup"))
        });
        drop(last);
        eprintln!("{rounds} kills, {clients} clients, {acknowledged} runs acknowledged and all in the audit");
    }
    before.assert_none_since();
}

/// A sandbox that was acknowledged lives on, and takes commands.
fn readopted(server: &Server, key: &str, id: &str) {
    let path = format!("/v1/sandboxes/{id}/exec");
    let ran = server.ask(Some(key), "POST", &path, Some(&json!({ "command": ["true"] }))).status(200).json();
    assert_eq!(ran["exit_code"], 0, "{ran}");
}

/// None is half-made, and all but the kept one go.
fn cleared(server: &Server, key: &str, kept: &str) {
    let listed = server.ask(Some(key), "GET", "/v1/sandboxes?limit=100", None).status(200).json();
    for one in listed["sandboxes"].as_array().expect("a list") {
        let (id, state) = (one["id"].as_str().expect("an id"), one["state"].as_str());
        assert_ne!(state, Some("making"), "{one}");
        if state == Some("alive") && id != kept {
            let _ = server.ask(Some(key), "DELETE", &format!("/v1/sandboxes/{id}"), None).status(204);
        }
    }
}

/// One request and its answer; none where the server went away.
fn hurried(address: std::net::SocketAddr, key: &str, path: &str, body: &str, status: &str) -> Option<Value> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = Vec::new();
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(60)));
    stream.write_all(head.as_bytes()).ok()?;
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.split(' ').nth(1)? != status {
        panic!("{text}");
    }
    serde_json::from_str(body).ok()
}
