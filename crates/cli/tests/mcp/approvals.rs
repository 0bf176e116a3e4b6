//! What the API asks a person about, or does not show, `/mcp` does not do or show either.

use ringfence_testing::{Scene, Server};
use serde_json::{Value, json};

use crate::client;
use crate::http::Client;
use crate::scene;
use crate::skills::with_library;

pub(crate) fn configured<'a>(scene: &'a Scene, text: &str) -> Server<'a> {
    scene.write("server.toml", text);
    Server::start(scene, ["--config".into(), scene.path("server.toml").into_os_string()])
}

pub(crate) fn decide(server: &Server<'_>, key: &str, action: &str, word: &str) {
    let path = format!("/v1/actions/{action}/{word}");
    let _ = server.ask(Some(key), "POST", &path, Some(&json!({}))).status(200);
}

/// The action that a call waits for. It is no error, and says how it goes on.
#[track_caller]
pub(crate) fn waits(client: &Client<'_>, tool: &str, arguments: &Value) -> String {
    let told = client.call(tool, arguments.clone());
    assert_eq!(told["state"], "waiting_for_approval", "{tool}: {told}");
    let action = told["action"].as_str().expect("an action").to_owned();
    assert!(told["how"].as_str().unwrap().contains(&format!("ringfence actions approve {action}")), "{told}");
    assert!(told["message"].as_str().unwrap().contains(&action) && told["level"].is_string(), "{told}");
    action
}

pub(crate) fn with_action(arguments: &Value, action: &str) -> Value {
    let mut arguments = arguments.clone();
    arguments["action"] = json!(action);
    arguments
}

#[test]
fn what_a_rule_asks_about_waits_for_a_person() {
    let scene = scene();
    with_library(&scene);
    let rules = "[[actions.rules]]\nthen = 'ask'\nkinds = ['run', 'exec', 'file.write', 'skill.run']\n\
                 [roles.operator.skills]\nsee = ['docs']\n";
    let server = configured(&scene, rules);
    let boss = server.key("boss", "admin");
    let client = Client::new(&server, "ada", "operator");
    let eve = Client::new(&server, "eve", "operator");
    for (tool, arguments, done) in [
        ("sandbox_file_write", json!({ "path": "d/a.txt", "content": "1\n2\n" }), json!({ "bytes": 4 })),
        ("sandbox_file_edit", json!({ "path": "d/a.txt", "old": "2", "new": "3" }), json!({ "replaced": 1 })),
        (
            "sandbox_run",
            json!({ "command": "echo x >> ran; cat ran d/a.txt" }),
            json!({ "stdout": "x\n1\n3\n" }),
        ),
        ("sandbox_run", json!({ "command": "echo y", "profile": "restrictive" }), json!({ "stdout": "y\n" })),
        ("sandbox_process_start", json!({ "command": "cat; echo up" }), json!({})),
        ("skill_run", json!({ "skill": "counter", "args": ["d/a.txt"] }), json!({ "exit_code": 0 })),
    ] {
        let action = waits(&client, tool, &arguments);
        let listed = client.call("approval_list", json!({}));
        assert_eq!(listed["waiting"][0]["action"], action.as_str(), "{tool}: {listed}");
        let status = client.call("approval_status", json!({ "action": action }));
        assert_eq!(status["state"], "waiting", "{status}");
        // It is hers alone, and an approval that nobody gave is none.
        let others = eve.result("approval_status", json!({ "action": action }));
        assert_eq!(others["structuredContent"]["error"]["code"], "not_found", "{others}");
        assert_eq!(eve.call("approval_list", json!({}))["waiting"], json!([]));
        let again = with_action(&arguments, &action);
        assert_eq!(waits(&client, tool, &again), action, "{tool}");
        decide(&server, &boss, &action, "approve");
        assert_eq!(client.call("approval_status", json!({ "action": action }))["state"], "approved");
        let told = client.call(tool, again.clone());
        for (name, value) in done.as_object().unwrap() {
            assert_eq!(told[name], *value, "{tool}: {told}");
        }
        assert!(told.get("state").is_none(), "{told}");
        // Once is once.
        let twice = client.result(tool, again);
        assert_eq!(twice["isError"], true, "{tool}: {twice}");
    }
    for none in ["", "events", "remembered", "..", "../audit", "?state=waiting", "0", "\0"] {
        let refused = client.result("approval_status", json!({ "action": none }));
        assert_eq!(refused["structuredContent"]["error"]["code"], "not_found", "{none:?}: {refused}");
    }
    // For nothing but what was approved.
    let arguments = json!({ "path": "b.txt", "content": "harmless" });
    let action = waits(&client, "sandbox_file_write", &arguments);
    decide(&server, &boss, &action, "approve");
    let other = json!({ "path": "b.txt", "content": "harmful", "action": action });
    let changed = client.result("sandbox_file_write", other);
    assert_eq!(changed["structuredContent"]["error"]["code"], "changed", "{changed}");
    // And a denial is one.
    let arguments = json!({ "command": "echo no" });
    let action = waits(&client, "sandbox_run", &arguments);
    decide(&server, &boss, &action, "deny");
    let denied = client.result("sandbox_run", with_action(&arguments, &action));
    assert_eq!(denied["structuredContent"]["error"]["code"], "denied", "{denied}");
    // Nothing was written or run without a person.
    let files = client.call("sandbox_file_list", json!({}));
    let names: Vec<&str> =
        files["entries"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"d") && names.contains(&"ran") && !names.contains(&"b.txt"), "{files}");
}

