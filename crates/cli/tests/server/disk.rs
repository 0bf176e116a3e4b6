//! What a user holds on the server's disk is bounded, and others do not notice.

use ringfence_testing::{Leftovers, Server};
use serde_json::json;

use crate::{sandbox, scene};

#[test]
fn a_command_that_fills_the_disk_is_ended_and_others_go_on() {
    let before = Leftovers::before();
    {
        let scene = scene();
        scene.write("server.toml", "[roles.operator.quotas]\ndisk = '24M'\n");
        let config = scene.path("server.toml").display().to_string();
        let server = Server::start(&scene, ["--config", &config]);
        let (eve, ada) = (server.key("eve", "operator"), server.key("ada", "operator"));
        let other = sandbox(&server, &ada, &json!({}));
        let watching = json!({ "command": ["sh", "-c", "echo up; sleep 1000"] });
        let started =
            server.ask(Some(&ada), "POST", &format!("{other}/processes"), Some(&watching)).status(201);
        let process = started.json()["process"].clone();
        let fill =
            "i=0; while true; do head -c 1048576 /dev/urandom > f$i || exit 3; i=$((i+1)); sleep 0.05; done";
        // One command in a fresh sandbox, in a workspace of its own.
        let body = json!({ "command": ["sh", "-c", fill], "workspace": "one", "timeout_ms": 300_000 });
        let ended = server.ask(Some(&eve), "POST", "/v1/run", Some(&body)).status(200).json();
        let denied = |told: &serde_json::Value| {
            told["denials"].as_array().into_iter().flatten().any(|one| one["what"] == "disk quota")
        };
        assert!(ended["exit_code"] == 137 && ended["timed_out"] == false && denied(&ended), "{ended}");
        let line = ended["receipt"]["clauses"].to_string();
        assert!(line.contains("which end beyond 24 MiB"), "the receipt says how: {line}");
        // Full is full, whatever workspace: until something is removed.
        let more = json!({ "command": ["true"], "workspace": "two" });
        server.ask(Some(&eve), "POST", "/v1/run", Some(&more)).refused(429, "quota");
        server.ask(Some(&eve), "POST", "/v1/sandboxes", Some(&json!({}))).refused(429, "quota");
        let usage = server.ask(Some(&eve), "GET", "/v1/usage", None).status(200).json();
        assert!(usage["bytes"].as_u64() >= usage["limit"].as_u64(), "{usage}");
        let of = server.ask(Some(&eve), "GET", "/v1/workspaces/one/usage", None).status(200).json();
        assert!(of["files"].as_u64() > Some(20), "{of}");
        let _ = server.ask(Some(&eve), "DELETE", "/v1/workspaces/one", None).status(204);
        assert_eq!(
            server.ask(Some(&eve), "GET", "/v1/usage", None).status(200).json()["bytes"]
                .as_u64()
                .map(|b| b < 1 << 20),
            Some(true)
        );
        // The same in a sandbox that stays: its command ends, it does not.
        let at = sandbox(&server, &eve, &json!({ "workspace": "one" }));
        let body = json!({ "command": ["sh", "-c", fill], "timeout_ms": 300_000 });
        let ended = server.ask(Some(&eve), "POST", &format!("{at}/exec"), Some(&body)).status(200).json();
        assert!(ended["signal"] == 9 && denied(&ended["result"]), "{ended}");
        server
            .ask(Some(&eve), "POST", &format!("{at}/exec"), Some(&json!({ "command": ["true"] })))
            .refused(429, "quota");
        server.ask_bytes(Some(&eve), "PUT", &format!("{at}/files?path=x"), None, b"x").refused(429, "quota");
        server.ask(Some(&eve), "POST", &format!("{at}/snapshots"), Some(&json!({}))).refused(429, "quota");
        for number in 0..20 {
            let _ = server.ask(Some(&eve), "DELETE", &format!("{at}/files?path=f{number}"), None);
        }
        ringfence_testing::eventually("there is room again", || {
            let reply =
                server.ask(Some(&eve), "POST", &format!("{at}/exec"), Some(&json!({ "command": ["true"] })));
            reply.status == 200
        });
        // And in the layer of a copy-on-write workspace.
        let _ = server.ask(Some(&eve), "DELETE", &at, None).status(204);
        let overlay = sandbox(&server, &eve, &json!({ "workspace": "two", "overlay": true }));
        let ended =
            server.ask(Some(&eve), "POST", &format!("{overlay}/exec"), Some(&body)).status(200).json();
        assert!(ended["signal"] == 9 && denied(&ended["result"]), "{ended}");
        let _ = server.ask(Some(&eve), "DELETE", &overlay, None).status(204);
        // Ada's has run on all the while.
        let rows = server.ask(Some(&ada), "GET", &format!("{other}/processes"), None).status(200).json();
        let hers = rows.as_array().into_iter().flatten().find(|row| row["process"] == process);
        assert!(hers.is_some_and(|row| row["result"].is_null()), "{rows}");
        let _ = server.ask(Some(&ada), "POST", "/v1/run", Some(&json!({ "command": ["true"] }))).status(200);
        let _ = server.ask(Some(&ada), "DELETE", &other, None).status(204);
    }
    before.assert_none_since();
}

