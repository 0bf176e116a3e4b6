//! What one user can't take beyond their share: commands that were left running, and room in the server's database.

use ringfence_testing::{Server, eventually};
use serde_json::{Value, json};

use crate::actions::configured;
use crate::{sandbox, scene};

fn run(server: &Server<'_>, key: &str) -> u16 {
    server.ask(Some(key), "POST", "/v1/run", Some(&json!({ "command": ["true"] }))).status
}

#[test]
fn a_command_that_was_left_running_is_one_of_its_users_commands() {
    let scene = scene();
    let quotas = "[roles.operator.quotas]\ncommands = 1\n";
    let mut first = configured(&scene, quotas);
    let key = first.key("ada", "operator");
    let at = sandbox(&first, &key, &json!({}));
    let sleep = json!({ "command": ["sleep", "600"] });
    let processes = format!("{at}/processes");
    let process =
        first.ask(Some(&key), "POST", &processes, Some(&sleep)).status(201).json()["process"].clone();
    assert_eq!(run(&first, &key), 429);
    first.ask(Some(&key), "POST", &processes, Some(&sleep)).refused(429, "too_many");
    // Also to the server that comes after.
    first.kill();
    let second = configured(&scene, quotas);
    assert_eq!(run(&second, &key), 429);
    let signal = json!({ "signal": 9 });
    let _ =
        second.ask(Some(&key), "POST", &format!("{processes}/{process}/signal"), Some(&signal)).status(204);
    eventually("its end is seen", || run(&second, &key) == 200);
    let short = json!({ "command": ["true"] });
    let _ = second.ask(Some(&key), "POST", &processes, Some(&short)).status(201);
    eventually("so is one that is short", || run(&second, &key) == 200);
    let _ = second.ask(Some(&key), "POST", &processes, Some(&sleep)).status(201);
    let _ = second.ask(Some(&key), "DELETE", &at, None).status(204);
    assert_eq!(run(&second, &key), 200, "it ended with its sandbox");
}

#[test]
fn the_time_of_a_command_that_was_left_running_is_run_time() {
    let scene = scene();
    let server = configured(&scene, "[roles.operator.quotas]\nrun_time = '1s'\n");
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    let sleep = json!({ "command": ["sleep", "600"] });
    let _ = server.ask(Some(&key), "POST", &format!("{at}/processes"), Some(&sleep)).status(201);
    eventually("its time is over while it runs", || run(&server, &key) == 429);
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

/// A role that is changed, and another key, have the quota of that role at once.
#[test]
fn a_quota_goes_by_the_role_of_the_moment() {
    let scene = scene();
    let server =
        configured(&scene, "[roles.operator.quotas]\nstreams = 1\n[roles.admin.quotas]\nstreams = 2\n");
    let (root, key) = (server.key("root", "admin"), server.key("ada", "admin"));
    let change = |role: &str| {
        let body = json!({ "role": role });
        let _ = server.ask(Some(&root), "PATCH", "/v1/users/ada", Some(&body)).status(200);
    };
    let open = || server.listen(&key, "/v1/actions/events", None);
    change("operator");
    let first = open();
    change("admin");
    let second = open();
    server.ask(Some(&key), "GET", "/v1/actions/events", None).refused(429, "too_many");
    assert_eq!((first.status, second.status), (200, 200));
}