#[test]
fn a_draft_of_several_files_goes_on_where_it_waited() {
    let scene = scene();
    let server = configured(&scene, "[[actions.rules]]\nthen = 'ask'\nkinds = ['file.write']\n");
    let boss = server.key("boss", "admin");
    let client = Client::new(&server, "ada", "operator");
    let draft = json!({
        "name": "hello", "description": "Greets. Use it to greet.", "instructions": "Run it.",
        "files": { "scripts/hello.sh": "echo hello\n" },
    });
    let first = waits(&client, "skill_create", &draft);
    decide(&server, &boss, &first, "approve");
    let second = waits(&client, "skill_create", &with_action(&draft, &first));
    assert_ne!(first, second);
    decide(&server, &boss, &second, "approve");
    assert_eq!(client.call("skill_create", with_action(&draft, &second))["valid"], true);
    let run = client.call("sandbox_run", json!({ "command": "sh skills/hello/scripts/hello.sh" }));
    assert_eq!(run["stdout"], "hello\n");
}

#[test]
fn a_snapshot_is_brought_back_once_that_is_approved() {
    let scene = scene();
    let server =
        configured(&scene, "[[actions.rules]]\nthen = 'ask'\nkinds = ['file.write']\nat_least = 'medium'\n");
    let boss = server.key("boss", "admin");
    let client = Client::new(&server, "ada", "operator");
    client.call("sandbox_run", json!({ "command": "echo old > kept" }));
    client.call("sandbox_snapshot", json!({ "name": "before" }));
    client.call("sandbox_run", json!({ "command": "echo new > kept" }));
    let arguments = json!({ "snapshot": "before" });
    let action = waits(&client, "sandbox_restore", &arguments);
    assert_eq!(client.call("sandbox_file_read", json!({ "path": "kept" }))["content"], "new\n");
    decide(&server, &boss, &action, "approve");
    // Not another one with it.
    client.call("sandbox_snapshot", json!({ "name": "after" }));
    let other = client.result("sandbox_restore", with_action(&json!({ "snapshot": "after" }), &action));
    assert_eq!(other["structuredContent"]["error"]["code"], "changed", "{other}");
    assert_eq!(client.call("sandbox_restore", with_action(&arguments, &action))["written"], 1);
    assert_eq!(client.call("sandbox_file_read", json!({ "path": "kept" }))["content"], "old\n");
}

#[test]
fn a_session_that_has_to_be_approved_is_not_asked_for_ahead() {
    let scene = scene();
    let server = configured(&scene, "[[actions.rules]]\nthen = 'ask'\nkinds = ['sandbox.create']\n");
    let boss = server.key("boss", "admin");
    let client = Client::new(&server, "ada", "operator");
    let arguments = json!({ "command": "echo in" });
    let action = waits(&client, "sandbox_run", &arguments);
    // Whoever calls again waits for the same one, with or without naming it.
    assert_eq!(waits(&client, "sandbox_run", &arguments), action);
    assert_eq!(client.call("approval_list", json!({}))["waiting"].as_array().map(Vec::len), Some(1));
    decide(&server, &boss, &action, "approve");
    assert_eq!(client.call("sandbox_run", with_action(&arguments, &action))["stdout"], "in\n");
    assert_eq!(client.call("sandbox_run", arguments)["stdout"], "in\n");
    // One with a name is an action of its own.
    let named = json!({ "name": "work" });
    let action = waits(&client, "sandbox_session_create", &named);
    decide(&server, &boss, &action, "approve");
    assert_eq!(client.call("sandbox_session_create", with_action(&named, &action))["session"], "work");
}

