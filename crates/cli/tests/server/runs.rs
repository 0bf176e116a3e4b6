//! `POST /v1/run` and its stream.

use ringfence_testing::{Identity, Leftovers, Scene, eventually, processes_with_marker};
use serde_json::{Value, json};

use crate::{scene, server};

#[test]
fn a_command_runs_and_everything_is_told() {
    for identity in Identity::all() {
        let before = Leftovers::before();
        {
            let scene = Scene::new(identity);
            let server = server(&scene);
            let key = server.key("ada", "operator");
            let body = json!({
                "command": ["sh", "-c", "cat; echo $A; pwd; echo oops >&2; exit 3"],
                "stdin": "hello\n", "env": { "A": "variable" }, "cwd": "/tmp",
            });
            let answer = server.ask(Some(&key), "POST", "/v1/run", Some(&body)).status(200).json();
            assert_eq!(answer["exit_code"], 3, "{answer}");
            assert_eq!(answer["stdout"], "hello\nvariable\n/tmp\n");
            assert_eq!(answer["stderr"], "oops\n");
            assert_eq!((&answer["timed_out"], &answer["truncated"]), (&json!(false), &json!(false)));
            assert!(answer["receipt"]["clauses"].as_array().is_some_and(|clauses| clauses.len() > 20));
            assert!(answer["usage"]["processes"].as_u64().is_some());
            // The short form is the same route.
            let short =
                server.ask(Some(&key), "POST", "/run", Some(&json!({ "command": ["true"] }))).status(200);
            assert_eq!(short.json()["exit_code"], 0);
        }
        before.assert_none_since();
    }
}

#[test]
fn ends_are_told_as_a_shell_would() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let run = |body: Value| server.ask(Some(&key), "POST", "/v1/run", Some(&body)).status(200).json();
    let timed = run(json!({ "command": ["sleep", "60"], "timeout_ms": 200 }));
    assert_eq!((&timed["exit_code"], &timed["timed_out"]), (&json!(124), &json!(true)));
    let killed = run(json!({ "command": ["sh", "-c", "kill -9 $$"] }));
    assert_eq!((&killed["exit_code"], &killed["signal"]), (&json!(137), &json!(9)));
    let missing = run(json!({ "command": ["no-such-program"] }));
    assert_eq!(
        (&missing["exit_code"], &missing["error"]["code"]),
        (&json!(127), &json!("command_not_found"))
    );
    let bytes = run(json!({ "command": ["printf", "\\377a"] }));
    assert_eq!(bytes["stdout_base64"], "/2E=");
    let much = run(json!({ "command": ["head", "-c", "3000000", "/dev/zero"] }));
    assert_eq!((&much["truncated"], much["stdout"].as_str().map(str::len)), (&json!(true), Some(1 << 20)));
    let unread = run(json!({ "command": ["true"], "stdin": "x".repeat(1 << 20) }));
    assert_eq!(unread["exit_code"], 0);
}

#[test]
fn a_workspace_stays_and_is_its_users_own() {
    let scene = scene();
    let server = server(&scene);
    let (ada, bob) = (server.key("ada", "operator"), server.key("bob", "operator"));
    let run =
        |key: &str, body: Value| server.ask(Some(key), "POST", "/v1/run", Some(&body)).status(200).json();
    let files = json!([{ "path": "data/in.txt", "content": "given" }, { "path": "tool", "content_base64": "IyEvYmluL3NoCmVjaG8gdG9vbAo=", "mode": 493 }]);
    let first = run(
        &ada,
        json!({ "command": ["sh", "-c", "cat data/in.txt; ./tool; echo kept > out"], "files": files }),
    );
    assert_eq!(first["stdout"], "giventool\n", "{first}");
    let again = run(&ada, json!({ "command": ["cat", "out"] }));
    assert_eq!(again["stdout"], "kept\n");
    for (key, workspace) in [(&ada, "other"), (&ada, "private"), (&bob, "default")] {
        let body = json!({ "command": ["sh", "-c", "test ! -e out && echo new"], "workspace": workspace });
        assert_eq!(run(key, body)["stdout"], "new\n", "{workspace}");
    }
    let listed =
        server.ask(Some(&ada), "GET", "/v1/workspaces", None).status(200).json()["workspaces"].clone();
    let names: Vec<&str> =
        listed.as_array().into_iter().flatten().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["default", "other"]);
    server.ask(Some(&bob), "DELETE", "/v1/workspaces/other", None).refused(404, "not_found");
    let _ = server.ask(Some(&ada), "DELETE", "/v1/workspaces/other", None).status(204);
    server.ask(Some(&ada), "GET", "/v1/workspaces/other", None).refused(404, "not_found");
}

#[test]
fn a_stream_tells_in_order_and_ends() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let body = json!({ "command": ["sh", "-c", "printf one; sleep 0.2; printf '\\342\\202'; sleep 0.2; printf '\\254'; printf '\\377' >&2; exit 4"] });
    let events = server.events(&key, "/v1/run/stream", None, Some(&body)).rest();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"start"), Some(&"exit")), "{events:?}");
    let text: String = events
        .iter()
        .filter(|event| event.name == "stdout")
        .filter_map(|event| event.data["text"].as_str())
        .collect();
    assert_eq!(text, "one€", "no character is torn");
    let coded = events.iter().find(|event| event.name == "stderr").expect("stderr");
    assert_eq!(coded.data["base64"], "/w==");
    let exit = &events.last().expect("an exit").data;
    assert_eq!((&exit["code"], exit["duration_ms"].as_u64().is_some()), (&json!(4), true));
    assert!(exit["usage"].is_object() && exit["receipt"].is_object());
}

