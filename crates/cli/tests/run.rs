//! `ringfence run` from end to end: exit codes, stdio, environment, JSON, receipt, signals, terminal.

use std::time::{Duration, Instant};

use ringfence_testing::{Identity, Outcome, Scene, Stage, Test, processes_with_marker};
use rustix::process::Signal;

fn each(check: impl Fn(&Scene)) {
    for identity in Identity::all() {
        check(&Scene::new(identity));
    }
}

fn json(outcome: &Outcome) -> &serde_json::Value {
    outcome.json.as_ref().unwrap_or_else(|| panic!("no JSON\n{}", outcome.describe()))
}

#[test]
fn exit_codes_are_the_commands_own_or_a_shells() {
    each(|scene| {
        let code = |args: &[&str], command: &[&str]| {
            Test::in_scene(scene).plain().args(args.to_vec()).run(command.to_vec()).exit
        };
        assert_eq!(code(&[], &["true"]), 0);
        assert_eq!(code(&[], &["sh", "-c", "exit 42"]), 42);
        assert_eq!(code(&[], &["sh", "-c", "kill -15 $$"]), 128 + 15);
        assert_eq!(code(&["--timeout", "200ms"], &["sleep", "60"]), 124);
        assert_eq!(code(&["--provider", "docker"], &["true"]), 125);
        assert_eq!(code(&[], &["/etc/passwd"]), 126);
        assert_eq!(code(&[], &["no-such-command"]), 127);
    });
}

#[test]
fn stdio_is_the_callers_own() {
    each(|scene| {
        let test = Test::in_scene(scene).plain().stdin("from outside");
        test.run(["sh", "-c", "cat; echo to-stderr >&2"])
            .code(0)
            .stdout("from outside")
            .stderr_contains("to-stderr");
    });
}

#[test]
fn flags_of_the_command_are_its_own_also_without_dashes() {
    each(|scene| {
        let test =
            Test::in_scene(scene).verb(["run", "sh", "-c", "echo \"$@\"", "x", "--json", "-t", "--", "y"]);
        test.call().code(0).stdout("--json -t -- y\n");
    });
}

#[test]
fn nothing_passes_but_what_is_named() {
    each(|scene| {
        let outcome = Test::in_scene(scene)
            .env("SECRET", "s3cret")
            .env("WANTED", "yes")
            .env("APP_ONE", "1")
            .env("TERM", "xterm")
            .args(["--pass-env", "WANTED", "--pass-env", "APP_*", "--env", "SET=a=b c", "--env", "EMPTY="])
            .run(["env"]);
        let mut names: Vec<&str> =
            outcome.output.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
        names.sort_unstable();
        let known = [
            "APP_ONE",
            "EMPTY",
            "HOME",
            "LANG",
            "LOGNAME",
            "PATH",
            "PWD",
            "RINGFENCE",
            "SET",
            "SHELL",
            "TERM",
            "TMPDIR",
            "USER",
            "WANTED",
        ];
        assert_eq!(names, known, "{}", outcome.describe());
        outcome.stdout_contains("SET=a=b c\n").stdout_contains("EMPTY=\n").stdout_contains("WANTED=yes\n");
    });
}

/// Also where all of the host is shown: `/run` is the sandbox's own, with nothing of the host's, and can be used.
#[test]
fn run_is_the_sandboxes_own_in_every_profile() {
    each(|scene| {
        for profile in ["restrictive", "moderate", "permissive"] {
            let test = Test::in_scene(scene).profile(profile).plain();
            test.run(["sh", "-c", "touch /run/mine && ls -A /run"]).code(0).stdout("mine\n");
        }
    });
}

#[test]
fn a_timeout_ends_the_tree_and_is_a_denial() {
    each(|scene| {
        let outcome = Test::in_scene(scene).args(["--timeout", "300ms"]).run(["sleep", "60"]);
        outcome.code(124).denial("limits.wall_time");
        assert_eq!(json(&outcome)["timed_out"], true);
        assert_eq!(json(&outcome)["signal"], serde_json::Value::Null);
    });
}

