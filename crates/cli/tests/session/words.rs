//! What the verbs of a session say: bad input as a reason and a next step, and the shape of their JSON.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use ringfence_testing::{Identity, Outcome, Scene, Session, Test, eventually};
use serde_json::Value;

fn call(scene: &Scene, args: &[&str]) -> Outcome {
    Test::in_scene(scene).verb(["session"]).args(args.iter().copied()).call()
}

#[test]
fn bad_input_is_a_reason_and_a_next_step() {
    let scene = Scene::new(Identity::User);
    let alive = Session::create(&scene, ["--profile", "restrictive"]);
    let paused = Session::create(&scene, ["--profile", "restrictive"]);
    let ended = Session::create(&scene, ["--profile", "restrictive", "--ttl", "10ms"]);
    eventually("it has ended", || ended.listed().is_some_and(|row| row["state"] == "ended: time to live"));
    paused.call("pause", &[] as &[&str]).code(0);
    alive.exec(["true"]).code(0);
    let kept = alive.detach(&[], "sleep 1000").to_string();
    let (name, gone, still) = (alive.name.as_str(), ended.name.as_str(), paused.name.as_str());
    let long = "n".repeat(65);
    let mut cases: Vec<(&str, Vec<&str>)> = vec![
        ("create_bad_name", vec!["create", "--name", "../up"]),
        ("create_upper_name", vec!["create", "--name", "Work"]),
        ("create_long_name", vec!["create", "--name", &long]),
        ("create_empty_name", vec!["create", "--name", ""]),
        ("create_duplicate_name", vec!["create", "--name", name]),
        ("create_name_of_an_ended_one", vec!["create", "--name", gone]),
        ("create_bad_ttl", vec!["create", "--ttl", "soon"]),
        ("create_bad_idle", vec!["create", "--idle-timeout", "-1s"]),
        ("create_bad_policy", vec!["create", "--memory", "lots"]),
        ("exec_no_command", vec!["exec", name]),
        ("exec_empty_command", vec!["exec", name, "--", ""]),
        ("exec_bad_timeout", vec!["exec", "--timeout", "x", name, "--", "true"]),
        ("exec_bad_variable", vec!["exec", "--env", "NAME", name, "--", "true"]),
        ("exec_terminal_and_json", vec!["exec", "-t", "--json", name, "--", "true"]),
        ("exec_input_in_front", vec!["exec", "-i", name, "--", "cat"]),
        ("exec_bad_directory", vec!["exec", "--cwd", "/none/at/all", name, "--", "true"]),
        ("exec_paused", vec!["exec", still, "--", "true"]),
        ("signal_bad_signal", vec!["signal", name, &kept, "BOOM"]),
        ("signal_number_too_big", vec!["signal", name, &kept, "65"]),
        ("signal_zero", vec!["signal", name, &kept, "0"]),
        ("signal_ended_process", vec!["signal", name, "1"]),
        ("signal_no_process", vec!["signal", name, "99"]),
        ("signal_bad_process", vec!["signal", name, "first"]),
        ("logs_of_foreground", vec!["logs", name, "1"]),
        ("logs_no_process", vec!["logs", name, "99"]),
        ("logs_bad_offset", vec!["logs", name, &kept, "--from", "-1"]),
        ("wait_no_process", vec!["wait", name, "99"]),
        ("attach_no_process", vec!["attach", name, "99"]),
        ("stdin_no_process", vec!["stdin", name, "99"]),
        ("stdin_closed", vec!["stdin", name, &kept]),
        ("extend_nothing", vec!["extend", name]),
        ("extend_bad", vec!["extend", name, "--ttl", "x"]),
        ("expose_bad_port", vec!["expose", name, "0"]),
        ("expose_to_the_world", vec!["expose", name, "80", "--listen", "0.0.0.0:0"]),
        ("unexpose_nothing", vec!["unexpose", name, "80"]),
        ("rm_nothing", vec!["rm"]),
    ];
    for verb in
        ["exec", "ps", "logs", "signal", "attach", "stdin", "wait", "pause", "resume", "stats", "extend"]
            .iter()
            .chain(&["inspect", "expose", "unexpose", "rm"])
    {
        let more: &[&str] = match *verb {
            "exec" => &["--", "true"],
            "logs" | "signal" | "attach" | "stdin" | "wait" => &["1"],
            "extend" => &["--ttl", "1h"],
            "expose" => &["80", "--listen", "127.0.0.1:0"],
            "unexpose" => &["80"],
            _ => &[],
        };
        cases.push(("unknown_session", [&[*verb, "none"][..], more].concat()));
        cases.push(("impossible_session", [&[*verb, "../none"][..], more].concat()));
        if !["inspect", "rm", "logs"].contains(verb) {
            cases.push(("ended_session", [&[*verb, gone][..], more].concat()));
        }
    }
    let mut all = String::new();
    for (case, args) in cases {
        let outcome = call(&scene, &args);
        assert_eq!(outcome.exit, 125, "{case}: {}", outcome.describe());
        let lines: Vec<&str> = outcome.errors.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].starts_with("ringfence: error: ") && lines[1].starts_with("  try: "),
            "{case}: not a reason and a next step: {}",
            outcome.describe()
        );
        all.push_str(&format!("# {case}\n$ ringfence session {}\n{}\n", args.join(" "), outcome.errors));
    }
    for (session, shown) in [(&alive, "[ALIVE]"), (&ended, "[ENDED]"), (&paused, "[PAUSED]")] {
        all = all.replace(&session.name, shown);
    }
    assert_snapshot!("bad_input", all);
}

