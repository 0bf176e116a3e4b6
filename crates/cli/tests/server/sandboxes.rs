//! Sandboxes that stay, through their whole life.

use ringfence_testing::{Leftovers, Server, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{sandbox, scene, server};

#[test]
fn the_life_of_a_sandbox() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let server = server(&scene);
        let key = server.key("ada", "operator");
        let ask = |method: &str, path: &str, body: Value| {
            server.ask(Some(&key), method, path, Some(&body).filter(|body| !body.is_null()))
        };
        let wanted =
            json!({ "name": "work", "ttl_ms": 600_000, "labels": { "for": "test" }, "env": { "A": "b" } });
        let made = ask("POST", "/v1/sandboxes", wanted.clone()).status(201).json();
        assert_eq!(
            (&made["state"], &made["name"], &made["labels"]["for"]),
            (&json!("alive"), &json!("work"), &json!("test"))
        );
        ask("POST", "/v1/sandboxes", wanted).refused(409, "taken");
        let id = made["id"].as_str().expect("an id");
        let at = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
        let done = ask(
            "POST",
            &at("/exec"),
            json!({ "command": ["sh", "-c", "echo $A$B; cat > f; exit 5"], "stdin": "in", "env": { "B": "c" } }),
        );
        let done = done.status(200).json();
        assert_eq!((&done["exit_code"], &done["stdout"]), (&json!(5), &json!("bc\n")), "{done}");
        let slow = ask("POST", &at("/exec"), json!({ "command": ["sleep", "60"], "timeout_ms": 100 }))
            .status(200)
            .json();
        assert_eq!((&slow["timed_out"], &slow["exit_code"]), (&json!(true), &json!(124)));
        // Files
        assert_eq!(ask("GET", &at("/files?path=f"), Value::Null).status(200).body, b"in");
        let put = server.ask_bytes(Some(&key), "PUT", &at("/files?path=bin&mode=755"), None, &[0, 255, 10]);
        let _ = put.status(204);
        assert_eq!(ask("GET", &at("/files?path=bin"), Value::Null).status(200).body, [0, 255, 10]);
        let stat = ask("GET", &at("/files/stat?path=bin"), Value::Null).status(200).json();
        assert_eq!((&stat["kind"], &stat["size"], &stat["mode"]), (&json!("file"), &json!(3), &json!("755")));
        let _ = ask("POST", &at("/files/directories"), json!({ "path": "a/b", "parents": true })).status(204);
        let _ = ask("POST", &at("/files/move"), json!({ "from": "bin", "to": "a/b/bin" })).status(204);
        let listed = ask("GET", &at("/files/list?path=a/b"), Value::Null).status(200).json();
        assert_eq!(listed, json!({ "entries": [{ "name": "bin", "kind": "file" }], "next": null }));
        ask("GET", &at("/files?path=bin"), Value::Null).refused(404, "no_such_file");
        let _ = ask("DELETE", &at("/files?path=a&recursive=true"), Value::Null).status(204);
        // Processes
        let started = ask(
            "POST",
            &at("/processes"),
            json!({ "command": ["sh", "-c", "read x; echo got $x; sleep 600"] }),
        );
        let process = started.status(201).json()["process"].as_u64().expect("a process");
        let one = |rest: &str| at(&format!("/processes/{process}{rest}"));
        let _ = ask("POST", &one("/stdin"), json!({ "text": "word\n" })).status(204);
        ringfence_testing::eventually("the log has it", || {
            ask("GET", &one("/logs"), Value::Null).status(200).json()["stdout"] == "got word\n"
        });
        let next = ask("GET", &one("/logs"), Value::Null).status(200).json()["next"].clone();
        let rest = ask("GET", &one(&format!("/logs?from={next}")), Value::Null).status(200).json();
        assert_eq!(rest["stdout"], "");
        let _ = ask("POST", &one("/signal"), json!({ "signal": 9, "tree": true })).status(204);
        ringfence_testing::eventually("it has ended", || {
            let listed = ask("GET", &at("/processes"), Value::Null).status(200).json();
            let found = listed.as_array().into_iter().flatten().find(|row| row["process"] == process);
            found.is_some_and(|row| !row["result"].is_null())
        });
        // The rest
        let _ = ask("POST", &at("/pause"), Value::Null).status(204);
        let whole = ask("GET", &at(""), Value::Null).status(200).json();
        assert_eq!(whole["status"]["paused"], true, "{whole}");
        for rest in ["/exec", "/exec/stream", "/processes"] {
            let refused =
                ask("POST", &at(rest), json!({ "command": ["true"] })).refused(409, "paused").json();
            assert!(
                refused["error"]["hint"].as_str().is_some_and(|hint| hint.contains("/resume")),
                "{refused}"
            );
        }
        let _ = ask("POST", &at("/resume"), Value::Null).status(204);
        let _ = ask("POST", &at("/extend"), json!({ "ttl_ms": 900_000 })).status(204);
        assert!(ask("GET", &at("/stats"), Value::Null).status(200).json()["memory"].is_u64());
        let page = ask("GET", "/v1/sandboxes?state=alive&limit=1", Value::Null).status(200).json();
        assert_eq!(page["sandboxes"].as_array().map(Vec::len), Some(1));
        let _ = ask("DELETE", &at(""), Value::Null).status(204);
        ask("POST", &at("/exec"), json!({ "command": ["true"] })).refused(410, "session_ended");
        assert_eq!(ask("GET", &at(""), Value::Null).status(200).json()["state"], "ended");
    }
    before.assert_none_since();
}

