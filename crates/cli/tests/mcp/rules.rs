//! What the user denies their client's own shell, `sandbox_run` in its place does not do either.

use ringfence_testing::Scene;
use serde_json::json;

use crate::client::Client;
use crate::scene;

fn of(scene: &Scene, client: &str) -> Client {
    Client::named(scene, ["--rules-of", client], client)
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
