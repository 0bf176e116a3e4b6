//! What other clients' users type: `--compat`, `--protect`, `policy import`, `setup`, `wrap` and `agent`, through the real
//! command, as root and as an ordinary user. The clients themselves are tried by tests/agents/run.

use ringfence_testing::{Identity, Leftovers, Scene, Test};

fn each(check: impl Fn(&Scene)) {
    for identity in Identity::all() {
        check(&Scene::new(identity));
    }
}

/// Every way that a shell has to change `name`, and whether one worked.
const CHANGE: &str = r#"
    n=$1
    { echo x > "$n/new" || echo x > "$n" || rm -rf "$n" || mv "$n" "$n.moved" || ln -sf /etc "$n"; } 2>/dev/null
    mv "${n%/*}" moved-parent 2>/dev/null
    exit 0
"#;

#[test]
fn a_name_that_the_policy_protects_stays() {
    each(|scene| {
        scene.write("ws/docs/api/index", "kept");
        let attack = |args: &[&str], name: &str| {
            Test::in_scene(scene).args(args.to_vec()).run(["sh", "-c", CHANGE, "sh", name]).code(0);
        };
        attack(&["--protect", "docs/api/", "--protect", "later/"], "docs/api");
        attack(&["--protect", "docs/api/", "--protect", "later/"], "/workspace/docs/api");
        attack(&["--protect", "docs/api/", "--protect", "later/"], "later");
        assert_eq!(scene.read("ws/docs/api/index").as_deref(), Some("kept"));
        assert!(!scene.path("ws/docs/api/new").exists());
        assert!(!scene.path("ws/later").exists(), "the placeholder is gone and nothing took its place");
        // The twin: without the clause it works.
        attack(&[], "docs/api");
        assert!(scene.path("ws/moved-parent").exists() || scene.path("ws/docs/api/new").exists());
    });
}

#[test]
fn a_protected_name_behind_a_link_is_refused() {
    each(|scene| {
        scene.mkdir("ws/real");
        scene.symlink("real", "ws/link");
        Test::in_scene(scene).args(["--protect", "link/x"]).run(["true"]).code(125).refused("symlink");
        Test::in_scene(scene).args(["--protect", "../x"]).run(["true"]).code(125).refused("not a name");
    });
}

#[test]
fn the_defaults_of_each_client() {
    each(|scene| {
        scene.write("ws/.git/HEAD", "ref: refs/heads/main\n");
        let run = |compat: &str, script: &str| {
            Test::in_scene(scene).plain().args(["--compat", compat]).run(["sh", "-c", script])
        };
        for compat in ["claude-code", "codex", "gemini"] {
            run(compat, "echo x > written && echo fine").code(0).stdout("fine\n");
            run(compat, "echo x > /tmp/mine && ls /tmp").code(0).stdout("mine\n");
            // Any other place is not writable, and there is no network.
            let outside = scene.outside().join("x");
            run(compat, &format!("echo x > {}", outside.display()));
            assert!(!outside.exists(), "{compat}");
            run(compat, "ls /sys/class/net 2>/dev/null; cat /proc/net/route | wc -l").code(0).stdout("1\n");
        }
        let git = "echo x > .git/objects-x";
        assert_ne!(run("codex", git).exit, 0, "codex keeps all of .git");
        assert_eq!(run("claude-code", git).exit, 0);
        for (name, held) in [(".gitmodules", true), (".ripgreprc", true), ("other", false)] {
            let exit = run("claude-code", &format!("echo x > {name}")).exit;
            assert_eq!(exit != 0, held, "{name}");
        }
    });
}

