//! Commands, sessions and background processes.

use ringfence_testing::{Identity, Leftovers, Scene, Server, eventually};
use serde_json::json;

use crate::client::Client;
use crate::scene;

#[test]
fn a_command_runs_in_the_users_directory() {
    for identity in Identity::all() {
        let before = Leftovers::before();
        {
            let scene = Scene::new(identity);
            scene.write("ws/here.txt", "found\n");
            let mut client = Client::start(&scene);
            let run = client.call(
                "sandbox_run",
                json!({ "command": "cat here.txt; cat /workspace/here.txt; echo oops >&2; exit 3" }),
            );
            assert_eq!(run["exit_code"], 3, "{run}");
            assert_eq!(run["stdout"], "found\nfound\n");
            assert_eq!(run["stderr"], "oops\n");
            let run = client.call(
                "sandbox_run",
                json!({
                    "command": ["sh", "-c", "cat; echo $A > made; pwd"], "stdin": "given ", "cwd": "/tmp",
                    "env": { "A": "b" },
                }),
            );
            assert_eq!(run["stdout"], "given /tmp\n");
            assert_eq!(client.call("sandbox_run", json!({ "command": "cat /tmp/made" }))["stdout"], "b\n");
            let run = client.call("sandbox_run", json!({ "command": ["sleep", "60"], "timeout_ms": 200 }));
            assert_eq!((&run["exit_code"], &run["timed_out"]), (&json!(124), &json!(true)));
            let run = client.call("sandbox_run", json!({ "command": ["no-such-program"] }));
            assert_eq!(run["exit_code"], 127);
            let why = &run["not_started"];
            assert_eq!(why["code"], "command_not_found", "{run}");
            assert_eq!(why["message"], "no-such-program: command not found in the sandbox", "{run}");
            assert!(!why["hint"].as_str().expect("what to do").is_empty(), "{run}");
        }
        before.assert_none_since();
    }
}

#[test]
fn a_refused_file_is_a_denial_that_the_model_reads() {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        scene.mkdir("ws/.claude");
        let mut client = Client::start(&scene);
        let secret = scene.secret();
        let outside = scene.outside().join("new").display().to_string();
        for (command, what, kind) in [
            (format!("cat {}", secret.display()), secret.display().to_string(), "file"),
            ("echo x > /etc/rf-never".to_owned(), "/etc/rf-never".to_owned(), "file"),
            (format!("echo x > {outside}"), outside.clone(), "file"),
            ("echo x > .claude/x".to_owned(), ".claude".to_owned(), "protected"),
            ("bash -c 'echo x > .claude/x'".to_owned(), ".claude".to_owned(), "protected"),
        ] {
            let run = client.call("sandbox_run", json!({ "command": command }));
            assert_ne!(run["exit_code"], 0, "{run}");
            let denial = &run["denials"][0];
            assert_eq!((&denial["what"], &denial["kind"]), (&json!(what), &json!(kind)), "{run}");
            assert_eq!(denial["inferred"], true, "{run}");
            assert!(!denial["remedy"].as_str().expect("a remedy").is_empty(), "{run}");
            assert!(run["advice"].is_string(), "{run}");
        }
        // What is missing on the host too is nobody's denial, and what works is none either.
        let run = client.call("sandbox_run", json!({ "command": "cat /etc/rf-no-such; cat nothing" }));
        assert!(run.get("denials").is_none(), "{run}");
        let fine = format!("cat {} || true", secret.display());
        assert!(client.call("sandbox_run", json!({ "command": fine })).get("denials").is_none());
    }
}

#[test]
fn a_private_workspace_is_nobodys() {
    let scene = scene();
    scene.write("ws/here.txt", "found\n");
    let mut client = Client::named(&scene, ["--private"], "test");
    let run = client.call("sandbox_run", json!({ "command": "ls; echo x > made" }));
    assert_eq!(run["stdout"], "");
    assert_eq!(scene.read("ws/made"), None);
}

