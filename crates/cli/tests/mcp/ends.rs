//! Cancelled calls, vanished clients, and what is left of them: nothing.

use ringfence_testing::{Leftovers, eventually, processes_with_marker};
use serde_json::json;

use crate::client::Client;
use crate::scene;

/// A tree that has left its group, its session and its parent.
fn tree(marker: &str) -> String {
    format!("export {marker}=1; (setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000")
}

fn marker(what: &str) -> String {
    format!("RINGFENCE_TEST_{what}_{}", std::process::id())
}

#[test]
fn a_cancelled_call_ends_its_whole_tree() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let mut client = Client::start(&scene);
        for fresh in [json!({}), json!({ "profile": "restrictive" })] {
            let marker = marker("CANCEL");
            let mut arguments = fresh;
            arguments["command"] = json!(tree(&marker));
            arguments["timeout_ms"] = json!(600_000);
            let id = client.begin_call("sandbox_run", arguments);
            eventually("the tree is there", || processes_with_marker(&marker).len() >= 4);
            client.tell("notifications/cancelled", json!({ "requestId": id, "reason": "enough" }));
            eventually("the tree is gone", || processes_with_marker(&marker).is_empty());
            // The connection goes on, in the same session.
            let run = client.call("sandbox_run", json!({ "command": "echo on" }));
            assert_eq!(run["stdout"], "on\n");
            assert!(client.notices.iter().all(|notice| notice["id"] != id), "{:?}", client.notices);
        }
    }
    before.assert_none_since();
}

/// opencode sends one after each call that is done.
#[test]
fn a_cancel_for_what_is_done_is_ignored() {
    let scene = scene();
    let mut client = Client::start(&scene);
    for _ in 0..3 {
        let id = client.begin_call("sandbox_run", json!({ "command": "echo x" }));
        client.answer_to(id);
        client.tell("notifications/cancelled", json!({ "requestId": id }));
        client.tell("notifications/cancelled", json!({ "requestId": 4_000_000 }));
    }
    assert_eq!(client.call("sandbox_run", json!({ "command": "echo on" }))["stdout"], "on\n");
}

#[test]
fn a_client_that_vanishes_leaves_nothing() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let marker = marker("VANISH");
        let mut client = Client::start(&scene);
        client.call("sandbox_process_start", json!({ "command": tree(&marker) }));
        client.begin_call("sandbox_run", json!({ "command": tree(&marker), "timeout_ms": 600_000 }));
        client.begin_call(
            "sandbox_run",
            json!({ "command": tree(&marker), "timeout_ms": 600_000, "profile": "restrictive" }),
        );
        eventually("the trees are there", || processes_with_marker(&marker).len() >= 12);
        let outcome = client.end();
        assert_eq!(outcome.exit, 0, "{}", outcome.describe());
        assert!(processes_with_marker(&marker).is_empty());
        let sessions = scene.state().join("sessions");
        let left = std::fs::read_dir(sessions).map_or(0, Iterator::count);
        assert_eq!(left, 0);
    }
    before.assert_none_since();
}

/// Commands end at once; the session that they were in has a lease of two minutes, and is ended here by hand.
#[test]
fn a_kill_of_ringfence_itself_ends_its_commands() {
    let scene = scene();
    let marker = marker("KILL");
    let mut client = Client::start(&scene);
    client.begin_call("sandbox_run", json!({ "command": tree(&marker), "timeout_ms": 600_000 }));
    client.begin_call(
        "sandbox_run",
        json!({ "command": tree(&marker), "timeout_ms": 600_000, "profile": "restrictive" }),
    );
    eventually("the trees are there", || processes_with_marker(&marker).len() >= 8);
    client.kill();
    eventually("the trees are gone", || processes_with_marker(&marker).is_empty());
    let listed = ringfence_testing::Test::in_scene(&scene).verb(["session", "ls", "--json"]).call();
    let rows: serde_json::Value = serde_json::from_str(&listed.output).expect("a list");
    for row in rows.as_array().into_iter().flatten() {
        let left = row["ttl_ms"].as_u64().expect("a lease");
        assert!(left <= 120_000, "{row}");
        let id = row["id"].as_str().unwrap();
        let removed = ringfence_testing::Test::in_scene(&scene).verb(["session", "rm", id]).call();
        assert_eq!(removed.exit, 0, "{}", removed.describe());
    }
}
