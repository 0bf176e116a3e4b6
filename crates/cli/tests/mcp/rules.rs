//! What the user denies their client's own shell, `sandbox_run` in its place does not do either.

use ringfence_testing::Scene;
use serde_json::json;

use crate::client::Client;
use crate::scene;

fn of(scene: &Scene, client: &str) -> Client {
    Client::with_rules(scene, client, &[])
}

#[test]
fn the_users_own_deny_rules_hold() {
    for (client, file, text, rule) in [
        (
            "opencode",
            "ws/opencode.json",
            "{\"permission\": {\"bash\": {\"touch *\": \"deny\"}}}",
            "permission.bash: touch *",
        ),
        (
            "gemini",
            "ws/.gemini/settings.json",
            "{\"tools\": {\"exclude\": [\"run_shell_command(touch)\"]}}",
            "run_shell_command(touch)",
        ),
        (
            "codex",
            "ws/.codex/rules/mine.rules",
            "prefix_rule(pattern = [\"touch\"], decision = \"forbidden\")",
            "prefix_rule touch",
        ),
        (
            "claude-code",
            "ws/.claude/settings.json",
            "{\"permissions\": {\"deny\": [\"Bash(touch:*)\"]}}",
            "Bash(touch:*)",
        ),
    ] {
        let scene = scene();
        scene.write(file, text);
        let mut started = of(&scene, client);
        for command in
            [json!("echo x && touch ran"), json!(["touch", "ran"]), json!(["sh", "-c", "touch ran"])]
        {
            for (tool, more) in [
                ("sandbox_run", json!({})),
                ("sandbox_run", json!({ "profile": "restrictive" })),
                ("sandbox_process_start", json!({})),
            ] {
                let mut arguments = more;
                arguments["command"] = command.clone();
                let refused = started.refusal(tool, arguments);
                assert_eq!(refused["code"], "denied_by_rule", "{client} {command}: {refused}");
                let message = refused["message"].as_str().unwrap();
                assert!(message.contains(rule) && message.contains(&file[3..]), "{client}: {refused}");
            }
        }
        assert!(!scene.path("ws/ran").exists());
        assert_eq!(started.call("sandbox_run", json!({ "command": "echo fine" }))["stdout"], "fine\n");
        // Who was not started for that client does not know its rules.
        drop(started);
        let mut other = Client::start(&scene);
        assert_eq!(other.call("sandbox_run", json!({ "command": "touch ran" }))["exit_code"], 0);
    }
}

#[test]
fn rules_that_are_not_understood_refuse_every_command() {
    let scene = scene();
    scene.write("ws/.gemini/settings.json", "{}");
    let mut client = of(&scene, "gemini");
    assert_eq!(client.call("sandbox_run", json!({ "command": "echo fine" }))["stdout"], "fine\n");
    scene.write("ws/.gemini/settings.json", "{\"tools\": ");
    let refused = client.refusal("sandbox_run", json!({ "command": "echo fine" }));
    assert_eq!(refused["code"], "rules_unreadable", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(".gemini/settings.json"), "{refused}");
    scene.write("ws/.gemini/settings.json", "{}");
    assert_eq!(client.call("sandbox_run", json!({ "command": "echo fine" }))["stdout"], "fine\n");
}