/// What all hold together is bounded too: who holds little waits for who holds much.
#[test]
fn the_server_has_a_quota_of_its_own() {
    let scene = scene();
    scene.write("server.toml", "[server]\ndisk = '24M'\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let (eve, ada) = (server.key("eve", "operator"), server.key("ada", "operator"));
    let run = |key: &str, script: &str| {
        let body = json!({ "command": ["sh", "-c", script], "timeout_ms": 300_000 });
        server.ask(Some(key), "POST", "/v1/run", Some(&body))
    };
    let at = sandbox(&server, &ada, &json!({}));
    assert_eq!(run(&ada, "head -c 1000000 /dev/urandom > mine").status(200).json()["exit_code"], 0);
    // Her own quota is 4 GiB: what is left of the server's ends it.
    let fill =
        "i=0; while true; do head -c 1048576 /dev/urandom > f$i || exit 3; i=$((i+1)); sleep 0.05; done";
    let ended = run(&eve, fill).status(200).json();
    let denied = ended["denials"].as_array().into_iter().flatten().any(|one| one["what"] == "disk quota");
    assert!(ended["exit_code"] == 137 && denied, "{ended}");
    ringfence_testing::eventually("everybody hears of it", || run(&ada, "true").status == 429);
    let refused = run(&ada, "true").refused(429, "quota");
    assert!(refused.header("retry-after").is_some());
    let told = refused.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("the server's quota") && told.contains("of 24 MiB"), "{told}");
    server
        .ask(Some(&ada), "POST", &format!("{at}/exec"), Some(&json!({ "command": ["true"] })))
        .refused(429, "quota");
    server.ask_bytes(Some(&ada), "PUT", &format!("{at}/files?path=x"), None, b"x").refused(429, "quota");
    server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&json!({}))).refused(429, "quota");
    // Hers is not counted against her: as soon as there is room, she goes on.
    let _ = server.ask(Some(&eve), "DELETE", "/v1/workspaces/default", None).status(204);
    ringfence_testing::eventually("there is room again", || run(&ada, "true").status == 200);
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}

/// A snapshot that is taken in is counted before it is kept.
#[test]
fn a_snapshot_that_is_too_large_for_its_user_is_not_taken_in() {
    let scene = scene();
    scene.write("server.toml", "[roles.operator.quotas]\ndisk = '8M'\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let (root, eve) = (server.key("root", "admin"), server.key("eve", "operator"));
    let at = sandbox(&server, &root, &json!({}));
    let archive = |bytes: usize| {
        let fill = json!({ "command": ["sh", "-c", format!("head -c {bytes} /dev/urandom > f")] });
        let done = server.ask(Some(&root), "POST", &format!("{at}/exec"), Some(&fill)).status(200).json();
        assert_eq!(done["exit_code"], 0, "{done}");
        let taken = server.ask(Some(&root), "POST", &format!("{at}/snapshots"), Some(&json!({})));
        let taken = taken.status(201).json();
        let id = taken["id"].as_str().expect("an id");
        server.ask(Some(&root), "GET", &format!("/v1/snapshots/{id}/export"), None).status(200).body
    };
    let (large, small) = (archive(12 << 20), archive(1 << 10));
    let kind = Some("application/x-tar");
    let send = |key: &str, tar: &[u8]| server.ask_bytes(Some(key), "POST", "/v1/snapshots/import", kind, tar);
    let refused = send(&eve, &large).refused(400, "snapshot").json();
    assert!(refused["error"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{refused}");
    // Nothing of it stays, and nothing of it counts.
    let listed = server.ask(Some(&eve), "GET", "/v1/snapshots", None).status(200).json();
    assert_eq!(listed["snapshots"], json!([]));
    let usage = server.ask(Some(&eve), "GET", "/v1/usage", None).status(200).json();
    assert!(usage["bytes"].as_u64() < Some(1 << 20), "{usage}");
    let _ = send(&eve, &small).status(201);
    let _ = send(&root, &large).status(201);
    // With an Idempotency-Key a body is held in memory, and bounded like any other.
    let headers = [
        ("authorization", format!("Bearer {root}")),
        ("content-type", "application/x-tar".to_owned()),
        ("idempotency-key", "once".to_owned()),
    ];
    let long = vec![0; (16 << 20) + 1];
    server.ask_raw("POST", "/v1/snapshots/import", &headers, &long).refused(413, "too_large");
    let _ = server.ask(Some(&root), "DELETE", &at, None).status(204);
}
