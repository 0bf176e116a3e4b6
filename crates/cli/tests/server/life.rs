//! Starts, stops, kills: nothing acknowledged is lost, nothing is left behind, and the record is whole.

use ringfence_testing::{Leftovers, Test};
use serde_json::json;

use crate::{scene, server};

#[test]
fn a_killed_server_finds_its_sandboxes_again() {
    let scene = scene();
    let mut first = server(&scene);
    let key = first.key("ada", "operator");
    let made = first.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    let exec = format!("/v1/sandboxes/{id}/exec");
    let _ = first
        .ask(Some(&key), "POST", &exec, Some(&json!({ "command": ["sh", "-c", "echo kept > f"] })))
        .status(200);
    first.kill();
    let second = server(&scene);
    assert_eq!(second.first_url(), None, "there is a user already");
    let again =
        second.ask(Some(&key), "POST", &exec, Some(&json!({ "command": ["cat", "f"] }))).status(200).json();
    assert_eq!(again["stdout"], "kept\n");
    let rows = Test::in_scene(&scene).verb(["audit", "ls", "--json"]).call();
    rows.stdout_contains("sandbox.create");
    let verdict = Test::in_scene(&scene).verb(["audit", "verify"]).call();
    assert_eq!(verdict.exit, 0, "{}", verdict.describe());
    let _ = second.ask(Some(&key), "DELETE", &format!("/v1/sandboxes/{id}"), None).status(204);
}

#[test]
fn a_sandbox_that_ended_meanwhile_is_told_so() {
    let scene = scene();
    let mut first = server(&scene);
    let key = first.key("ada", "operator");
    let made = first.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    first.kill();
    let gone = Test::in_scene(&scene).verb(["session", "rm", id.as_str()]).call();
    assert_eq!(gone.exit, 0, "{}", gone.describe());
    let second = server(&scene);
    let row = second.ask(Some(&key), "GET", &format!("/v1/sandboxes/{id}"), None).status(200).json();
    assert_eq!(row["state"], "ended");
}

#[test]
fn told_to_stop_it_ends_with_all_that_it_began() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let server = server(&scene);
        let key = server.key("ada", "operator");
        let _ = server.ask(Some(&key), "POST", "/v1/run", Some(&json!({ "command": ["true"] }))).status(200);
        assert_eq!(server.stop().exit, 0);
    }
    before.assert_none_since();
}

#[test]
fn every_answer_fits_the_document_that_is_committed() {
    let scene = scene();
    let server = server(&scene);
    let served = server.ask(None, "GET", "/openapi.json", None).status(200).json();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        let text = serde_json::to_string_pretty(&served).expect("JSON") + "\n";
        std::fs::write(path, text).expect("write the document");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let committed: serde_json::Value = serde_json::from_str(&committed).unwrap_or_default();
    assert!(
        committed == served,
        "docs/openapi.json is not what the code says: run this test with INSTA_UPDATE=always"
    );
}

#[test]
fn counts_are_told_to_prometheus() {
    let scene = scene();
    let server = server(&scene);
    let (ada, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
    let _ = server
        .ask(Some(&ada), "POST", "/v1/run", Some(&json!({ "command": ["unshare", "-m", "true"] })))
        .status(200);
    let fork = json!({ "command": ["sh", "-c", "sleep 100 & sleep 100 & sleep 100 & wait"], "policy": { "limits": { "processes": 3 } } });
    let reached = server.ask(Some(&ada), "POST", "/v1/run", Some(&fork)).status(200).json();
    assert!(reached["denials"].to_string().contains("limits.processes"), "{reached}");
    let at = crate::sandbox(&server, &ada, &json!({}));
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
    let steering = json!({ "command": ["echo", crate::actions::STEERING] });
    let _ = server.ask(Some(&ada), "POST", "/v1/run", Some(&steering)).status(202);
    server.ask(Some(&ada), "GET", "/v1/metrics", None).refused(403, "forbidden");
    for made_up in ["MADEUP", "FOO", "X-1"] {
        server.ask(None, made_up, "/healthz", None).refused(405, "wrong_method");
    }
    let text = String::from_utf8(server.ask(Some(&admin), "GET", "/v1/metrics", None).status(200).body)
        .expect("text");
    for line in [
        "ringfence_commands_total{kind=\"failure\"}",
        "ringfence_requests_total{route=\"/v1/run\",method=\"POST\",status=\"200\"} 2",
        "ringfence_queue{kind=\"approval\"} 1",
        "ringfence_limits_total{kind=\"limits.processes\"}",
        "ringfence_start_time_seconds_count{kind=\"fresh\"} 2",
        "ringfence_start_time_seconds_count{kind=\"session\"} 1",
        "ringfence_pool_total{kind=\"miss\"} 2",
        "ringfence_denials_total{kind=\"syscall\"}",
        "ringfence_commands_running 0",
        "ringfence_starts_total{kind=\"fresh\"} 2",
        "ringfence_connections_open 1",
        "ringfence_requests_total{route=\"/healthz\",method=\"other\",status=\"405\"} 3",
        "# EOF",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}
