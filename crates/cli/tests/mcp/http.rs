//! `/mcp` of a server: the same tools behind the same doors.

use ringfence_testing::{Leftovers, Server, eventually, processes_with_marker};
use serde_json::{Value, json};

use crate::approvals::configured;
use crate::client::checked;
use crate::scene;
use crate::skills::with_library;

const BOTH: &str = "application/json, text/event-stream";

/// A client with a key, introduced.
pub(crate) struct Client<'a> {
    server: &'a Server<'a>,
    pub(crate) key: String,
    pub(crate) session: String,
}

pub(crate) fn headers(key: &str, session: Option<&str>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("authorization", format!("Bearer {key}")),
        ("content-type", "application/json".to_owned()),
        ("accept", BOTH.to_owned()),
    ];
    if let Some(session) = session {
        headers.push(("mcp-session-id", session.to_owned()));
        headers.push(("mcp-protocol-version", "2025-11-25".to_owned()));
    }
    headers
}

pub(crate) fn hello() -> Vec<u8> {
    hello_with(json!({}))
}

fn hello_with(capabilities: Value) -> Vec<u8> {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }).to_string().into_bytes()
}

/// The message with an id in a stream of events.
pub(crate) fn message(body: &[u8]) -> Value {
    let text = String::from_utf8_lossy(body);
    let messages = text.lines().filter_map(|line| line.strip_prefix("data:")).chain([&*text]);
    let mut messages = messages.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
    messages.find(|message| message.get("id").is_some()).unwrap_or_else(|| panic!("no answer in {text}"))
}

impl<'a> Client<'a> {
    pub(crate) fn new(server: &'a Server<'a>, user: &str, role: &str) -> Self {
        Self::able(server, server.key(user, role), json!({}))
    }

    /// With capabilities of its own.
    pub(crate) fn able(server: &'a Server<'a>, key: String, capabilities: Value) -> Self {
        let hello = hello_with(capabilities);
        let reply = server.ask_raw("POST", "/mcp", &headers(&key, None), &hello).status(200);
        let session = reply.header("mcp-session-id").expect("a session").to_owned();
        assert_eq!(message(&reply.body)["result"]["serverInfo"]["name"], "ringfence");
        let client = Self { server, key, session };
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let _ = client.post(&told).status(202);
        client
    }

    pub(crate) fn post(&self, body: &Value) -> ringfence_testing::Reply {
        let headers = headers(&self.key, Some(&self.session));
        self.server.ask_raw("POST", "/mcp", &headers, body.to_string().as_bytes())
    }

    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        message(&self.post(&body).status(200).body)
    }

    pub(crate) fn result(&self, tool: &str, arguments: Value) -> Value {
        checked(&self.ask("tools/call", json!({ "name": tool, "arguments": arguments })))
    }

    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    fn end(self) {
        let reply = self.server.ask_raw("DELETE", "/mcp", &headers(&self.key, Some(&self.session)), b"");
        assert!(reply.status < 300, "{}", reply.status);
    }
}

/// What was made with a key outlives the server, and is a test's to remove.
impl Drop for Client<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let ended = self.server.ask_raw("DELETE", "/mcp", &headers(&self.key, Some(&self.session)), b"");
        assert!(ended.status < 300 || ended.status == 404, "{}", ended.status);
        eventually("nothing that this key made is left", || {
            let own = self.server.ask(Some(&self.key), "GET", "/v1/sandboxes", None);
            let own = own.status(200).json();
            let left = own["sandboxes"].as_array().expect("a list").iter();
            let left: Vec<&Value> = left.filter(|one| one["state"] != "ended").collect();
            for one in &left {
                let path = format!("/v1/sandboxes/{}", one["id"].as_str().expect("an id"));
                let _ = self.server.ask(Some(&self.key), "DELETE", &path, None);
            }
            left.is_empty()
        });
    }
}

