//! What somebody has looked at is what is done, also where their decision was waited for.

use ringfence_testing::{Server, eventually};
use serde_json::{Value, json};

use crate::actions::{configured, decide, state};
use crate::{sandbox, scene};

fn shell(server: &Server<'_>, key: &str, at: &str, script: &str) -> String {
    let body = json!({ "command": ["sh", "-c", script] });
    let done = server.ask(Some(key), "POST", &format!("{at}/exec"), Some(&body)).status(200).json();
    assert_eq!(done["exit_code"], 0, "{done}");
    done["stdout"].as_str().unwrap_or_default().to_owned()
}

/// Also of what a diff only names: a binary differs from another, and that is all it says.
#[test]
fn what_is_swapped_while_a_commit_waits_is_not_applied() {
    let scene = scene();
    let server = configured(&scene, "[[actions.rules]]\nthen = 'ask'\nkinds = ['commit']\n");
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "approver"));
    let direct = sandbox(&server, &ada, &json!({ "workspace": "w" }));
    let overlay = sandbox(&server, &ada, &json!({ "workspace": "w", "overlay": true }));
    shell(&server, &ada, &overlay, "echo harmless > f; printf '\\0one' > binary");
    let waiting = || {
        let page = server.ask(Some(&eve), "GET", "/v1/actions?state=waiting", None).status(200).json();
        page["actions"][0]["id"].as_str().map(str::to_owned)
    };
    let (path, body) = (format!("{overlay}/commit"), json!({ "wait_ms": 60_000 }));
    let commit = |swap: &str| {
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| server.ask(Some(&ada), "POST", &path, Some(&body)));
            let mut id = None;
            eventually("it waits", || {
                id = waiting();
                id.is_some()
            });
            let id = id.expect("an id");
            shell(&server, &ada, &overlay, swap);
            let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
            (answer.join().expect("an answer"), state(&server, &ada, &id))
        })
    };
    for swap in ["echo evil > f", "printf '\\0two' > binary", "echo more > g"] {
        let (refused, state) = commit(swap);
        let told = refused.refused(409, "commit").json();
        assert!(told["error"]["message"].as_str().expect("text").contains("looked at"), "{told}");
        let there = shell(&server, &ada, &direct, "ls f g binary 2>/dev/null || true");
        assert_eq!((state.as_str(), there.as_str()), ("failed", ""), "{swap}");
    }
    let rows = server.ask(Some(&ada), "GET", "/v1/audit?kind=sandbox.commit", None).status(200).json();
    let errors = |row: &Value| row["result"]["error"] == "commit";
    assert_eq!(rows["rows"].as_array().map(|rows| rows.iter().filter(|row| errors(row)).count()), Some(3));
    let (done, state) = commit("true");
    let _ = done.status(200);
    assert_eq!((state.as_str(), shell(&server, &ada, &direct, "cat f g").as_str()), ("done", "evil\nmore\n"));
    for at in [&direct, &overlay] {
        let _ = server.ask(Some(&ada), "DELETE", at, None).status(204);
    }
}
