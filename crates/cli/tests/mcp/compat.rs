//! A client's defaults, clause by clause, wherever they can be asked for: docs/compat.md as a table that is tried.

use ringfence_testing::{Scene, Server, Test};
use serde_json::{Value, json};

use crate::client::Client;
use crate::scene;

const CLIENTS: [&str; 3] = ["claude-code", "codex", "gemini"];
/// What is tried, and whether it works for each of the clients. `$1` is a directory outside, `$2` the user's home.
const CLAUSES: [(&str, [bool; 3]); 12] = [
    ("echo x > written", [true, true, true]),
    ("mkdir -p sub && echo x > sub/written", [true, true, true]),
    ("echo x > $1/new", [false, false, false]),
    ("cat $1/readable", [true, true, false]),
    ("cat $2/.ssh/id_rsa", [false, false, false]),
    ("echo x > .gitmodules", [false, true, true]),
    ("echo x > .ripgreprc", [false, true, true]),
    ("mkdir -p .git && echo x > .git/new", [true, false, true]),
    ("mkdir -p .agents && echo x > .agents/new", [false, false, false]),
    ("mkdir -p .codex && echo x > .codex/new", [false, false, false]),
    ("echo x > /tmp/mine && [ \"$(ls /tmp | grep -v ringfence)\" = mine ]", [true, true, true]),
    ("[ $(wc -l < /proc/net/route) = 1 ] && [ $(tail -n +3 /proc/net/dev | wc -l) = 1 ]", [true, true, true]),
];
/// Where a ceiling shows no more of the host than system directories, no client's defaults do.
const ELSEWHERE: &str = "cat $1/readable";

/// Each clause on a line, with what came of it. A home inside may be written, and is nobody's.
fn script(scene: &Scene) -> String {
    let mut script = format!("set -- {} {}\n", scene.outside().display(), scene.home().display());
    script.push_str("( echo x > $2/new ) > /dev/null 2>&1\n");
    for (clause, _) in CLAUSES {
        script.push_str(&format!("if ( {clause} ) > /dev/null 2>&1; then echo true; else echo false; fi\n"));
    }
    script
}

fn held(scene: &Scene, way: &str, output: &str, at: usize, is_beneath: bool) {
    assert!(!scene.home().join("new").exists(), "{way} {}: the user's home was written", CLIENTS[at]);
    let found: Vec<bool> = output.lines().map(|line| line == "true").collect();
    assert_eq!(found.len(), CLAUSES.len(), "{way} {}: {output}", CLIENTS[at]);
    for ((clause, wanted), found) in CLAUSES.iter().zip(found) {
        let wanted = wanted[at] && !(is_beneath && *clause == ELSEWHERE);
        assert_eq!(found, wanted, "{way} {}: {clause}", CLIENTS[at]);
    }
}

fn place() -> Scene {
    let scene = scene();
    scene.write("outside/readable", "x");
    scene.write("home/.ssh/id_rsa", "KEY");
    scene
}

#[test]
fn each_clause_of_each_client_on_the_command_line() {
    for (at, compat) in CLIENTS.into_iter().enumerate() {
        let scene = place();
        let run =
            Test::in_scene(&scene).plain().args(["--compat", compat]).run(["sh", "-c", &script(&scene)]);
        held(&scene, "run", &run.code(0).output, at, false);
        let scene = place();
        let call = |words: &[&str]| {
            let ended = Test::in_scene(&scene).plain().verb(words.to_vec()).call();
            ended.code(0).output.clone()
        };
        call(&["session", "create", "--name", "tried", "--workspace", ".", "--compat", compat]);
        held(
            &scene,
            "session",
            &call(&["session", "exec", "tried", "--", "sh", "-c", &script(&scene)]),
            at,
            false,
        );
        call(&["session", "rm", "tried"]);
    }
}

#[test]
fn each_clause_of_each_client_by_mcp() {
    for (at, compat) in CLIENTS.into_iter().enumerate() {
        for (flags, is_beneath) in [(&["--profile", "permissive"][..], false), (&[], true)] {
            let scene = place();
            let mut client = Client::named(&scene, flags.iter().copied(), "test");
            let run = client.call("sandbox_run", json!({ "command": script(&scene), "compat": compat }));
            held(&scene, "sandbox_run", run["stdout"].as_str().unwrap(), at, is_beneath);
            if is_beneath {
                continue;
            }
            drop(client);
            let scene = place();
            let mut client = Client::named(&scene, flags.iter().copied(), "test");
            let made = client.call("sandbox_session_create", json!({ "compat": compat }))["session"].clone();
            let run = client.call("sandbox_run", json!({ "command": script(&scene), "session": made }));
            held(&scene, "sandbox_session_create", run["stdout"].as_str().unwrap(), at, is_beneath);
        }
    }
}

#[test]
fn each_clause_of_each_client_by_the_api() {
    for (at, compat) in CLIENTS.into_iter().enumerate() {
        let scene = place();
        let server = Server::start(&scene, [] as [&str; 0]);
        let key = server.key("ada", "operator");
        let ask = |path: &str, body: Value| server.ask(Some(&key), "POST", path, Some(&body));
        let command = json!(["sh", "-c", script(&scene)]);
        let run = ask("/v1/run", json!({ "command": command, "compat": compat })).status(200).json();
        held(&scene, "/v1/run", run["stdout"].as_str().unwrap(), at, true);
        let made = ask("/v1/sandboxes", json!({ "compat": compat })).status(201).json();
        let path = format!("/v1/sandboxes/{}", made["id"].as_str().unwrap());
        let run = ask(&format!("{path}/exec"), json!({ "command": command })).status(200).json();
        held(&scene, "/v1/sandboxes", run["stdout"].as_str().unwrap(), at, true);
        let _ = server.ask(Some(&key), "DELETE", &path, None);
    }
}
