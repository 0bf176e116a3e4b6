//! The server's stock of sandboxes made ahead.

use ringfence_testing::{Identity, Leftovers, Scene, Server, children, eventually, own_mounts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{scene, server};

fn hits(server: &Server<'_>, admin: &str) -> u64 {
    let reply = server.ask(Some(admin), "GET", "/v1/metrics", None).status(200);
    let text = String::from_utf8(reply.body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("ringfence_pool_total{kind=\"hit\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

fn run(server: &Server<'_>, key: &str, body: &Value) -> Value {
    server.ask(Some(key), "POST", "/v1/run", Some(body)).status(200).json()
}

#[test]
fn runs_that_come_again_find_a_sandbox_ready_and_each_its_own() {
    own_mounts();
    for identity in Identity::all() {
        let before = Leftovers::before();
        {
            let scene = Scene::new(identity);
            let server = server(&scene);
            let (ada, bob) = (server.key("ada", "operator"), server.key("bob", "operator"));
            let admin = server.key("root", "admin");
            for workspace in ["private", "default"] {
                let had = hits(&server, &admin);
                let mut round = 0;
                eventually("a run finds a sandbox ready", || {
                    round += 1;
                    for (who, key) in [("ada", &ada), ("bob", &bob)] {
                        // Whoever had the sandbox, workspace or shape before: nothing of theirs is there.
                        let script =
                            "ls -A /tmp /dev/shm; cat; echo $WHO >> own; sort -u own; echo x > /tmp/left";
                        let body = json!({
                            "command": ["sh", "-c", script], "stdin": "in ", "env": { "WHO": who },
                            "workspace": workspace, "timeout_ms": 30_000 + round,
                        });
                        let answer = run(&server, key, &body);
                        let wanted = format!("/dev/shm:\n\n/tmp:\nin {who}\n");
                        assert_eq!(answer["stdout"], wanted, "{answer}");
                    }
                    hits(&server, &admin) > had
                });
            }
        }
        before.assert_none_since();
    }
}

/// More than a socket takes at once.
#[test]
fn a_long_order_reaches_a_sandbox_that_waits_whole() {
    own_mounts();
    let scene = scene();
    let server = server(&scene);
    let (key, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
    let word = "x".repeat(120_000);
    let script = "for word; do printf '%s ' ${#word}; done";
    let body = json!({ "command": ["sh", "-c", script, "sh", word, word, word], "workspace": "private" });
    eventually("a run finds a sandbox ready", || {
        assert_eq!(run(&server, &key, &body)["stdout"], "120000 120000 120000 ");
        hits(&server, &admin) > 0
    });
}

#[test]
fn what_a_ceiling_hides_is_hidden_from_a_run_that_was_waited_for() {
    own_mounts();
    let scene = scene();
    let server = server(&scene);
    let (key, admin) = (server.key("ada", "operator"), server.key("root", "admin"));
    let state = scene.state().display().to_string();
    eventually("a run finds a sandbox ready", || {
        let script = format!("ls {state} {} 2>&1; id -u; cat /proc/1/environ 2>&1", scene.home().display());
        let answer = run(&server, &key, &json!({ "command": ["sh", "-c", script], "workspace": "private" }));
        let shown = answer["stdout"].as_str().unwrap();
        assert!(!shown.contains("server.db") && !shown.contains("RINGFENCE_STATE_DIR"), "{shown}");
        hits(&server, &admin) > 0
    });
}

#[test]
fn without_its_helper_a_server_ends_and_leaves_nothing() {
    own_mounts();
    let before = Leftovers::before();
    {
        let scene = scene();
        let server = server(&scene);
        let key = server.key("ada", "operator");
        let _ = run(&server, &key, &json!({ "command": ["true"], "workspace": "private" }));
        let helper = children(server.pid()).into_iter().next().expect("a helper");
        eventually("a sandbox waits", || !children(helper).is_empty());
        kill_process(Pid::from_raw(helper as i32).unwrap(), Signal::KILL).unwrap();
        server.ended().code(125).stderr_contains("the helper that makes sandboxes was killed");
    }
    before.assert_none_since();
}

#[test]
fn a_killed_server_leaves_nothing_of_its_stock() {
    own_mounts();
    let before = Leftovers::before();
    {
        let scene = scene();
        let mut server = server(&scene);
        let key = server.key("ada", "operator");
        let _ = run(&server, &key, &json!({ "command": ["true"], "workspace": "private" }));
        let helper = children(server.pid()).into_iter().next().expect("a helper");
        eventually("a sandbox waits", || !children(helper).is_empty());
        server.kill();
    }
    before.assert_none_since();
}
