//! Handshakes, lists, and what is refused.

use serde_json::{Value, json};

use crate::client::Client;
use crate::scene;

#[test]
fn every_revision_that_clients_speak_is_agreed_to() {
    let scene = scene();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::silent(&scene, [] as [&str; 0]);
        let hello = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        });
        let answer = client.ask("initialize", hello);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        let capabilities = &answer["result"]["capabilities"];
        assert!(capabilities["tools"].is_object() && capabilities["resources"].is_object(), "{answer}");
        assert!(capabilities["extensions"]["io.modelcontextprotocol/skills"].is_object(), "{answer}");
        let level = client.ask("logging/setLevel", json!({ "level": "info" }));
        assert!(level["result"].is_object(), "{level}");
    }
}

/// Claude Code asks this first, and waits for an answer before it says hello.
#[test]
fn discover_is_answered_before_hello() {
    let scene = scene();
    let mut client = Client::silent(&scene, [] as [&str; 0]);
    let refused = client.ask("server/discover", json!({}));
    assert!(refused["error"].is_object(), "{refused}");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "claude-code", "version": "2" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = client.ask("server/discover", json!({ "_meta": meta }));
    let versions = found["result"]["supportedVersions"].to_string();
    assert!(versions.contains("2026-07-28") && versions.contains("2025-11-25"), "{found}");
    let level = client.ask("logging/setLevel", json!({ "level": "info", "_meta": meta }));
    assert_eq!(level["error"]["code"], -32601, "{level}");
    // Without a hello at all, as that revision has it.
    let call = json!({ "name": "sandbox_run", "arguments": { "command": ["echo", "hi"] }, "_meta": meta });
    let answer = client.ask("tools/call", call);
    assert_eq!(answer["result"]["structuredContent"]["stdout"], "hi\n", "{answer}");
}

#[test]
fn tools_have_schemas_titles_and_hints() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let tools = client.ask("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().expect("tools").clone();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in [
        "sandbox_run",
        "sandbox_session_create",
        "sandbox_session_list",
        "sandbox_session_close",
        "sandbox_process_start",
        "sandbox_process_output",
        "sandbox_process_stop",
        "sandbox_file_read",
        "sandbox_file_write",
        "sandbox_file_edit",
        "sandbox_file_list",
        "sandbox_diff",
        "sandbox_snapshot",
        "sandbox_restore",
        "skill_search",
        "skill_read",
        "skill_run",
        "skill_create",
        "skill_validate",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["type"], "object");
        assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], true);
        assert!(tool["title"].is_string() && tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
    }
    let read = tools.iter().find(|tool| tool["name"] == "sandbox_file_read").unwrap();
    assert_eq!(read["annotations"]["readOnlyHint"], true);
    let whole = Value::Array(tools).to_string().len();
    assert!(whole < 32_000, "{whole} bytes of tools");
}

#[test]
fn what_is_not_there_is_refused() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let code = |answer: Value| answer["error"]["code"].as_i64();
    assert_eq!(code(client.ask("tools/call", json!({ "name": "rm", "arguments": {} }))), Some(-32602));
    assert_eq!(code(client.ask("no/such", json!({}))), Some(-32601));
    assert_eq!(code(client.ask("resources/read", json!({ "uri": "file:///etc/passwd" }))), Some(-32002));
    assert_eq!(code(client.ask("prompts/get", json!({ "name": "../../etc" }))), Some(-32602));
    assert_eq!(code(client.ask("resources/list", json!({ "cursor": "x" }))), Some(-32602));
    let wrong = client.refusal("sandbox_run", json!({ "command": ["true"], "comand": 1 }));
    assert_eq!(wrong["code"], "bad_arguments");
    assert!(wrong["message"].as_str().unwrap().contains("comand"), "{wrong}");
    let wrong = client.refusal("sandbox_run", json!({ "command": 7 }));
    assert_eq!(wrong["code"], "bad_arguments");
    assert_eq!(client.call("sandbox_run", json!({ "command": "echo still here" }))["stdout"], "still here\n");
}

#[test]
fn a_policy_that_is_wrong_is_said_at_once() {
    let scene = scene();
    scene.write("ws/ringfence.toml", "profil = 'x'\n");
    let mut client = Client::silent(&scene, [] as [&str; 0]);
    let outcome = client.end();
    assert_eq!(outcome.exit, 125, "{}", outcome.describe());
}
