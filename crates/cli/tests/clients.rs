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