#[test]
fn tools_work_over_http_and_nothing_is_left() {
    let before = Leftovers::before();
    {
        let scene = scene();
        with_library(&scene);
        let server = configured(&scene, "[roles.operator.skills]\nsee = ['docs']\n");
        let client = Client::new(&server, "ada", "operator");
        let tools = client.ask("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(21));
        let run = client.call(
            "sandbox_run",
            json!({ "command": "echo $A; cat; echo oops >&2; exit 3", "stdin": "in", "env": { "A": "b" } }),
        );
        assert_eq!(
            (&run["exit_code"], &run["stdout"], &run["stderr"]),
            (&json!(3), &json!("b\nin"), &json!("oops\n"))
        );
        client.call("sandbox_file_write", json!({ "path": "a.txt", "content": "1\n2\n" }));
        assert_eq!(client.call("sandbox_file_read", json!({ "path": "a.txt" }))["content"], "1\n2\n");
        let run = client.call("skill_run", json!({ "skill": "counter", "args": ["a.txt"] }));
        assert_eq!(run["stdout"].as_str().map(str::trim), Some("2"), "{run}");
        let run = client.call("sandbox_run", json!({ "command": "unshare -U true" }));
        assert_eq!(run["denials"][0]["kind"], "syscall", "{run}");
        assert!(run["advice"].is_string());
        let fresh = client.call("sandbox_run", json!({ "command": "cat a.txt", "profile": "restrictive" }));
        assert_eq!(fresh["stdout"], "1\n2\n");
        let made = client.call("sandbox_session_create", json!({ "name": "work" }));
        assert_eq!(made["session"], "work");
        assert_eq!(
            client.call("sandbox_run", json!({ "command": "cat a.txt", "session": "work" }))["exit_code"],
            0
        );
        client.call("sandbox_session_close", json!({ "session": "work" }));
        let long = client.call("sandbox_run", json!({ "command": "seq 1 20000" }));
        let whole = client.ask("resources/read", json!({ "uri": long["whole"][0]["resource"] }));
        assert!(whole["result"]["contents"][0]["text"].as_str().unwrap().ends_with("20000\n"));
        let (key, id) = (client.key.clone(), run["session"].as_str().unwrap().to_owned());
        client.end();
        eventually("the connection's sandbox has ended", || {
            let rows = server.ask(Some(&key), "GET", "/v1/sandboxes?state=alive", None).status(200).json();
            !rows.to_string().contains(&id)
        });
        let audit =
            server.ask(Some(&server.key("boss", "admin")), "GET", "/v1/audit", None).status(200).json();
        for kind in ["\"exec\"", "\"sandbox.create\"", "skill:docs/counter", "\"run\""] {
            assert!(audit.to_string().contains(kind), "{kind}: {audit}");
        }
    }
    before.assert_none_since();
}

#[test]
fn the_doors_are_the_apis() {
    let scene = scene();
    let server = Server::start(&scene, [] as [&str; 0]);
    let key = server.key("ada", "operator");
    let bare = [("content-type", "application/json".to_owned()), ("accept", BOTH.to_owned())];
    server.ask_raw("POST", "/mcp", &bare, &hello()).refused(401, "unauthenticated");
    server.ask_raw("POST", "/mcp", &headers("rf_wrong", None), &hello()).refused(401, "wrong_key");
    for (name, value) in [("host", "evil.example"), ("origin", "http://evil.example")] {
        let mut headers = headers(&key, None);
        headers.push((name, value.to_owned()));
        server.ask_raw("POST", "/mcp", &headers, &hello()).refused(421, "wrong_host");
    }
    let mut own = headers(&key, None);
    own.push(("origin", format!("http://{}", server.address())));
    let _ = server.ask_raw("POST", "/mcp", &own, &hello()).status(200);
    let much = vec![b' '; 17 << 20];
    let reply = server.ask_raw("POST", "/mcp", &headers(&key, None), &much);
    assert!((400..500).contains(&reply.status), "{}", reply.status);
}

#[test]
fn nobody_uses_anothers_session_or_sandbox() {
    let scene = scene();
    let server = Server::start(&scene, [] as [&str; 0]);
    let ada = Client::new(&server, "ada", "operator");
    let hers = ada.call("sandbox_run", json!({ "command": "echo secret > kept; echo done" }));
    let sandbox = hers["session"].clone();
    let hers_before = ada.call("sandbox_snapshot", json!({ "name": "before" }));
    let bob = Client::new(&server, "bob", "operator");
    // The protocol's session of somebody else, with a key of his own.
    let stolen = headers(&bob.key, Some(&ada.session));
    for method in ["POST", "GET", "DELETE"] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        server.ask_raw(method, "/mcp", &stolen, body.as_bytes()).refused(404, "no_session");
    }
    for (tool, arguments) in [
        ("sandbox_run", json!({ "command": "cat kept", "session": sandbox })),
        ("sandbox_file_read", json!({ "path": "kept", "session": sandbox })),
        ("sandbox_file_list", json!({ "session": sandbox })),
        ("sandbox_file_write", json!({ "path": "kept", "content": "x", "session": sandbox })),
        ("sandbox_file_edit", json!({ "path": "kept", "old": "secret", "new": "x", "session": sandbox })),
        ("sandbox_process_start", json!({ "command": "true", "session": sandbox })),
        ("sandbox_process_output", json!({ "process": 1, "session": sandbox })),
        ("sandbox_process_stop", json!({ "process": 1, "session": sandbox })),
        ("sandbox_snapshot", json!({ "session": sandbox })),
        ("sandbox_restore", json!({ "snapshot": hers_before["snapshot"], "session": sandbox })),
        ("skill_create", json!({ "name": "x", "description": "x", "instructions": "x", "session": sandbox })),
        ("sandbox_session_close", json!({ "session": sandbox })),
        ("sandbox_diff", json!({ "session": sandbox })),
    ] {
        let refused = bob.result(tool, arguments);
        assert_eq!(refused["structuredContent"]["error"]["code"], "not_found", "{tool}: {refused}");
    }
    assert_eq!(
        bob.call("sandbox_run", json!({ "command": "test ! -e kept && echo none" }))["stdout"],
        "none\n"
    );
    // Her snapshot is not his either, in a sandbox of his own.
    for snapshot in [json!("before"), hers_before["snapshot"].clone()] {
        for (tool, arguments) in [
            ("sandbox_restore", json!({ "snapshot": snapshot })),
            ("sandbox_diff", json!({ "since": snapshot })),
        ] {
            let refused = bob.result(tool, arguments);
            assert_eq!(refused["structuredContent"]["error"]["code"], "no_snapshot", "{tool}: {refused}");
        }
    }
    assert_eq!(ada.call("sandbox_run", json!({ "command": "cat kept" }))["stdout"], "secret\n");
    ada.call("sandbox_file_write", json!({ "path": "kept", "content": "new\n" }));
    let diff = ada.call("sandbox_diff", json!({ "since": "before" }));
    assert!(diff["diff"].as_str().unwrap().contains("+new"), "{diff}");
    ada.call("sandbox_restore", json!({ "snapshot": "before" }));
    assert_eq!(ada.call("sandbox_file_read", json!({ "path": "kept" }))["content"], "secret\n");
    // A role that runs nothing, and a wish beyond the ceiling.
    let viewer = Client::new(&server, "eve", "viewer");
    for (tool, arguments) in [
        ("sandbox_run", json!({ "command": "true" })),
        ("sandbox_session_create", json!({})),
        ("sandbox_file_write", json!({ "path": "x", "content": "x" })),
        ("skill_run", json!({ "skill": "none" })),
    ] {
        assert_eq!(viewer.result(tool, arguments)["isError"], true, "{tool}");
    }
    let beyond = ada.result("sandbox_run", json!({ "command": "true", "network": { "enabled": true } }));
    assert_eq!(beyond["structuredContent"]["error"]["code"], "beyond_ceiling", "{beyond}");
}

