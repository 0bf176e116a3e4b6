//! What no client should send.

use serde_json::json;

use crate::client::Client;
use crate::scene;

#[test]
fn rubbish_is_answered_or_ignored_and_the_rest_goes_on() {
    let scene = scene();
    let mut client = Client::start(&scene);
    for line in [
        &b"not json"[..],
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{\"jsonrpc\":\"2.0\"}",
        b"{\"jsonrpc\":\"2.0\",\"method\":7}",
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/list\"}",
        b"",
    ] {
        client.send(line);
    }
    client.send("[".repeat(100_000).as_bytes());
    assert_eq!(client.call("sandbox_run", json!({ "command": "echo on" }))["stdout"], "on\n");
}

#[test]
fn arguments_of_every_kind_are_refused_with_words() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let long = "x".repeat(1 << 20);
    for (tool, arguments) in [
        ("sandbox_run", json!({})),
        ("sandbox_run", json!({ "command": [] })),
        ("sandbox_run", json!({ "command": "" })),
        ("sandbox_run", json!({ "command": ["a\0b"] })),
        ("sandbox_run", json!({ "command": "true", "env": { "A=B": "c" } })),
        ("sandbox_run", json!({ "command": "true", "cwd": "a\0b" })),
        ("sandbox_run", json!({ "command": "true", "timeout_ms": -1 })),
        ("sandbox_run", json!({ "command": "true", "session": "../../../etc" })),
        ("sandbox_run", json!({ "command": "true", "session": long })),
        ("sandbox_run", json!({ "command": "true", "profile": "root" })),
        (
            "sandbox_run",
            json!({ "command": "true", "network": { "enabled": true, "allowed_domains": ["a b"] } }),
        ),
        ("sandbox_session_create", json!({ "name": "../x" })),
        ("sandbox_session_create", json!({ "name": "A" })),
        ("sandbox_session_create", json!({ "ttl_ms": 5 })),
        ("sandbox_session_close", json!({ "session": "none" })),
        ("sandbox_process_stop", json!({ "process": 77 })),
        ("sandbox_file_read", json!({ "path": "" })),
        ("sandbox_file_read", json!({ "path": "a\0" })),
        ("sandbox_file_read", json!({ "path": long })),
        ("sandbox_file_read", json!({ "path": "." })),
        ("sandbox_file_write", json!({ "path": "x", "content": "%", "base64": true })),
        ("sandbox_restore", json!({ "snapshot": "../../x" })),
        ("skill_read", json!({ "skill": "/etc" })),
        ("skill_read", json!({ "skill": "../../etc", "file": "passwd" })),
        ("skill_run", json!({ "skill": "." })),
        ("skill_run", json!({ "skill": "/bin", "script": "sh" })),
        ("skill_validate", json!({ "skill": "/etc" })),
        ("skill_validate", json!({})),
        ("skill_create", json!({ "name": "../x", "description": "d", "instructions": "i" })),
    ] {
        let refused = client.refusal(tool, arguments.clone());
        let shown: String = arguments.to_string().chars().take(100).collect();
        for part in ["code", "message", "hint"] {
            assert!(refused[part].as_str().is_some_and(|text| !text.is_empty()), "{tool} {shown}: {refused}");
        }
        assert_ne!(refused["code"], "internal", "{tool} {shown}: {refused}");
    }
    let ever = json!({ "command": "echo on", "timeout_ms": u64::MAX });
    assert_eq!(client.call("sandbox_run", ever)["stdout"], "on\n");
}

/// Many at once, each with its own answer.
#[test]
fn calls_beside_each_other() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let ids: Vec<u64> = (0..24)
        .map(|n| client.begin_call("sandbox_run", json!({ "command": format!("echo {n}") })))
        .collect();
    let mut heard = Vec::new();
    for _ in &ids {
        let answer = client.hear().expect("an answer");
        let n = ids.iter().position(|id| answer["id"] == *id).expect("an id of ours");
        assert_eq!(answer["result"]["structuredContent"]["stdout"], format!("{n}\n"), "{answer}");
        heard.push(n);
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..24).collect::<Vec<_>>());
}
