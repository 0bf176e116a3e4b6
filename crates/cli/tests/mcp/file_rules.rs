//! What the user denies their client's own file tools, and modes in which it writes nothing, hold for the sandboxes too.

use ringfence_testing::Scene;
use serde_json::{Value, json};

use crate::client::Client;
use crate::scene;

fn run(client: &mut Client, more: Value, command: &str) -> Value {
    let mut arguments = more;
    arguments["command"] = json!(command);
    client.call("sandbox_run", arguments)
}

/// A file that is not to be read, and one that is not to be changed.
fn project(scene: &Scene) {
    scene.write("ws/.env", "TOP-SECRET\n");
    scene.write("ws/sub/.env", "TOP-SECRET\n");
    scene.write("ws/locked/x", "kept\n");
    scene.write("ws/README", "hello\n");
}

const WAYS: [&str; 2] = ["", "/workspace/"];

#[test]
fn what_may_not_be_read_or_edited_stays_so() {
    for (client, file, text) in [
        (
            "claude-code",
            "home/.claude/settings.json",
            r#"{"permissions": {"deny": ["Read(.env)", "Edit(./locked/**)", "Bash(forbidden)"]}}"#,
        ),
        (
            "opencode",
            "ws/opencode.json",
            r#"{"permission": {"read": {"*": "allow", "*.env": "deny"}, "edit": {"locked/**": "deny"}}}"#,
        ),
    ] {
        let scene = scene();
        project(&scene);
        // A twin: without the rules all of it works.
        let mut free = Client::start(&scene);
        let told =
            run(&mut free, json!({}), "cat .env sub/.env; echo new > locked/y; rm locked/y; echo done");
        assert_eq!(told["stdout"], "TOP-SECRET\nTOP-SECRET\ndone\n", "{client}");
        drop(free);
        scene.write(file, text);
        let mut held = Client::with_rules(&scene, client, &[]);
        for more in
            [json!({}), json!({ "profile": "restrictive" }), json!({ "network": { "enabled": false } })]
        {
            for way in WAYS {
                let told = run(
                    &mut held,
                    more.clone(),
                    &format!("cat {way}.env {way}sub/.env; cp {way}.env /tmp/x; cat /tmp/x"),
                );
                assert!(!told.to_string().contains("TOP-SECRET"), "{client} {more} {way}: {told}");
                let script = format!(
                    "echo x > {way}locked/x; echo x > {way}locked/new; mv {way}locked {way}moved; true"
                );
                run(&mut held, more.clone(), &script);
                assert_eq!(scene.read("ws/locked/x").as_deref(), Some("kept\n"), "{client} {more} {way}");
                assert!(
                    !scene.path("ws/locked/new").exists() && !scene.path("ws/moved").exists(),
                    "{client} {more}"
                );
            }
        }
        let told = held.result("sandbox_file_read", json!({ "path": ".env" }));
        assert!(!told.to_string().contains("TOP-SECRET"), "{client}: {told}");
        held.refusal("sandbox_file_write", json!({ "path": "locked/x", "content": "x" }));
        held.refusal("sandbox_file_edit", json!({ "path": "locked/x", "old": "kept", "new": "x" }));
        assert_eq!(scene.read("ws/locked/x").as_deref(), Some("kept\n"));
        // All else works.
        assert_eq!(run(&mut held, json!({}), "cat README; echo x > made; cat made")["stdout"], "hello\nx\n");
        std::fs::remove_file(scene.path("ws/made")).unwrap();
    }
}

#[test]
fn a_client_that_only_reads_has_a_workspace_that_can_only_be_read() {
    for (client, file, text) in [
        ("codex", "home/.codex/config.toml", "sandbox_mode = \"read-only\"\n"),
        ("codex", "ws/.codex/config.toml", "default_permissions = \":read-only\"\n"),
        ("opencode", "ws/opencode.json", "{\"permission\": {\"edit\": \"deny\"}}"),
        ("opencode", "ws/opencode.json", "{\"tools\": {\"write\": false}}"),
        ("claude-code", "ws/.claude/settings.json", "{\"permissions\": {\"deny\": [\"Edit\"]}}"),
        (
            "gemini",
            "home/.gemini/settings.json",
            "{\"tools\": {\"exclude\": [\"write_file\", \"run_shell_command\"]}}",
        ),
    ] {
        let scene = scene();
        project(&scene);
        scene.write(file, text);
        let mut held = Client::with_rules(&scene, client, &[]);
        let whole = scene.workspace().display().to_string();
        for more in
            [json!({}), json!({ "network": { "enabled": false } }), json!({ "profile": "restrictive" })]
        {
            let told = run(&mut held, more.clone(), "cat README sub/.env; cd sub && ls -A");
            assert_eq!(told["stdout"], "hello\nTOP-SECRET\n.env\n", "{client} {more}: {told}");
            for way in ["", "/workspace/", &format!("{whole}/")] {
                let told = run(
                    &mut held,
                    more.clone(),
                    &format!("echo x > {way}new; echo x > {way}README; rm {way}locked/x"),
                );
                assert_ne!(told["exit_code"], 0, "{client} {more} {way}: {told}");
                assert!(!scene.path("ws/new").exists(), "{client} {more} {way}");
                assert_eq!(scene.read("ws/README").as_deref(), Some("hello\n"));
            }
        }
        assert_eq!(held.call("sandbox_file_read", json!({ "path": "README" }))["content"], "hello\n");
        held.refusal("sandbox_file_write", json!({ "path": "new", "content": "x" }));
        assert!(!scene.path("ws/new").exists());
    }
}

#[test]
fn a_rule_that_can_not_be_held_refuses() {
    let scene = scene();
    for rule in ["Read(!x)", "Read(//etc/**)", "Edit({a)"] {
        scene.write("home/.claude/settings.json", &json!({ "permissions": { "deny": [rule] } }).to_string());
        let mut held = Client::with_rules(&scene, "claude-code", &[]);
        let refused = held.refusal("sandbox_run", json!({ "command": "echo ran" }));
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(rule) && message.contains(".claude/settings.json"), "{rule}: {refused}");
    }
}

#[test]
fn a_session_with_a_name_is_of_the_policy_that_it_was_made_under() {
    let scene = scene();
    let policy = |files: u32| scene.write("ws/ringfence.toml", &format!("[limits]\nopen_files = {files}\n"));
    policy(99);
    let mut first = Client::start(&scene);
    first.call("sandbox_session_create", json!({ "name": "kept" }));
    drop(first);
    policy(50);
    let mut tightened = Client::start(&scene);
    assert!(!tightened.call("sandbox_session_list", json!({})).to_string().contains("kept"));
    let refused = tightened.refusal("sandbox_run", json!({ "command": "ulimit -n", "session": "kept" }));
    assert_eq!(refused["code"], "no_session", "{refused}");
    drop(tightened);
    policy(99);
    let mut again = Client::start(&scene);
    assert_eq!(
        again.call("sandbox_run", json!({ "command": "ulimit -n", "session": "kept" }))["stdout"],
        "99\n"
    );
    again.call("sandbox_session_close", json!({ "session": "kept" }));
}