#[test]
fn sessions_are_made_listed_and_closed() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let made = client.call("sandbox_session_create", json!({ "env": { "A": "b" } }));
    let session = made["session"].as_str().expect("a name").to_owned();
    let run =
        client.call("sandbox_run", json!({ "command": "echo $A > /tmp/x; echo $A", "session": session }));
    assert_eq!((&run["stdout"], &run["session"]), (&json!("b\n"), &json!(session)));
    assert_eq!(client.call("sandbox_run", json!({ "command": "ls /tmp/x" }))["exit_code"], 2);
    let listed = client.call("sandbox_session_list", json!({}));
    assert!(listed.to_string().contains(&session), "{listed}");
    client.call("sandbox_session_close", json!({ "session": session }));
    let gone = client.refusal("sandbox_run", json!({ "command": "true", "session": session }));
    assert_eq!(gone["code"], "no_session", "{gone}");
    let both =
        client.refusal("sandbox_run", json!({ "command": "true", "session": "x", "profile": "restrictive" }));
    assert_eq!(both["code"], "bad_request");
}

/// It may have a network that its person granted until its connection ends.
#[test]
fn a_session_without_a_name_is_its_connections_alone() {
    let scene = scene();
    let mut first = Client::start(&scene);
    let made = first.call("sandbox_session_create", json!({}))["session"].clone();
    let own = first.call("sandbox_run", json!({ "command": "true" }))["session"].clone();
    let named = first.call("sandbox_session_create", json!({ "name": "shared" }))["session"].clone();
    let names = |client: &mut Client| {
        let listed = client.call("sandbox_session_list", json!({}))["sessions"].clone();
        let listed = listed.as_array().unwrap().iter().map(|row| row["session"].clone());
        listed.collect::<Vec<_>>()
    };
    let of_first = names(&mut first);
    assert!([&made, &own, &named].iter().all(|name| of_first.contains(name)), "{of_first:?} {own}");
    let mut other = Client::start(&scene);
    let of_other = names(&mut other);
    assert!(
        of_other.contains(&named) && !of_other.contains(&made) && !of_other.contains(&own),
        "{of_other:?}"
    );
    for session in [&made, &own] {
        for (tool, arguments) in [
            ("sandbox_run", json!({ "command": "true", "session": session })),
            ("sandbox_file_read", json!({ "path": "/etc/hostname", "session": session })),
            ("sandbox_session_close", json!({ "session": session })),
        ] {
            assert_eq!(other.refusal(tool, arguments)["code"], "no_session", "{tool}");
        }
        assert_eq!(
            first.call("sandbox_run", json!({ "command": "true", "session": session }))["exit_code"],
            0
        );
    }
    assert_eq!(other.call("sandbox_run", json!({ "command": "true", "session": named }))["exit_code"], 0);
    other.call("sandbox_session_close", json!({ "session": named }));
}

#[test]
fn a_session_with_a_name_outlives_its_connection_and_is_of_its_directory() {
    let scene = scene();
    {
        let mut client = Client::start(&scene);
        client.call("sandbox_session_create", json!({ "name": "work", "ttl_ms": 600_000 }));
        client.call("sandbox_run", json!({ "command": "echo kept > /tmp/x", "session": "work" }));
    }
    {
        let mut client = Client::start(&scene);
        let run = client.call("sandbox_run", json!({ "command": "cat /tmp/x", "session": "work" }));
        assert_eq!(run["stdout"], "kept\n");
    }
    // Another policy is another world: what it has can't be got at by its name.
    let mut other = Client::named(&scene, ["--profile", "restrictive"], "test");
    assert_eq!(other.call("sandbox_session_list", json!({}))["sessions"], json!([]));
    let gone = other.refusal("sandbox_run", json!({ "command": "true", "session": "work" }));
    assert_eq!(gone["code"], "no_session");
    drop(other);
    let mut client = Client::start(&scene);
    client.call("sandbox_session_close", json!({ "session": "work" }));
}

#[test]
fn background_processes_are_heard_and_stopped() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let started = client
        .call("sandbox_process_start", json!({ "command": "cat; echo ready; sleep 1000", "stdin": "in\n" }));
    let (process, session) = (started["process"].clone(), started["session"].clone());
    let mut text = String::new();
    let mut from = json!(0);
    eventually("the process has spoken", || {
        let heard = client
            .call("sandbox_process_output", json!({ "process": process, "session": session, "from": from }));
        assert_eq!(heard["running"], true, "{heard}");
        from = heard["next"].clone();
        text.push_str(heard["stdout"].as_str().unwrap());
        text == "in\nready\n"
    });
    client.call("sandbox_process_stop", json!({ "process": process }));
    eventually("the process has ended", || {
        let heard = client.call("sandbox_process_output", json!({ "process": process, "from": from }));
        heard["running"] == false && heard["exit_code"] == 137
    });
    assert_eq!(client.refusal("sandbox_process_output", json!({ "process": 999 }))["code"], "no_process");
}

