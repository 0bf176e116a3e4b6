//! What the audit says of what is done in a sandbox that stays: who, what, under which policy, and what came of it.

use ringfence_testing::{Server, Test, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{sandbox, scene, server};

/// The rows of a kind, the oldest first.
fn rows(server: &Server, key: &str, kind: &str) -> Vec<Value> {
    let page = server.ask(Some(key), "GET", &format!("/v1/audit?kind={kind}&limit=1000"), None).status(200);
    page.json()["rows"].as_array().expect("rows").clone()
}

#[test]
fn what_is_done_in_a_sandbox_is_recorded_with_its_digests_and_its_end() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let path = sandbox(&server, &key, &json!({}));
    let id = path.rsplit('/').next().expect("an id");
    let ask = |method: &str, rest: &str, body: &Value| {
        server.ask(Some(&key), method, &format!("{path}{rest}"), Some(body))
    };
    let _ = ask("POST", "/exec", &json!({ "command": ["true"] })).status(200);
    let put = || {
        server.ask_bytes(Some(&key), "PUT", &format!("{path}/files?path=f"), None, b"planted-file-content")
    };
    let _ = (put().status(204), put().status(204));
    let command = json!({ "command": ["sh", "-c", "read x; exit 7"] });
    let process = ask("POST", "/processes", &command).status(201).json()["process"].clone();
    let typed = json!({ "text": "planted-typed-words\n" });
    let _ = ask("POST", &format!("/processes/{process}/stdin"), &typed).status(204);
    let sleeper = ask("POST", "/processes", &json!({ "command": ["sleep", "600"] })).status(201).json();
    let sleeper = sleeper["process"].clone();
    let _ = ask("POST", &format!("/processes/{sleeper}/signal"), &json!({ "signal": 9 })).status(204);
    eventually("both ends are in the audit", || rows(&server, &key, "process.end").len() == 2);
    let made = rows(&server, &key, "sandbox.create").pop().expect("a row");
    for digest in ["policy_digest", "receipt_digest"] {
        assert_eq!(made[digest].as_str().map(str::len), Some(64), "{digest}: {made}");
    }
    for kind in ["exec", "file.write", "process.start", "process.stdin", "process.signal", "process.end"] {
        for row in rows(&server, &key, kind) {
            assert_eq!((&row["target"], &row["user"]), (&json!(id), &json!("ada")), "{row}");
            for digest in ["policy_digest", "receipt_digest"] {
                assert_eq!(row[digest], made[digest], "{kind}: {row}");
            }
        }
    }
    assert_eq!(rows(&server, &key, "file.write").len(), 2);
    let (started, ended) = (rows(&server, &key, "process.start"), rows(&server, &key, "process.end"));
    let end =
        |process: &Value| ended.iter().find(|row| row["result"]["process"] == *process).expect("its end");
    assert_eq!(end(&process)["result"]["exit_code"], 7);
    assert_eq!(end(&process)["request_id"], started[0]["request_id"]);
    assert_eq!(end(&sleeper)["result"]["signal"], 9);
    assert_eq!(rows(&server, &key, "process.stdin")[0]["result"]["bytes"], 20);
    let admin = server.key("root", "admin");
    let whole = server.ask(Some(&admin), "GET", "/v1/audit/export", None).status(200).body;
    let whole = String::from_utf8(whole).expect("text");
    assert!(!whole.contains("planted-"), "content is nobody's to read in the audit");
    let _ = server.ask(Some(&key), "DELETE", &path, None).status(204);
}

#[test]
fn an_end_that_no_server_saw_is_written_down_by_the_next_one() {
    let scene = scene();
    let mut first = server(&scene);
    let key = first.key("ada", "operator");
    let path = sandbox(&first, &key, &json!({}));
    let command = json!({ "command": ["sh", "-c", "sleep 1; exit 3"] });
    let _ = first.ask(Some(&key), "POST", &format!("{path}/processes"), Some(&command)).status(201);
    let sleeper = json!({ "command": ["sleep", "600"] });
    let _ = first.ask(Some(&key), "POST", &format!("{path}/processes"), Some(&sleeper)).status(201);
    first.kill();
    let second = server(&scene);
    eventually("its end is in the audit", || rows(&second, &key, "process.end").len() == 1);
    assert_eq!(rows(&second, &key, "process.end")[0]["result"]["exit_code"], 3);
    let _ = second.ask(Some(&key), "DELETE", &path, None).status(204);
    let ended = rows(&second, &key, "process.end");
    assert_eq!((ended.len(), &ended[1]["result"]["error"]), (2, &json!("session_ended")), "{ended:?}");
}