#[test]
fn settings_become_a_policy_that_runs() {
    each(|scene| {
        scene.write("ws/secret/key", "KEY");
        scene.write(
            "ws/.claude/settings.json",
            r#"{"permissions": {"deny": ["Read(./secret/**)", "Edit(docs/**)", "Bash(curl:*)"]}}"#,
        );
        let call = |words: &[&str]| Test::in_scene(scene).plain().verb(words.to_vec()).call();
        let imported = call(&["policy", "import", "--from", "claude-code"]);
        imported.code(0).stdout_contains("workspace = \"current\"").stderr_contains("not expressible");
        scene.write("policy.toml", &imported.output);
        let policy = scene.path("policy.toml");
        let run = |script: &str| {
            Test::in_scene(scene)
                .plain()
                .args(["--policy", policy.to_str().unwrap()])
                .run(["sh", "-c", script])
        };
        assert!(!run("cat secret/key").output.contains("KEY"));
        assert_ne!(run("mkdir -p docs && echo x > docs/x").exit, 0);
        run("echo x > fine").code(0);
        let json = call(&["policy", "import", "--from", "claude-code", "--json"]);
        assert!(json.output.contains("\"became\":\"not-expressible\""), "{}", json.output);
        // What the tool reads beside it is named.
        scene.write("home/.claude/settings.json", r#"{"permissions": {"deny": ["Read(~/mail/**)"]}}"#);
        call(&["policy", "import", "--from", "claude-code"])
            .code(0)
            .stderr_contains("not read")
            .stderr_contains("home/.claude/settings.json");
        call(&["policy", "import", "--from", "codex"]).code(125).stderr_contains("there are no settings");
        call(&["policy", "import", "--from", "cursor"]).code(125).stderr_contains("none of srt");
    });
}

#[test]
fn there_and_back() {
    each(|scene| {
        let settings = "{\n  \"model\": \"mine\"\n}\n";
        scene.write("home/.claude/settings.json", settings);
        let setup = |words: &[&str]| {
            Test::in_scene(scene).plain().verb([&["setup", "claude-code"], words].concat()).call()
        };
        setup(&["--dry-run"]).code(0).stdout_contains("+    \"CLAUDE_CODE_SHELL_PREFIX\"");
        assert_eq!(scene.read("home/.claude/settings.json").as_deref(), Some(settings));
        setup(&[]).code(0).stderr_contains("open:").stderr_contains("`ringfence setup claude-code --remove`");
        setup(&[]).code(0).stdout("nothing to change\n");
        setup(&["--remove"]).code(0);
        assert_eq!(scene.read("home/.claude/settings.json").as_deref(), Some(settings));
    });
}

#[test]
fn a_wrapped_command_is_held_where_the_client_is() {
    each(|scene| {
        let call = |argv: &[&str]| Test::in_scene(scene).plain().verb(argv.to_vec()).call();
        let wrapped = call(&["--wrap=claude-code", "pwd; echo err >&2; exit 7"]);
        // Here the client is this test, whose directory is not the scene's, and for an ordinary user not theirs to know.
        let why = match scene.identity {
            Identity::Root => "where the client was started",
            Identity::User => "the client's own directory can't be found",
        };
        wrapped.code(125).stderr_contains(why);
        call(&["--wrap=claude-code"]).code(125);
        call(&["--wrap=nobody", "true"]).code(125);
        call(&["--wrap=claude-code", "true", "more"]).code(125);
    });
}

/// A client whose directory is the workspace: it starts the prefix with its output in a file, as Claude Code does.
const CLIENT: &str = r#"
import os, subprocess, sys
with open(sys.argv[2], "w"):
    pass
with open(sys.argv[2], "a+") as output:
    done = subprocess.run([sys.argv[1], "--wrap=claude-code", sys.argv[3]], stdout=output, stderr=output)
    output.seek(0)
    sys.stdout.write(output.read())
sys.exit(done.returncode)
"#;

#[test]
fn a_wrapped_command_says_why_and_is_in_the_audit() {
    let identity = if rustix::process::geteuid().is_root() { Identity::Root } else { Identity::User };
    let scene = Scene::new(identity);
    scene.mkdir("ws/.claude");
    let wrapped = |command: &str| {
        let done = std::process::Command::new("python3")
            .args(["-c", CLIENT, env!("CARGO_BIN_EXE_ringfence")])
            .arg(scene.path("told"))
            .arg(command)
            .current_dir(scene.workspace())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", scene.home())
            .env("RINGFENCE_STATE_DIR", scene.state())
            .output()
            .expect("python3 runs");
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let (code, told) = wrapped("echo out; echo err >&2; exit 7");
    assert_eq!((code, told.as_str()), (Some(7), "out\nerr\n"));
    let secret = scene.secret();
    for (command, what) in [
        (format!("cat {}", secret.display()), secret.display().to_string()),
        ("echo x > /etc/rf-never".into(), "/etc/rf-never".into()),
        ("echo x > .claude/x".into(), ".claude".into()),
        (format!("echo x > {}/new", scene.outside().display()), "outside/new".into()),
    ] {
        let (code, told) = wrapped(&command);
        assert_ne!(code, Some(0), "{told}");
        let line = told.lines().find(|line| line.starts_with("ringfence: denied:"));
        let line = line.unwrap_or_else(|| panic!("no reason in {told}"));
        assert!(line.contains(&what) && line.contains("(inferred)"), "{told}");
    }
    // Our hook asks whether the prefix is in force. It is; and nothing is run for it.
    let settings =
        Test::in_scene(&scene).plain().verb(["setup", "claude-code", "--dry-run", "--json"]).call();
    settings.code(0);
    let shown: serde_json::Value = serde_json::from_str(&settings.output).unwrap();
    let file: serde_json::Value = serde_json::from_str(shown["files"][0]["after"].as_str().unwrap()).unwrap();
    let line = file["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    assert_eq!(wrapped(line), (Some(0), String::new()));
    assert_eq!(wrapped(&format!("{line}; true")).0, Some(2), "anything else is a command");

    let audit = Test::in_scene(&scene).plain().verb(["audit", "ls", "--json"]).call();
    audit.code(0);
    let rows: Vec<serde_json::Value> = match serde_json::from_str(&audit.output).unwrap() {
        serde_json::Value::Array(rows) => rows,
        other => other["rows"].as_array().cloned().unwrap_or_default(),
    };
    let of = |text: &str| {
        let found = rows.iter().find(|row| row["result"]["command"].to_string().contains(text));
        found.unwrap_or_else(|| panic!("no row for {text} in {rows:?}")).clone()
    };
    let row = of("exit 7");
    assert_eq!(
        (&row["kind"], &row["target"]),
        (&serde_json::json!("wrap"), &serde_json::json!("claude-code"))
    );
    assert_eq!(row["result"]["exit_code"], 7, "{row}");
    assert!(of("/etc/rf-never")["denials"].to_string().contains("/etc/rf-never"));
}

/// A cloned project's `.claude/settings.json` sets variables for every command, and so for the prefix.
#[test]
fn what_a_projects_settings_set_is_not_believed() {
    each(|scene| {
        let outside = scene.outside().join("by-policy");
        scene.write("ws/evil.toml", &format!("[filesystem]\nwrite = ['{}']", scene.outside().display()));
        scene.write("ws/evil/ringfence/config.toml", &scene.read("ws/evil.toml").unwrap());
        let write = format!("echo x > {}", outside.display());
        let wrapped = |test: Test, more: &[(&str, &str)], command: &str| {
            test.plain().by_client(more).verb(["--wrap=claude-code", command]).call()
        };
        let test = || Test::in_scene(scene);
        let path = |name: &str| scene.path(name).to_str().unwrap().to_owned();
        // The twin: what the user says themselves holds.
        wrapped(test().env("RINGFENCE_POLICY", path("ws/evil.toml")), &[], &write).code(0);
        assert!(outside.exists());
        std::fs::remove_file(&outside).unwrap();
        // So it does where the client keeps the variable for itself.
        let kept = test().env("RINGFENCE_POLICY", path("ws/evil.toml")).plain();
        kept.by_client_that_keeps(&["RINGFENCE_POLICY"])
            .verb(["--wrap=claude-code", write.as_str()])
            .call()
            .code(0);
        assert!(outside.exists());
        std::fs::remove_file(&outside).unwrap();
        for (name, value) in [
            ("RINGFENCE_POLICY", path("ws/evil.toml")),
            ("RINGFENCE_PROFILE", "permissive".into()),
            ("RINGFENCE_STATE_DIR", path("ws/evil")),
            ("XDG_CONFIG_HOME", path("ws/evil")),
            ("HOME", path("ws/evil")),
            ("HOME", String::new()),
            ("CLAUDE_CONFIG_DIR", path("ws/evil")),
            ("CARGO_HOME", path("outside")),
            ("HTTPS_PROXY", "http://127.0.0.1:1".into()),
        ] {
            let refused = wrapped(test(), &[(name, &value)], &write);
            refused.code(125).stderr_contains(name).stderr_contains("the settings of a project set it");
            assert!(!outside.exists(), "{name}");
        }
        wrapped(test(), &[("EDITOR", "vi"), ("PATH", "/usr/bin:/bin:/evil")], "true").code(0);
        // Where the user's own settings say the same it is theirs.
        scene.write("home/.claude/settings.json", r#"{"env": {"RINGFENCE_PROFILE": "restrictive"}}"#);
        wrapped(test(), &[("RINGFENCE_PROFILE", "permissive")], "true").code(125);
        wrapped(test(), &[("RINGFENCE_PROFILE", "restrictive")], &write);
        assert!(!outside.exists());
    });
}

#[test]
fn a_file_that_the_client_would_leave_out_is_not_set_up() {
    each(|scene| {
        for text in
            ["{ // mine\n  \"model\": \"x\"\n}\n", "{\"model\": \"x\",}\n", "{\"permissions\": \"x\"}\n"]
        {
            scene.write("home/.claude/settings.json", text);
            let call = Test::in_scene(scene).plain().verb(["setup", "claude-code"]).call();
            call.code(125).stderr_contains("is not changed").stderr_contains("whole file");
            assert_eq!(scene.read("home/.claude/settings.json").as_deref(), Some(text));
        }
    });
}

#[test]
fn an_agent_has_a_home_of_its_own_and_leaves_nothing() {
    each(|scene| {
        let before = Leftovers::before();
        scene.write("home/.ssh/id_rsa", "KEY");
        let agent = |args: &[&str], script: &str| {
            let words = [&["agent"], args, &["--", "sh", "-c", script]].concat();
            Test::in_scene(scene)
                .plain()
                .env("API_KEY", "k1")
                .env("OTHER", "o")
                .stdin("in")
                .verb(words)
                .call()
        };
        agent(&[], "cat; cat ~/.ssh/id_rsa; echo $API_KEY$OTHER; touch ~/x made; exit 3")
            .code(3)
            .stdout("in\n");
        assert!(scene.path("ws/made").exists());
        agent(&["--pass-env", "API_KEY"], "cat >/dev/null; ls ~; echo $API_KEY$OTHER").code(0).stdout("k1\n");
        let list = Test::in_scene(scene).plain().verb(["session", "ls"]).call();
        list.code(0).stdout("");
        before.assert_none_since();
    });
}