#[test]
fn skills_of_domains_that_a_role_does_not_see_are_not_there() {
    let scene = scene();
    with_library(&scene);
    let server = configured(&scene, "[roles.operator.skills]\nsee = []\npublish = []\noverwrite = []\n");
    let blind = Client::new(&server, "ada", "operator");
    let admin = Client::new(&server, "boss", "admin");
    let uri = "skill://docs/counter/SKILL.md";
    for (tool, arguments) in [
        ("skill_read", json!({ "skill": "docs/counter" })),
        ("skill_read", json!({ "skill": "counter" })),
        ("skill_run", json!({ "skill": "docs/counter", "args": ["x"] })),
        ("skill_run", json!({ "skill": "counter", "args": ["x"] })),
        ("skill_validate", json!({ "skill": "counter" })),
    ] {
        let refused = blind.result(tool, arguments.clone());
        assert_eq!(refused["structuredContent"]["error"]["code"], "not_found", "{tool}: {refused}");
        assert_ne!(admin.result(tool, arguments)["isError"], true, "{tool}");
    }
    for (client, sees) in [(&blind, false), (&admin, true)] {
        let found = client.call("skill_search", json!({ "query": "counts lines" }));
        assert_eq!(found["skills"].as_array().map(Vec::len), Some(usize::from(sees)), "{found}");
        for method in ["resources/list", "prompts/list", "skills/list"] {
            let listed = client.ask(method, json!({}));
            assert_eq!(listed.to_string().contains("counter"), sees, "{method}: {listed}");
        }
        for (method, params) in [
            ("resources/read", json!({ "uri": uri })),
            ("skills/get", json!({ "uri": uri })),
            ("prompts/get", json!({ "name": "docs/counter" })),
        ] {
            let answer = client.ask(method, params);
            assert_eq!(answer["error"].is_null(), sees, "{method}: {answer}");
        }
        let inside = client.call("sandbox_run", json!({ "command": "ls /skills" }));
        assert_eq!(inside["stdout"].as_str().unwrap().contains("counter"), sees, "{inside}");
    }
}

#[test]
fn no_path_of_the_server_is_told() {
    let scene = scene();
    with_library(&scene);
    // Somebody put it there by hand.
    let library = scene.state().join("library/docs");
    assert!(library.join("counter").is_dir(), "the library is at {}", library.display());
    std::fs::create_dir(library.join("broken")).unwrap();
    std::fs::write(library.join("broken/SKILL.md"), "---\nname: [\n---\n").unwrap();
    let server = configured(&scene, "");
    let client = Client::new(&server, "boss", "admin");
    for (tool, arguments) in [
        ("skill_read", json!({ "skill": "counter", "file": "none" })),
        ("skill_read", json!({ "skill": "counter", "file": "scripts" })),
        ("skill_run", json!({ "skill": "counter", "script": "none" })),
        ("skill_run", json!({ "skill": "counter", "script": "../../x" })),
        ("sandbox_file_read", json!({ "path": "none" })),
        ("sandbox_run", json!({ "command": "true", "session": "none" })),
        ("sandbox_restore", json!({ "snapshot": "none" })),
        ("sandbox_diff", json!({})),
        ("skill_run", json!({ "skill": "broken" })),
    ] {
        let refused = client.result(tool, arguments.clone());
        assert_eq!(refused["isError"], true, "{tool} {arguments}: {refused}");
        untold(&scene, &refused);
    }
    // What is wrong with the library itself is the owner's affair.
    std::fs::rename(scene.state().join("library"), scene.path("elsewhere")).unwrap();
    std::fs::write(scene.state().join("library"), "").unwrap();
    untold(&scene, &client.result("skill_search", json!({ "query": "counter" })));
    untold(&scene, &client.result("skill_read", json!({ "skill": "docs/counter" })));
    for method in ["resources/list", "prompts/list", "skills/list"] {
        untold(&scene, &client.ask(method, json!({})));
    }
}

#[track_caller]
fn untold(scene: &Scene, answer: &Value) {
    let root = scene.state().display().to_string();
    let told = answer.to_string();
    assert!(!told.contains(&root), "{told}");
}

/// Who has filled their disk can take away, and nothing else.
#[test]
fn a_full_disk_is_full_for_every_tool() {
    let scene = scene();
    with_library(&scene);
    let config = "[roles.operator.quotas]\ndisk = '4M'\n[roles.operator.skills]\nsee = ['docs']\n";
    let server = configured(&scene, config);
    let client = Client::new(&server, "ada", "operator");
    client.call("sandbox_snapshot", json!({ "name": "empty" }));
    client.call("sandbox_file_write", json!({ "path": "a", "content": "a".repeat(5 << 20) }));
    for (tool, arguments) in [
        ("sandbox_file_write", json!({ "path": "b", "content": "b" })),
        ("sandbox_file_edit", json!({ "path": "a", "old": "a", "new": "b", "all": true })),
        ("sandbox_run", json!({ "command": "true" })),
        ("sandbox_run", json!({ "command": "true", "profile": "restrictive" })),
        ("sandbox_process_start", json!({ "command": "true" })),
        ("sandbox_session_create", json!({ "name": "more" })),
        ("sandbox_snapshot", json!({})),
        ("skill_run", json!({ "skill": "counter", "args": ["a"] })),
        ("skill_create", json!({ "name": "x", "description": "x", "instructions": "x" })),
    ] {
        let refused = client.result(tool, arguments);
        assert_eq!(refused["structuredContent"]["error"]["code"], "quota", "{tool}: {refused}");
    }
}

#[test]
fn on_stdio_nothing_waits() {
    let scene = scene();
    let mut client = client::Client::start(&scene);
    let tools = client.ask("tools/list", json!({}));
    assert!(!tools.to_string().contains("approval_"), "{tools}");
    let answer = client.ask("tools/call", json!({ "name": "approval_list", "arguments": {} }));
    assert!(answer["error"]["message"].as_str().unwrap().contains("no tool"), "{answer}");
}