#[test]
fn json_has_exactly_these_keys() {
    each(|scene| {
        let outcome = Test::in_scene(scene).run(["sh", "-c", "echo out; echo err >&2; exit 3"]);
        let object = json(&outcome).as_object().unwrap();
        let keys: Vec<&str> = object.keys().map(String::as_str).collect();
        let mut known = vec![
            "exit_code",
            "signal",
            "timed_out",
            "stdout",
            "stderr",
            "truncated",
            "duration_ms",
            "usage",
            "network",
            "denials",
            "notes",
            "receipt",
        ];
        known.sort_unstable();
        assert_eq!(keys, known);
        assert_eq!((&object["exit_code"], &object["signal"]), (&3.into(), &serde_json::Value::Null));
        assert_eq!((&object["stdout"], &object["stderr"]), (&"out\n".into(), &"err\n".into()));
        assert_eq!((&object["timed_out"], &object["truncated"]), (&false.into(), &false.into()));
        for key in ["cpu_ms", "max_memory_bytes", "processes"] {
            assert!(object["usage"][key].is_u64(), "{key}");
        }
        assert_eq!(object["receipt"]["provider"], "native");
        outcome.clause("network", "enforced").clause("syscalls", "enforced");
        let killed = Test::in_scene(scene).run(["sh", "-c", "kill -9 $$"]);
        assert_eq!(json(&killed)["signal"], 9);
        assert_eq!(json(&killed)["exit_code"], 137);
    });
}

#[test]
fn output_that_is_not_text_is_whole_in_base64() {
    each(|scene| {
        let outcome = Test::in_scene(scene).run(["printf", "a\\377b"]);
        assert_eq!(json(&outcome)["stdout"], "a\u{fffd}b");
        assert_eq!(json(&outcome)["stdout_base64"], "Yf9i");
        assert_eq!(json(&outcome)["stderr_base64"], serde_json::Value::Null);
    });
}

#[test]
fn output_beyond_the_limit_is_cut_and_denied() {
    each(|scene| {
        let outcome =
            Test::in_scene(scene).args(["--output-limit", "4K"]).run(["sh", "-c", "yes | head -c 100000"]);
        outcome.code(0).denial("limits.output");
        assert_eq!(outcome.output.len(), 4096);
        assert_eq!(json(&outcome)["truncated"], true);
        let plain = Test::in_scene(scene).plain().args(["--output-limit", "4K"]).run(["true"]);
        plain.refused("limits.output");
    });
}

#[test]
fn a_denial_is_said_after_the_run() {
    each(|scene| {
        let outcome = Test::in_scene(scene).plain().run(["unshare", "-U", "true"]);
        outcome.code(1).stderr_contains("ringfence: denied: ").stderr_contains("--allow-syscall unshare");
        let json = Test::in_scene(scene).run(["unshare", "-U", "true"]);
        json.code(1).denial("unshare");
    });
}

#[test]
fn the_receipt_goes_where_it_is_told() {
    each(|scene| {
        let path = scene.path("receipt.json");
        // What was there before, longer than the receipt, does not stay.
        scene.write("receipt.json", &"x".repeat(100_000));
        let test = Test::in_scene(scene).plain().args(["--receipt", path.to_str().unwrap()]);
        test.run(["echo", "hi"]).code(0).stdout("hi\n");
        let receipt: serde_json::Value = serde_json::from_str(&scene.read("receipt.json").unwrap()).unwrap();
        assert_eq!(receipt["provider"], "native");
        assert!(receipt["clauses"].as_array().unwrap().len() > 15);
        let outcome = Test::in_scene(scene).plain().args(["--receipt", "-"]).run(["echo", "hi"]);
        outcome.code(0).stdout("hi\n").stderr_contains("\"provider\": \"native\"");
    });
}

#[test]
fn explain_runs_nothing() {
    each(|scene| {
        let touch = ["touch", "made"];
        let plain = Test::in_scene(scene).plain().args(["--explain"]).run(touch);
        plain.code(0).stdout_contains("syscalls\tdefault\tseccomp").stdout_contains("/workspace\twrite\t");
        let outcome = Test::in_scene(scene).args(["--explain"]).run(touch);
        outcome.code(0);
        assert!(json(&outcome)["mounts"].is_array());
        assert_eq!(scene.read("ws/made"), None);
        Test::in_scene(scene).run(touch).code(0);
        assert_eq!(scene.read("ws/made").as_deref(), Some(""), "the command would have made it");
    });
}