#[test]
fn a_command_that_finds_its_sandbox_dead_was_not_broken_off() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let path = sandbox(&server, &key, &json!({}));
    let whole = server.ask(Some(&key), "GET", &path, None).status(200).json();
    let keeper = whole["status"]["keeper"].as_i64().expect("its keeper's pid") as i32;
    kill_process(Pid::from_raw(keeper).expect("a pid"), Signal::KILL).expect("kill the keeper");
    let exec = json!({ "command": ["true"] });
    server.ask(Some(&key), "POST", &format!("{path}/exec"), Some(&exec)).refused(410, "session_ended");
    // Whether or not somebody had seen its end before.
    for row in rows(&server, &key, "exec") {
        assert_eq!(row["result"]["error"], "session_ended", "{row}");
    }
}

/// Who brings back an older database and the anchor beside it has cut the tail unseen, but for an anchor that is elsewhere.
#[test]
fn a_cut_tail_and_a_cut_anchor_are_found_by_another_anchor() {
    let scene = scene();
    scene.mkdir("elsewhere");
    let elsewhere = scene.path("elsewhere/audit.anchor");
    scene.write("server.toml", &format!("[audit]\nanchors = ['{}']\n", elsewhere.display()));
    let config = scene.path("server.toml").display().to_string();
    let start = || Server::start(&scene, ["--config".to_owned(), config.clone()]);
    let run = |server: &Server, key: &str, words: &[&str]| {
        server.ask(Some(key), "POST", "/v1/run", Some(&json!({ "command": words }))).status(200).json()
    };
    let server = start();
    let (key, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
    let _ = run(&server, &key, &["true"]);
    let _ = server.stop();
    let files = ["server.db", "audit.anchor"];
    let kept: Vec<Vec<u8>> =
        files.iter().map(|file| std::fs::read(scene.state().join(file)).expect("a file")).collect();
    let server = start();
    for _ in 0..3 {
        let _ = run(&server, &key, &["true"]);
    }
    assert_eq!(server.ask(Some(&admin), "GET", "/v1/audit/verify", None).status(200).json()["whole"], true);
    // No sandbox sees where it is.
    let seen = run(&server, &key, &["ls", "-a", &scene.path("elsewhere").display().to_string()]);
    assert!(!seen["stdout"].as_str().expect("text").contains("anchor"), "{seen}");
    let _ = server.stop();
    for (file, bytes) in files.iter().zip(&kept) {
        std::fs::write(scene.state().join(file), bytes).expect("bring it back");
    }
    for more in ["server.db-wal", "server.db-shm"] {
        let _ = std::fs::remove_file(scene.state().join(more));
    }
    let audit = |words: &[&str]| Test::in_scene(&scene).verb(["audit"]).args(words.iter().copied()).call();
    assert_eq!(audit(&["verify"]).exit, 0, "beside the database all is well");
    let found = audit(&["verify", "--config", &config]);
    assert_eq!(found.exit, 1, "{}", found.describe());
    assert!(found.output.contains("elsewhere"), "{}", found.describe());
    let server = start();
    let verdict = server.ask(Some(&admin), "GET", "/v1/audit/verify", None).status(200).json();
    assert_eq!(verdict["whole"], false, "{verdict}");
    // However much is written since.
    for _ in 0..5 {
        let _ = run(&server, &key, &["true"]);
    }
    let verdict = server.ask(Some(&admin), "GET", "/v1/audit/verify", None).status(200).json();
    assert_eq!(verdict["whole"], false, "{verdict}");
    let _ = server.stop();
    let reset = audit(&["reset-anchors", "--config", &config, "--reason", "a copy was brought back"]);
    assert_eq!(reset.exit, 0, "{}", reset.describe());
    assert_eq!(audit(&["verify", "--config", &config]).exit, 0);
    let told = audit(&["export"]);
    assert!(told.output.contains("audit.reset") && told.output.contains("a copy was brought back"));
}
