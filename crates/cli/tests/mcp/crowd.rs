//! Many clients of `/mcp`, and such as go without a word: what one user takes is nobody else's.

use ringfence_testing::{Server, eventually, processes_with_marker};
use serde_json::{Value, json};

use crate::approvals::configured;
use crate::client::checked;
use crate::http::{Client, headers, hello, message};
use crate::scene;

/// A call of the revision without sessions.
fn stateless(server: &Server<'_>, key: &str, tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params });
    let mut headers = headers(key, None);
    headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
    headers.push(("mcp-method", "tools/call".to_owned()));
    headers.push(("mcp-name", tool.to_owned()));
    let reply = server.ask_raw("POST", "/mcp", &headers, body.to_string().as_bytes());
    checked(&message(&reply.status(200).body))["structuredContent"].clone()
}

#[test]
fn one_users_sessions_lock_nobody_out() {
    let scene = scene();
    let server = configured(&scene, "[roles.viewer.quotas]\nmcp_sessions = 2\n");
    let begin = |key: &str| server.ask_raw("POST", "/mcp", &headers(key, None), &hello());
    let eve = server.key("eve", "viewer");
    let sessions: Vec<String> = (0..2)
        .map(|_| begin(&eve).status(200).header("mcp-session-id").expect("a session").to_owned())
        .collect();
    begin(&eve).refused(429, "too_many");
    // Another key of hers is hers, and others are not held back.
    begin(&server.key("eve", "viewer")).refused(429, "too_many");
    let _ = begin(&server.key("ada", "operator")).status(200);
    // What begins no session has its answer all the same.
    assert!(stateless(&server, &eve, "skill_search", json!({ "query": "x" })).is_object());
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let _ = server.ask_raw("POST", "/mcp", &headers(&eve, Some(&sessions[1])), list.as_bytes()).status(200);
    let ended = server.ask_raw("DELETE", "/mcp", &headers(&eve, Some(&sessions[0])), b"");
    assert!(ended.status < 300, "{}", ended.status);
    let _ = begin(&eve).status(200);
    begin(&eve).refused(429, "too_many");
}

/// A call without a progress token says nothing while it runs.
#[test]
fn a_running_call_is_no_silence() {
    let scene = scene();
    let server = configured(&scene, "[limits]\nmcp_idle = '8s'\n");
    let client = Client::new(&server, "ada", "operator");
    let command =
        "sleep 1000 & echo $! > pid; until [ -e go ]; do sleep 0.1; done; kill $(cat pid) && echo alive";
    std::thread::scope(|threads| {
        let long = threads
            .spawn(|| client.call("sandbox_run", json!({ "command": command, "timeout_ms": 120_000 })));
        // Longer than the silence after which a session ends; longer yet changes nothing.
        std::thread::sleep(std::time::Duration::from_secs(13));
        // Under a number of its own, as the other call is not answered yet.
        let command = json!({ "command": "cat pid > /dev/null && touch go && echo same" });
        let params = json!({ "name": "sandbox_run", "arguments": command });
        let body = json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params });
        let told = checked(&message(&client.post(&body).status(200).body));
        assert_eq!(told["structuredContent"]["stdout"], "same\n", "{told}");
        assert_eq!(long.join().unwrap()["stdout"], "alive\n");
    });
}

/// It has no session that could end, and its last connection broke off or not: nobody says that it has gone.
#[test]
fn a_client_without_a_session_that_vanishes_leaves_no_process() {
    let scene = scene();
    let server = configured(&scene, "[limits]\nmcp_idle = '1s'\n");
    let key = server.key("ada", "operator");
    let marker = format!("RINGFENCE_TEST_VANISHED_{}", std::process::id());
    let command = format!("export {marker}=1; touch started; sleep 1000 & sleep 1000");
    let started = stateless(&server, &key, "sandbox_process_start", json!({ "command": command }));
    assert!(started["process"].is_number(), "{started}");
    // No other request comes.
    eventually("the tree is gone", || processes_with_marker(&marker).is_empty());
}