#[test]
fn the_workspace_and_directory_flags_hold() {
    each(|scene| {
        scene.mkdir("other/sub");
        let outcome = Test::in_scene(scene)
            .args(["--profile", "restrictive", "--workspace", "../other", "--cwd", "sub"])
            .run(["sh", "-c", "pwd; echo data > file"]);
        outcome.code(0).stdout("/workspace/sub\n");
        assert_eq!(scene.read("other/sub/file").as_deref(), Some("data\n"));
        let private = Test::in_scene(scene).args(["--workspace", "private"]).run([
            "sh",
            "-c",
            "touch gone; ls -a | wc -l",
        ]);
        private.code(0).stdout("3\n");
        assert_eq!(scene.read("ws/gone"), None);
    });
}

#[test]
fn read_write_and_hide_hold() {
    each(|scene| {
        scene.write("data/file", "seen");
        scene.write("data/secret", "unseen");
        let data = scene.path("data");
        let data = data.to_str().unwrap();
        let hidden = format!("{data}/secret");
        let script = format!("cat {data}/file; cat {hidden}; echo more > {data}/new");
        let run = |args: &[&str]| Test::in_scene(scene).args(args.to_vec()).run(["sh", "-c", &script]);
        assert!(!run(&[]).output.contains("seen"));
        let outcome = run(&["--read", data, "--hide", &hidden]);
        outcome.stdout("seen");
        assert_eq!(scene.read("data/new"), None);
        let outcome = run(&["--write", "../data"]);
        outcome.code(0).stdout("seenunseen");
        assert_eq!(scene.read("data/new").as_deref(), Some("more\n"));
    });
}

#[test]
fn strict_turns_an_unenforced_default_into_a_refusal() {
    each(|scene| {
        let outcome = Test::in_scene(scene).profile("restrictive").run(["true"]);
        let unenforced = outcome.receipt_clauses().iter().any(|line| line["status"] == "unenforced");
        assert_eq!(outcome.errors.contains("ringfence: warning: "), unenforced, "{}", outcome.describe());
        let strict = Test::in_scene(scene).profile("restrictive").args(["--strict"]).run(["true"]);
        strict.code(if unenforced { 125 } else { 0 });
    });
}

/// Wait until `count` processes carry the token, `ringfence` itself among them.
fn wait_for(token: &str, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while processes_with_marker(token).len() < count {
        assert!(Instant::now() < deadline, "the command did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn signals_end_the_tree() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        each(|scene| {
            let script = format!("sleep 1000 & setsid sleep 1000 & sleep 1000; : {}", scene.token);
            let running = Test::in_scene(scene).plain().spawn(["bash", "-c", &script]);
            wait_for(&scene.token, 2);
            running.signal(signal);
            let outcome = running.wait();
            assert_eq!(outcome.exit, 128 + signal.as_raw(), "{signal:?} {}", outcome.describe());
            assert!(processes_with_marker(&scene.token).is_empty(), "{signal:?}");
        });
    }
}

#[test]
fn a_command_that_ignores_the_signal_is_killed_after_a_grace() {
    each(|scene| {
        let script = format!("trap '' INT TERM HUP; while :; do sleep 0.1; done; : {}", scene.token);
        let running = Test::in_scene(scene).plain().spawn(["bash", "-c", &script]);
        wait_for(&scene.token, 2);
        std::thread::sleep(Duration::from_millis(100));
        running.signal(Signal::TERM);
        // A second request waits no longer.
        std::thread::sleep(Duration::from_millis(50));
        running.signal(Signal::TERM);
        running.wait().code(128 + 15);
        assert!(processes_with_marker(&scene.token).is_empty());
    });
}