/// Keys of an object, of those in it, and of the first of each list.
fn shape(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeSet<String> =
                fields.iter().map(|(name, value)| format!("{name}: {}", shape(value))).collect();
            format!("{{ {} }}", fields.into_iter().collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.first().map_or(String::new(), shape)),
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) => "bool".into(),
        Value::Null => "null".into(),
    }
}

#[test]
fn each_verb_has_json_of_one_shape() {
    let scene = Scene::new(Identity::User);
    let session = Session::create(&scene, ["--profile", "restrictive", "--ttl", "1h"]);
    let name = session.name.as_str();
    let kept = session.detach(&["-i"], "echo x; read -r line").to_string();
    eventually("its output is there", || session.call("logs", &[&kept]).output == "x\n");
    let lines: Vec<Vec<&str>> = vec![
        vec!["exec", "--json", name, "--", "sh", "-c", "echo out; unshare -U true; exit 3"],
        vec!["exec", "--json", "-d", name, "--", "true"],
        vec!["ls", "--json"],
        vec!["ps", "--json", name],
        vec!["logs", "--json", name, &kept],
        vec!["signal", "--json", name, &kept, "TERM"],
        vec!["wait", "--json", name, &kept],
        vec!["pause", "--json", name],
        vec!["resume", "--json", name],
        vec!["stats", "--json", name],
        vec!["extend", "--json", name, "--ttl", "2h"],
        vec!["exec", "--json", "none", "--", "true"],
        vec!["rm", "--json", name],
        vec!["create", "--json", "--name", name],
    ];
    let mut all = String::new();
    for args in &lines {
        let outcome = call(&scene, args);
        let value: Value = serde_json::from_str(&outcome.output)
            .unwrap_or_else(|_| panic!("{args:?} printed no JSON: {}", outcome.describe()));
        all.push_str(&format!("$ ringfence session {}\n{}\n\n", args.join(" "), shape(&value)));
    }
    let inspected = session.json("inspect", &[]);
    for key in ["id", "profile", "policy", "receipt", "status", "created", "workspace", "workspace_kind"] {
        assert!(!inspected[key].is_null() || key == "workspace", "no {key} in {inspected}");
    }
    assert_snapshot!("json", all.replace(name, "[SESSION]"));
}