#[test]
fn a_command_in_a_sandbox_is_heard_of_as_it_goes() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let made = server.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    let path = format!("/v1/sandboxes/{}/exec/stream", made["id"].as_str().expect("an id"));
    let body = json!({ "command": ["sh", "-c", "echo out; echo err >&2; exit 6"] });
    let events = server.events(&key, &path, None, Some(&body)).rest();
    let has =
        |name: &str, text: &str| events.iter().any(|event| event.name == name && event.data["text"] == text);
    assert!(has("stdout", "out\n") && has("stderr", "err\n"), "{events:?}");
    assert_eq!(
        events.last().map(|event| (event.name.as_str(), event.data["code"].clone())),
        Some(("exit", json!(6)))
    );
    let _ = server.ask(Some(&key), "DELETE", path.trim_end_matches("/exec/stream"), None).status(204);
}

/// One sandbox is all that a user may have, and each of them ends without being deleted.
#[test]
fn a_sandbox_that_ends_by_itself_is_told_of_and_makes_room() {
    let before = Leftovers::before();
    {
        let scene = scene();
        scene.write("server.toml", "[roles.operator.quotas]\nsandboxes = 1\nmemory = '1G'\n");
        let config = scene.path("server.toml").display().to_string();
        let server = Server::start(&scene, ["--config".to_owned(), config]);
        let (key, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
        let ends = [
            (json!({ "ttl_ms": 500 }), "its time to live was over"),
            (json!({ "idle_ms": 500 }), "nothing was done in it for as long as it may be idle"),
            (json!({}), "its keeper is gone"),
        ];
        for (wanted, why) in ends {
            let path = sandbox(&server, &key, &wanted);
            if wanted == json!({}) {
                assert_eq!(gauge(&server, &admin), 1);
                let keeper = server.ask(Some(&key), "GET", &path, None).status(200).json();
                let pid = keeper["status"]["keeper"].as_i64().expect("its keeper's pid") as i32;
                kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("kill the keeper");
            }
            eventually("it has ended", || {
                server.ask(Some(&key), "GET", &path, None).status(200).json()["state"] == "ended"
            });
            let ended = server.ask(Some(&key), "GET", &path, None).status(200).json();
            assert_eq!(ended["ended_why"], why);
            assert!(ended["status"].is_null() && ended["ended"].is_i64(), "{ended}");
            assert_eq!(gauge(&server, &admin), 0);
            let id = path.rsplit('/').next().expect("an id");
            let rows = server.ask(Some(&key), "GET", "/v1/audit?kind=sandbox.end", None).status(200).json();
            let row = rows["rows"].as_array().into_iter().flatten().find(|row| row["target"] == id);
            let row = row.unwrap_or_else(|| panic!("no row of {id}: {rows}"));
            assert_eq!((&row["result"]["why"], &row["user"]), (&json!(why), &json!("ada")));
            server
                .ask(Some(&key), "POST", &format!("{path}/exec"), Some(&json!({ "command": ["true"] })))
                .refused(410, "session_ended");
        }
    }
    before.assert_none_since();
}

#[test]
fn nobody_is_refused_for_the_sake_of_a_sandbox_that_has_ended() {
    let scene = scene();
    scene.write("server.toml", "[roles.operator.quotas]\nsandboxes = 1\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config".to_owned(), config]);
    let key = server.key("ada", "operator");
    let one = sandbox(&server, &key, &json!({}));
    server.ask(Some(&key), "POST", "/v1/sandboxes", Some(&json!({}))).refused(429, "quota");
    let status = server.ask(Some(&key), "GET", &one, None).status(200).json();
    let pid = status["status"]["keeper"].as_i64().expect("its keeper's pid") as i32;
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("kill the keeper");
    let lock = scene.state().join("sessions").join(one.rsplit('/').next().expect("an id")).join("lock");
    // Once the kernel has let go of its lock, and before anybody is likely to have looked.
    eventually("the keeper is gone", || {
        let Ok(file) = std::fs::File::open(&lock) else { return true };
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).is_ok()
    });
    let another = sandbox(&server, &key, &json!({}));
    let _ = server.ask(Some(&key), "DELETE", &another, None).status(204);
}

/// What was written to a copy-on-write workspace may be somebody's work.
#[test]
fn an_ended_sandbox_keeps_what_was_not_committed() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let server = server(&scene);
        let (key, other) = (server.key("ada", "operator"), server.key("eve", "operator"));
        let path = sandbox(&server, &key, &json!({ "workspace": "mine", "overlay": true, "ttl_ms": 3000 }));
        let put = server.ask_bytes(Some(&key), "PUT", &format!("{path}/files?path=work"), None, b"mine");
        let _ = put.status(204);
        eventually("it has ended", || {
            server.ask(Some(&key), "GET", &path, None).status(200).json()["state"] == "ended"
        });
        let diff = server.ask(Some(&key), "GET", &format!("{path}/diff"), None).status(200).json();
        assert_eq!(diff["changes"][0]["path"], "work", "{diff}");
        let _ = server.ask(Some(&other), "GET", &format!("{path}/diff"), None).refused(404, "not_found");
        let committed = server.ask(Some(&key), "POST", &format!("{path}/commit"), Some(&json!({})));
        let _ = committed.status(200);
        let _ = server.ask(Some(&key), "DELETE", &path, None).status(204);
        server.ask(Some(&key), "GET", &format!("{path}/diff"), None).refused(410, "session_ended");
    }
    before.assert_none_since();
}

fn gauge(server: &Server, admin: &str) -> u64 {
    let text = server.ask(Some(admin), "GET", "/v1/metrics", None).status(200).body;
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix("ringfence_sandboxes "));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no gauge in {text}"))
}