/// `ringfence ARGS…` on a terminal made by script(1), and what it showed.
fn on_a_terminal(scene: &Scene, args: &str, variables: &[(&str, &str)]) -> (i32, String) {
    let line = format!("{} {args}", Stage::get().ringfence.display());
    let mut command = std::process::Command::new("script");
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("TERM", "xterm")])
        .env("HOME", scene.home())
        .env("RINGFENCE_STATE_DIR", scene.state())
        .envs(variables.iter().copied())
        .current_dir(scene.workspace())
        .stdin(std::process::Stdio::null());
    scene.identity.apply(&mut command);
    let output = command.output().expect("script (util-linux) starts");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn t_gives_a_terminal_of_its_own() {
    each(|scene| {
        let args = "run -t -- sh -c 'test -t 0 && test -t 1 && test -t 2 && tty && echo hello; exit 7'";
        let (code, shown) = on_a_terminal(scene, args, &[]);
        assert_eq!(code, 7, "{shown}");
        assert!(shown.contains("/dev/pts/0") && shown.contains("hello"), "{shown}");
        // One that lets go of it is not hung up on, and may take it again.
        let args = "run -t -- sh -c 'exec <&- >&- 2>&-; sleep 0.3; echo again >/dev/tty; exit 7'";
        let (code, shown) = on_a_terminal(scene, args, &[]);
        assert_eq!((code, shown.contains("again")), (7, true), "{shown}");
        // The twin: without -t the command sees that it has no terminal of its own here.
        let outcome = Test::in_scene(scene).plain().run(["sh", "-c", "test -t 1"]);
        outcome.code(1);
        let outcome = Test::in_scene(scene).plain().args(["-t"]).run(["tty"]);
        outcome.code(0).stdout_contains("/dev/pts/0");
    });
}

#[test]
fn tables_and_colour_are_for_terminals_that_want_them() {
    let scene = Scene::new(Identity::all()[0]);
    let (_, table) = on_a_terminal(&scene, "policy show", &[]);
    assert!(table.contains('─') && table.contains("clause"), "{table}");
    Test::in_scene(&scene)
        .verb(["policy", "show"])
        .call()
        .stdout_contains("profile\tmoderate\tprofile moderate\n");
    let (code, coloured) = on_a_terminal(&scene, "run --nonsense", &[]);
    assert_eq!(code, 125);
    assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    let (_, plain) = on_a_terminal(&scene, "run --nonsense", &[("NO_COLOR", "1")]);
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}

#[test]
fn control_characters_in_names_reach_no_terminal() {
    each(|scene| {
        let outcome = Test::in_scene(scene).plain().run(["\u{1b}[2Jname\n"]);
        outcome.code(127).stderr_contains("\\u{1b}[2Jname\\n: command not found");
        assert!(!outcome.errors.contains('\u{1b}'));
    });
}

/// Every `connect` is carried out by the owner: what servers and clients inside see of each other stays as it was.
#[test]
fn sockets_inside_work_as_usual() {
    each(|scene| {
        let outcome = Test::in_scene(scene).profile("moderate").args(["--timeout", "60s"]).run([
            "python3",
            "-c",
            include_str!("sockets.py"),
        ]);
        outcome.code(0).stdout_contains("all well");
    });
}

#[test]
fn a_refused_connection_is_an_exact_denial() {
    each(|scene| {
        let script = "import socket\nfor s in (socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)):\n  \
                      print(s.connect_ex((\"192.0.2.7\", 443)))";
        let outcome = Test::in_scene(scene).run(["python3", "-c", script]);
        let unreachable = rustix::io::Errno::NETUNREACH.raw_os_error();
        assert_eq!(outcome.output, format!("{unreachable}\n{unreachable}\n"));
        // By stream and by datagram alike: what is off is the network.
        let denials: Vec<_> = outcome.denials().iter().map(|d| (d.what.clone(), d.rule.clone())).collect();
        assert_eq!(denials, [("192.0.2.7:443".to_owned(), "network.mode".to_owned())]);
        assert_eq!(json(&outcome)["denials"][0]["count"], 2);
        assert_eq!(json(&outcome)["denials"][0]["process"], "python3");
    });
}