#[test]
fn a_denial_is_an_event() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let body = json!({ "command": ["sh", "-c", "cat < /dev/tcp/192.0.2.1/80 || unshare -m true"] });
    let events = server.events(&key, "/v1/run/stream", None, Some(&body)).rest();
    let denial = events.iter().find(|event| event.name == "denial").expect("a denial");
    assert!(denial.data["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{denial:?}");
}

#[test]
fn a_client_that_goes_away_ends_its_command() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let marker = format!("gone-{}", scene.token);
    let body = json!({ "command": ["sh", "-c", "echo on; while :; do sleep 0.1; done", marker], "timeout_ms": 600_000 });
    let mut events = server.events(&key, "/v1/run/stream", None, Some(&body));
    while events.next_event().expect("an event").name != "stdout" {}
    assert!(!processes_with_marker(&marker).is_empty());
    drop(events);
    eventually("the command ends", || processes_with_marker(&marker).is_empty());
}

#[test]
fn a_kept_stream_is_taken_up_where_it_broke_off() {
    let scene = scene();
    let server = server(&scene);
    let (ada, bob) = (server.key("ada", "operator"), server.key("bob", "operator"));
    let script = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last";
    let body = json!({ "command": ["sh", "-c", script], "keep": true });
    let mut events = server.events(&ada, "/v1/run/stream", None, Some(&body));
    let first = loop {
        let event = events.next_event().expect("an event");
        if event.name == "stdout" {
            break event;
        }
    };
    drop(events);
    let go = json!({ "command": ["touch", "go"] });
    let _ = server.ask(Some(&ada), "POST", "/v1/run", Some(&go)).status(200);
    let id = first.id.expect("an id");
    assert_eq!(server.events(&bob, "/v1/run/stream", Some(&id), None).status, 404, "somebody else's");
    let rest = server.events(&ada, "/v1/run/stream", Some(&id), None).rest();
    let told: Vec<(&str, &Value)> =
        rest.iter().map(|event| (event.name.as_str(), &event.data["text"])).collect();
    assert_eq!(told[0], ("stdout", &json!("last\n")), "{rest:?}");
    assert_eq!(rest.last().expect("an exit").data["code"], 0);
}

/// The defaults of another client's sandbox, as far as the caller's role may have them.
#[test]
fn a_clients_defaults_hold_beneath_the_ceiling() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let ask = |path: &str, body: Value| server.ask(Some(&key), "POST", path, Some(&body));
    let script = "mkdir -p .git && echo x > .git/kept";
    let run = |compat: &str| {
        ask("/v1/run", json!({ "command": ["sh", "-c", script], "compat": compat })).status(200).json()
    };
    assert_eq!(run("native")["exit_code"], 0);
    let codex = run("codex");
    assert_ne!(codex["exit_code"], 0, "codex keeps all of .git: {codex}");
    assert_eq!(run("gemini")["exit_code"], 0);
    // Codex shows all of the host; this role does not, and nobody asked for it by name.
    let mut clauses = codex["receipt"]["clauses"].as_array().expect("clauses").iter();
    let host = clauses.find(|one| one["clause"] == "filesystem.host");
    assert_eq!(host.map(|one| &one["value"]), Some(&json!("system directories")), "{codex}");
    ask("/v1/run", json!({ "command": ["true"], "policy": { "filesystem": { "host": "all" } } }))
        .refused(403, "beyond_ceiling");
    ask("/v1/run", json!({ "command": ["true"], "compat": "codex", "network": { "enabled": true } }))
        .refused(403, "beyond_ceiling");
    for path in ["/v1/run", "/v1/sandboxes"] {
        let wrong = ask(path, json!({ "command": ["true"], "compat": "codeks" }));
        assert_eq!(wrong.status, 400, "{path}");
    }
    let made = ask("/v1/sandboxes", json!({ "compat": "codex" })).status(201).json();
    let id = made["id"].as_str().expect("an id");
    let exec = ask(&format!("/v1/sandboxes/{id}/exec"), json!({ "command": ["sh", "-c", script] }));
    assert_ne!(exec.status(200).json()["exit_code"], 0);
    let _ = server.ask(Some(&key), "DELETE", &format!("/v1/sandboxes/{id}"), None);
}

/// A stream in which nothing happens says that it is there.
#[test]
fn a_silent_stream_is_kept_alive() {
    use std::io::{BufRead, BufReader};
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let headers = [("authorization", format!("Bearer {key}"))];
    let stream = server.open_raw("GET", "/v1/actions/events", &headers, b"");
    let begun = std::time::Instant::now();
    let comment = BufReader::new(stream).lines().map_while(Result::ok).find(|line| line == ":");
    assert!(comment.is_some(), "nothing came");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}