/// A killed client sends nothing: its connection breaks.
#[test]
fn a_client_that_vanishes_leaves_no_process() {
    let scene = scene();
    let server = Server::start(&scene, [] as [&str; 0]);
    let client = Client::new(&server, "ada", "operator");
    for fresh in [json!({}), json!({ "profile": "restrictive" })] {
        let marker = format!("RINGFENCE_TEST_HTTP_{}", std::process::id());
        let mut arguments = fresh;
        arguments["command"] =
            json!(format!("export {marker}=1; (setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000"));
        arguments["timeout_ms"] = json!(300_000);
        let body = json!({
            "jsonrpc": "2.0", "id": 9, "method": "tools/call",
            "params": { "name": "sandbox_run", "arguments": arguments },
        });
        let vanishing = server.open_raw(
            "POST",
            "/mcp",
            &headers(&client.key, Some(&client.session)),
            body.to_string().as_bytes(),
        );
        eventually("the tree is there", || processes_with_marker(&marker).len() >= 4);
        drop(vanishing);
        eventually("the tree is gone", || processes_with_marker(&marker).is_empty());
    }
    // And one that cancels.
    let marker = format!("RINGFENCE_TEST_HTTP_CANCEL_{}", std::process::id());
    let body = json!({
        "jsonrpc": "2.0", "id": 10, "method": "tools/call",
        "params": { "name": "sandbox_run", "arguments": { "command": format!("export {marker}=1; sleep 1000 & sleep 1000"), "timeout_ms": 300_000 } },
    });
    let waiting = server.open_raw(
        "POST",
        "/mcp",
        &headers(&client.key, Some(&client.session)),
        body.to_string().as_bytes(),
    );
    eventually("the tree is there", || processes_with_marker(&marker).len() >= 2);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 10 } });
    let _ = client.post(&cancel).status(202);
    eventually("the tree is gone", || processes_with_marker(&marker).is_empty());
    drop(waiting);
    assert_eq!(client.call("sandbox_run", json!({ "command": "echo on" }))["stdout"], "on\n");
}

/// The revision without sessions: each request says who it is.
#[test]
fn requests_without_a_session_share_their_users_sandbox() {
    let scene = scene();
    let server = Server::start(&scene, [] as [&str; 0]);
    let key = server.key("ada", "operator");
    let call = |command: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({
            "jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": { "name": "sandbox_run", "arguments": { "command": command }, "_meta": meta },
        });
        let mut headers = headers(&key, None);
        headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
        headers.push(("mcp-method", "tools/call".to_owned()));
        headers.push(("mcp-name", "sandbox_run".to_owned()));
        let reply = server.ask_raw("POST", "/mcp", &headers, body.to_string().as_bytes());
        checked(&message(&reply.status(200).body))["structuredContent"].clone()
    };
    let first = call("echo kept > /tmp/x; echo one");
    assert_eq!(first["stdout"], "one\n", "{first}");
    assert_eq!(call("cat /tmp/x")["stdout"], "kept\n");
}