/// Verbs that change something, of files, forks, ports, snapshots and workspaces; and where they are refused.
#[test]
fn what_changes_something_says_so_in_json() {
    let scene = Scene::new(Identity::User);
    scene.write("ws/file", "before\n");
    let workspace = scene.workspace().display().to_string();
    let session = Session::create(&scene, ["--workspace", &workspace, "--overlay"]);
    session.sh("echo new > added").code(0);
    let fork = Session::named(&scene);
    let (name, archive) = (session.name.as_str(), scene.path("home/point.tar").display().to_string());
    let error = "{ error: { code: text, hint: text, message: text }, exit_code: number }";
    let change = "{ conflict: null, kind: text, new: { kind: text, mode: number, size: number }, old: null, path: text }";
    let commit = format!("{{ applied: [{change}], left_out: [] }}");
    let row = "{ bytes: number, files: number, limit: null, name: text, sessions: [] }";
    let at = |path: &str| format!("{name}:{path}");
    let (dir, note, new) = (at("dir"), at("dir/note"), at("dir/new"));
    for (args, wanted) in [
        (vec!["session", "mkdir", "--json", &dir], "{ path: text }"),
        (vec!["session", "write", "--json", &note], "{ bytes: number }"),
        (vec!["session", "mv", "--json", &note, &new], "{ from: text, to: text }"),
        (vec!["session", "mv", "--json", &note, &new], error),
        (vec!["session", "rm", "--json", &new], "{ removed: [text] }"),
        (vec!["session", "rm", "--json", &new], error),
        (
            vec!["session", "snapshot", "--json", name, "--name", "point"],
            "{ bytes: number, bytes_read: number, entries: number, id: text, name: text, skipped: number }",
        ),
        (
            vec!["session", "rollback", "--json", name, "point"],
            "{ removed: number, unchanged: number, written: number }",
        ),
        (vec!["session", "rollback", "--json", name, "none"], error),
        (vec!["session", "fork", "--json", name, "--name", &fork.name], "{ ids: [text] }"),
        (vec!["session", "fork", "--json", "none"], error),
        (vec!["session", "commit", "--json", name], &commit),
        (vec!["session", "commit", "--json", name, "--finish"], error),
        (
            vec!["session", "expose", "--json", "-d", name, "8080", "--listen", "127.0.0.1:0"],
            "{ listen: text, port: number }",
        ),
        (vec!["session", "expose", "--json", name, "8080", "--listen", "127.0.0.1:0"], error),
        (vec!["session", "unexpose", "--json", name, "8080"], "{ port: number }"),
        (vec!["session", "unexpose", "--json", name, "8080"], error),
        (vec!["session", "shell", "--json", name], error),
        (vec!["session", "shell", "--json", "none"], error),
        (vec!["snapshot", "export", "--json", "point", &archive], "{ file: text }"),
        (vec!["snapshot", "export", "--json", "point", &archive], error),
        (vec!["snapshot", "rm", "--json", "point"], "{ removed: [text] }"),
        (vec!["snapshot", "rm", "--json", "point"], error),
        (vec!["snapshot", "import", "--json", &archive], "{ id: text }"),
        (vec!["snapshot", "import", "--json", "/none"], error),
        (vec!["workspace", "create", "--json", "team/site"], "{ name: text, size: null }"),
        (vec!["workspace", "create", "--json", "team/site"], error),
        (vec!["workspace", "du", "--json", "team/site"], row),
        (vec!["workspace", "rm", "--json", "team/site"], "{ removed: text }"),
        (vec!["workspace", "rm", "--json", "team/site"], error),
        (vec!["workspace", "du", "--json", "team/site"], error),
    ] {
        let outcome = Test::in_scene(&scene).verb(args.iter().copied()).stdin("text\n").call();
        let value: Value = serde_json::from_str(&outcome.output)
            .unwrap_or_else(|_| panic!("{args:?} printed no JSON: {}", outcome.describe()));
        assert_eq!(shape(&value), wanted, "{args:?}: {}", outcome.describe());
        assert_eq!(outcome.exit, if wanted == error { 125 } else { 0 }, "{args:?}: {}", outcome.describe());
    }
}

/// What is written and what it becomes, piece by piece, then how it ended: one object a line.
#[test]
fn stdin_and_attach_have_json() {
    let scene = Scene::new(Identity::User);
    let session = Session::create(&scene, ["--profile", "restrictive"]);
    let kept = session.detach(&["-i"], "read -r line; echo got $line; echo more >&2; exit 3").to_string();
    let objects = |outcome: &Outcome| -> Vec<Value> {
        let line = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {}", outcome.describe()))
        };
        outcome.output.lines().map(line).collect()
    };
    let attached = session.test("attach", &["--json", "--from", "0", &kept]).spawn_call();
    let wrote = session.test("stdin", &["--json", "--close", &kept]).stdin("a line\n").call();
    assert_eq!(
        objects(&wrote),
        [serde_json::json!({ "process": 2, "written": 7, "closed": true })].map(|mut wanted| {
            wanted["process"] = kept.parse::<u64>().unwrap().into();
            wanted
        })
    );
    let attached = attached.wait();
    let said = objects(&attached);
    let (end, pieces) = said.split_last().expect("an end");
    assert_eq!(attached.exit, 3, "{}", attached.describe());
    assert_eq!((&end["exit_code"], &end["end"]), (&3.into(), &"exited".into()), "{end}");
    let of = |stream: &str| -> String {
        let own = pieces.iter().filter(|piece| piece["stream"] == stream);
        own.filter_map(|piece| piece["text"].as_str()).collect()
    };
    assert_eq!((of("stdout").as_str(), of("stderr").as_str()), ("got a line\n", "more\n"));
    for verb in ["attach", "stdin"] {
        let refused = objects(&session.test(verb, &["--json", "99"]).call());
        assert!(refused[0]["error"]["message"].is_string(), "{refused:?}");
    }
}

