//! The server killed under load: run apart from the others, since what is left until the next start is counted.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use ringfence_testing::{Leftovers, Scene, Server, Test, eventually};
use serde_json::{Value, json};

use crate::actions::{STEERING, state, waiting};
use crate::scene;

/// An answer, and the id of its request.
struct Answered {
    id: String,
    body: Value,
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).expect("random bytes");
    u64::from_le_bytes(bytes)
}

/// A key that needs no server to be made.
fn first_key(scene: &Scene, user: &str, role: &str) -> String {
    let made = Test::in_scene(scene).verb(["key", "create", "--user", user, "--role", role]).call();
    assert_eq!(made.exit, 0, "{}", made.describe());
    made.output.trim().to_owned()
}

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
    // Milliseconds that it is let go on under load, at most.
    let longest = number("RINGFENCE_SOAK_SERVER_DELAY", 2_000).max(1) as u64;
    let before = Leftovers::before();
    {
        let scene = scene();
        scene.write(
            "server.toml",
            "[roles.operator.quotas]\ncommands = 256\nsandboxes = 64\nrequests_per_minute = 0\n[roles.admin.quotas]\nrequests_per_minute = 0\n[server]\ncommands = 256\n",
        );
        let first = crowded(&scene);
        let key = first.key("ada", "operator");
        let kept = first.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
        let kept = kept["id"].as_str().expect("an id").to_owned();
        drop(first);
        let admin = first_key(&scene, "root", "admin");
        let mut acknowledged = BTreeSet::new();
        for round in 0..rounds {
            let mut server = crowded(&scene);
            readopted(&server, &key, &kept);
            let address = server.address();
            // Acknowledged before the kill, and there after it: what waits for a person, and a user.
            let steering = json!({ "command": ["echo", STEERING, round.to_string()] });
            let action = waiting(&server, &key, &steering);
            let user = format!("user-{round}");
            let add = json!({ "name": user, "role": "viewer" });
            let _ = server.ask(Some(&admin), "POST", "/v1/users", Some(&add)).status(201);
            let done = Mutex::new(Vec::new());
            let made = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..clients {
                    scope.spawn(|| {
                        let body = "{\"command\":[\"true\"]}";
                        while let Some(answer) = hurried(address, &key, "/v1/run", body, "200") {
                            done.lock().expect("a list").push(answer.id);
                        }
                    });
                }
                // Half-made ones are what a kill finds too.
                scope.spawn(|| {
                    while let Some(answer) = hurried(address, &key, "/v1/sandboxes", "{}", "201") {
                        let mut made = made.lock().expect("a list");
                        made.extend(answer.body["id"].as_str().map(str::to_owned));
                        if made.len() >= 3 {
                            return;
                        }
                    }
                });
                eventually("some runs are done", || done.lock().expect("a list").len() > round % 7);
                std::thread::sleep(Duration::from_millis(random() % longest));
                server.kill();
            });
            acknowledged.extend(done.into_inner().expect("a list"));
            let rows = Test::in_scene(&scene).verb(["audit", "export"]).call();
            let recorded: BTreeSet<String> = rows
                .output
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).expect("a row"))
                .filter(|row| row["kind"] == "run")
                .filter_map(|row| row["request_id"].as_str().map(str::to_owned))
                .collect();
            let lost: Vec<&String> = acknowledged.difference(&recorded).collect();
            assert!(lost.is_empty(), "round {round}: acknowledged and not in the audit: {lost:?}");
            let verdict = Test::in_scene(&scene).verb(["audit", "verify"]).call();
            assert_eq!(verdict.exit, 0, "round {round}: {}", verdict.describe());
            let again = crowded(&scene);
            assert_eq!(state(&again, &key, &action), "waiting", "round {round}");
            let users = again.ask(Some(&admin), "GET", "/v1/users?limit=1000", None).status(200).json();
            let has = users["users"].as_array().into_iter().flatten().any(|one| one["name"] == *user);
            assert!(has, "round {round}: {users}");
            let cancel = format!("/v1/actions/{action}/cancel");
            let _ = again.ask(Some(&key), "POST", &cancel, None).status(200);
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
        let count = acknowledged.len();
        eprintln!("{rounds} kills, {clients} clients, {count} runs acknowledged and each in the audit");
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
fn hurried(
    address: std::net::SocketAddr,
    key: &str,
    path: &str,
    body: &str,
    status: &str,
) -> Option<Answered> {
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
    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: "))?.trim().to_owned();
    Some(Answered { id, body: serde_json::from_str(body).ok()? })
}