#[test]
fn what_a_projects_settings_set_is_not_believed() {
    let scene = scene();
    scene.write("ws/evil.toml", "[network]\nmode = 'open'");
    scene.write("ws/evil/ringfence/config.toml", "profile = 'permissive'");
    let path = |name: &str| scene.path(name).to_str().unwrap().to_owned();
    for (name, value, why) in [
        ("RINGFENCE_POLICY", path("ws/evil.toml"), "would loosen"),
        ("RINGFENCE_PROFILE", "permissive".into(), "would loosen"),
        ("RINGFENCE_STATE_DIR", path("ws/evil"), "the settings of a project set it"),
        ("XDG_CONFIG_HOME", path("ws/evil"), "the settings of a project set it"),
        ("HOME", path("ws/evil"), "the settings of a project set it"),
    ] {
        let ended = Client::with_rules_silent(&scene, "gemini", &[(name, &value)]).end();
        ended.code(125).stderr_contains(why).stderr_contains(name);
    }
    // Not even from one that the user said: `moderate` is no more than their files have, and more than they want here.
    let test = Client::with_rules_over(&scene, "gemini", ("RINGFENCE_PROFILE", "restrictive"), "moderate");
    test.code(125).stderr_contains("RINGFENCE_PROFILE").stderr_contains("the settings of a project set it");
    // They may tighten, and what is as it was is no change.
    for more in [[("RINGFENCE_PROFILE", "restrictive")], [("HOME", scene.home().to_str().unwrap())]] {
        let mut client = Client::with_rules(&scene, "gemini", &more);
        assert_eq!(client.call("sandbox_run", json!({ "command": "echo fine" }))["stdout"], "fine\n");
    }
    // What the user's own settings give their server is theirs.
    scene.write(
        "home/.gemini/settings.json",
        r#"{"mcpServers": {"ringfence": {"env": {"XDG_CONFIG_HOME": "/nowhere"}}}}"#,
    );
    let mut client = Client::with_rules(&scene, "gemini", &[("XDG_CONFIG_HOME", "/nowhere")]);
    assert_eq!(client.call("sandbox_run", json!({ "command": "echo fine" }))["stdout"], "fine\n");
}

/// Codex hands HOME, PATH and little else on to a server: what its user says by variables holds all the same.
#[test]
fn what_a_client_keeps_for_itself_holds() {
    let scene = scene();
    scene.write("codex/config.toml", "sandbox_mode = \"read-only\"\n");
    scene.write("codex/rules/mine.rules", "prefix_rule(pattern = [\"touch\"], decision = \"forbidden\")");
    scene.write("gemini/.gemini/settings.json", "{\"tools\": {\"exclude\": [\"run_shell_command(touch)\"]}}");
    scene.write("mine.toml", "[filesystem]\nworkspace = 'private'");
    scene.write("config/ringfence/config.toml", "profile = 'restrictive'");
    scene.write("ws/README", "hello\n");
    let path = |name: &str| scene.path(name).to_str().unwrap().to_owned();
    for (client, home) in
        [("codex", ("CODEX_HOME", path("codex"))), ("gemini", ("GEMINI_CLI_HOME", path("gemini")))]
    {
        // A twin: in another home nothing is denied.
        let mut free = Client::with_rules(&scene, client, &[]);
        assert_eq!(
            free.call("sandbox_run", json!({ "command": "touch x; rm x" }))["exit_code"],
            0,
            "{client}"
        );
        drop(free);
        let mut held = Client::with_rules_kept(&scene, client, &[(home.0, &home.1)]);
        let refused = held.refusal("sandbox_run", json!({ "command": "touch x" }));
        assert_eq!(refused["code"], "denied_by_rule", "{client}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains(&home.1), "{refused}");
        if client == "codex" {
            let told = held.call("sandbox_run", json!({ "command": "cat README; echo x > made" }));
            assert_eq!((&told["stdout"], told["exit_code"] == 0), (&json!("hello\n"), false), "{told}");
        }
    }
    let profile = |client: &mut Client| {
        client.call("sandbox_run", json!({ "command": "true" }));
        client.call("sandbox_session_list", json!({}))["sessions"][0]["profile"].clone()
    };
    assert_eq!(profile(&mut Client::with_rules(&scene, "codex", &[])), "moderate");
    for (name, value) in
        [("RINGFENCE_PROFILE", "restrictive".to_owned()), ("XDG_CONFIG_HOME", path("config"))]
    {
        let mut client = Client::with_rules_kept(&scene, "codex", &[(name, &value)]);
        assert_eq!(profile(&mut client), "restrictive", "{name}");
    }
    let mut client = Client::with_rules_kept(&scene, "codex", &[("RINGFENCE_POLICY", &path("mine.toml"))]);
    assert_eq!(client.call("sandbox_run", json!({ "command": "ls" }))["stdout"], "");
}