#[test]
fn a_command_that_can_not_be_started_has_the_exit_code_of_a_shell() {
    let scene = Scene::new(Identity::User);
    let session = Session::create(&scene, ["--profile", "restrictive"]);
    session.exec_test(&[]).plain().run(["no-such-command"]).code(127).stderr_contains("no-such-command");
    session.exec_test(&[]).plain().run(["/etc/passwd"]).code(126);
    session.exec_test(&["-d"]).plain().run(["no-such-command"]).code(127);
    session.exec_test(&["--cwd", "/none"]).plain().run(["true"]).code(125).stderr_contains("/none");
    session.assert_answers();
}

#[test]
fn a_command_has_its_own_directory_and_variables() {
    let scene = Scene::new(Identity::User);
    let session = Session::create(&scene, ["--profile", "restrictive"]);
    session.sh("mkdir sub; echo $PWD").stdout("/workspace\n");
    let flags = ["--cwd", "sub", "--env", "A=b c", "--env", "EMPTY="];
    let script = "pwd; echo \"$A\" \"[$EMPTY]\"";
    session.exec_with(&flags, ["sh", "-c", script]).stdout("/workspace/sub\nb c []\n");
    session.sh("echo \"[$A]\"").stdout("[]\n");
    session.exec_test(&[]).plain().stdin("typed\n").run(["cat"]).stdout("typed\n");
}

#[test]
fn arguments_and_variables_arrive_as_they_were_given() {
    const PIECES: usize = 16;
    const PIECE: usize = 64 << 10;
    let scene = Scene::new(Identity::User);
    let session = Session::create(&scene, ["--profile", "restrictive"]);
    let script = "printf %s \"$A\" | od -An -c; echo \"[${INJECTED-none}]\"";
    let outcome = session.exec_with(&["--env", "A=b\nINJECTED=c"], ["bash", "-c", script]);
    outcome.stdout_contains("b  \\n   I").stdout_contains("[none]");
    let mut line = ["bash", "-c", "echo $# $(printf %s \"$@\" | wc -c)", "x"].map(str::to_owned).to_vec();
    line.extend(std::iter::repeat_n("x".repeat(PIECE), PIECES));
    session.exec(line).stdout(&format!("{PIECES} {}\n", PIECES * PIECE));
}

#[test]
fn a_command_gets_nothing_of_the_programs_that_made_it() {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let session = Session::named(&scene);
        session.make(["--profile", "restrictive"]).env("OF_CREATE", &scene.token).call().code(0);
        let test = session.exec_test(&[]).env("OF_EXEC", &scene.token);
        let outcome = test.run(["bash", "-c", "env; cat /proc/[0-9]*/environ"]);
        assert!(!outcome.output.contains(&scene.token), "{}", outcome.describe());
        // The last one is the directory that is listed.
        session.exec(["ls", "/proc/self/fd"]).stdout("0\n1\n2\n3\n");
    }
}

#[test]
fn people_see_tables() {
    let scene = Scene::new(Identity::User);
    let session = Session::create(&scene, ["--profile", "restrictive"]);
    session.detach(&[], "sleep 1000");
    call(&scene, &["ls"]).code(0).stdout_contains(&session.name).stdout_contains("alive");
    session.call("ps", &[] as &[&str]).code(0).stdout_contains("running").stdout_contains("sleep 1000");
    session.call("stats", &[] as &[&str]).code(0).stdout_contains("processes");
    session.call("inspect", &[] as &[&str]).code(0).stdout_contains("restrictive");
}

#[test]
fn what_a_session_uses_is_seen_to_grow() {
    const WRITTEN: u64 = 5 << 20;
    let scene = Scene::new(Identity::User);
    let workspace = scene.workspace().display().to_string();
    let private = Session::create(&scene, ["--profile", "restrictive"]);
    let overlay = Session::create(&scene, ["--workspace", &workspace, "--overlay"]);
    let named = Session::create(&scene, ["--workspace-name", "grows"]);
    let figure = |session: &Session<'_>, name: &str| session.json("stats", &[])[name].as_u64();
    for (session, name) in
        [(&private, "disk_used"), (&overlay, "workspace_bytes"), (&named, "workspace_bytes")]
    {
        let (before, cpu) = (figure(session, name).unwrap(), figure(session, "cpu_ms").unwrap());
        let did = session.sh("head -c 5M /dev/urandom > file; for i in {1..400000}; do :; done");
        let burnt = did.code(0).json.as_ref().unwrap()["cpu_ms"].as_u64().unwrap();
        assert!(figure(session, name).unwrap() >= before + WRITTEN, "{name}");
        // Ticks of 10 ms, rounded twice.
        assert!(figure(session, "cpu_ms").unwrap() + 40 >= cpu + burnt, "{burnt} ms were used");
    }
    assert_eq!(figure(&private, "workspace_bytes"), None);
    overlay.call("stats", &[] as &[&str]).code(0).stdout_contains("workspace on disk");
}