#[test]
fn snapshots_diffs_and_the_way_back() {
    let scene = scene();
    scene.write("ws/a.txt", "one\n");
    let mut client = Client::start(&scene);
    let refused = client.refusal("sandbox_diff", json!({}));
    assert!(refused["hint"].as_str().unwrap().contains("sandbox_snapshot"), "{refused}");
    let taken = client.call("sandbox_snapshot", json!({ "name": "before" }));
    client.call("sandbox_run", json!({ "command": "echo two >> a.txt; echo new > b.txt" }));
    let diff = client.call("sandbox_diff", json!({ "since": "before" }));
    assert!(diff["diff"].as_str().unwrap().contains("+two"), "{diff}");
    assert_eq!(diff["changes"].as_array().map(Vec::len), Some(2), "{diff}");
    client.call("sandbox_restore", json!({ "snapshot": taken["snapshot"] }));
    assert_eq!(scene.read("ws/a.txt").as_deref(), Some("one\n"));
    assert_eq!(scene.read("ws/b.txt"), None);
    // One of another session is not there.
    let other = client.call("sandbox_session_create", json!({}));
    let refused =
        client.refusal("sandbox_restore", json!({ "snapshot": "before", "session": other["session"] }));
    assert_eq!(refused["code"], "no_snapshot");
    // An overlay keeps its start.
    let overlay = client.call("sandbox_session_create", json!({ "overlay": true }));
    let session = &overlay["session"];
    client.call("sandbox_run", json!({ "command": "echo x > only-there", "session": session }));
    let diff = client.call("sandbox_diff", json!({ "session": session }));
    assert_eq!(diff["changes"], json!([{ "path": "only-there", "change": "added" }]));
    assert_eq!(scene.read("ws/only-there"), None);
}

/// As `--compat` of a run; over HTTP and on stdio.
#[test]
fn a_clients_defaults_can_be_asked_for() {
    let scene = scene();
    let script = "mkdir -p .git && echo x > .git/kept";
    let mut client = Client::start(&scene);
    let run = client.call("sandbox_run", json!({ "command": script, "compat": "native" }));
    assert_eq!(run["exit_code"], 0, "{run}");
    let run = client.call("sandbox_run", json!({ "command": script, "compat": "codex" }));
    assert_ne!(run["exit_code"], 0, "codex keeps all of .git: {run}");
    let made = client.call("sandbox_session_create", json!({ "compat": "codex" }));
    let run = client.call("sandbox_run", json!({ "command": script, "session": made["session"] }));
    assert_ne!(run["exit_code"], 0, "{run}");
    let wrong = client.refusal("sandbox_run", json!({ "command": "true", "compat": "codeks" }));
    assert!(wrong["message"].as_str().unwrap().contains("did you mean `codex`"), "{wrong}");
    let both = json!({ "command": "true", "compat": "codex", "session": made["session"] });
    assert!(client.refusal("sandbox_run", both)["message"].as_str().unwrap().contains("the policy that it"));
    // No more than the user has.
    let beyond = json!({ "command": "true", "compat": "codex", "network": { "enabled": true } });
    assert_eq!(client.refusal("sandbox_run", beyond)["code"], "beyond_ceiling");
    let server = Server::start(&scene, [] as [&str; 0]);
    let http = crate::http::Client::new(&server, "ada", "operator");
    let run = http.call("sandbox_run", json!({ "command": script, "compat": "codex" }));
    assert_ne!(run["exit_code"], 0, "{run}");
    let made = http.call("sandbox_session_create", json!({ "compat": "codex" }));
    let run = http.call("sandbox_run", json!({ "command": script, "session": made["session"] }));
    assert_ne!(run["exit_code"], 0, "{run}");
}
