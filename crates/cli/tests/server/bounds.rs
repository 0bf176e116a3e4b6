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

fn with_key(server: &Server<'_>, key: &str, once: &str, body: &Value) -> ringfence_testing::Reply {
    let headers = [
        ("authorization", format!("Bearer {key}")),
        ("content-type", "application/json".to_owned()),
        ("idempotency-key", once.to_owned()),
    ];
    server.ask_raw("POST", "/v1/run", &headers, body.to_string().as_bytes())
}

/// Room for answers that may be asked for again is bounded; that a request was carried out is not forgotten with its answer.
#[test]
fn answers_that_are_kept_do_not_fill_the_database() {
    let scene = scene();
    let server = configured(&scene, "");
    let key = server.key("ada", "operator");
    let fill = "echo x >> log; head -c 1000000 /dev/zero | tr '\\0' a > f; cat f; cat f >&2";
    let body = json!({ "command": ["sh", "-c", fill], "workspace": "w" });
    for at in 0..18 {
        let _ = with_key(&server, &key, &at.to_string(), &body).status(200);
    }
    let gone = with_key(&server, &key, "0", &body).refused(410, "answer_let_go").json();
    assert!(gone["error"]["message"].as_str().is_some_and(|text| text.contains("status 200")), "{gone}");
    let again = with_key(&server, &key, "17", &body).status(200);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let count = json!({ "command": ["sh", "-c", "wc -l < log"], "workspace": "w" });
    let counted = server.ask(Some(&key), "POST", "/v1/run", Some(&count)).status(200).json();
    assert_eq!(counted["stdout"], "18\n", "none was carried out again");
}

/// The audit is for ever: of a long command it has how it begins and a digest of the whole, by whichever way it came.
#[test]
fn a_long_command_is_in_the_audit_by_its_beginning_and_its_digest() {
    let scene = scene();
    let server = configured(&scene, "");
    let key = server.key("ada", "operator");
    let at = sandbox(&server, &key, &json!({}));
    let long = "long ".repeat(20_000);
    let body = json!({ "command": ["true", long] });
    let _ = server.ask(Some(&key), "POST", "/v1/run", Some(&body)).status(200);
    let _ = server.ask(Some(&key), "POST", &format!("{at}/exec"), Some(&body)).status(200);
    let _ = server.ask(Some(&key), "POST", &format!("{at}/processes"), Some(&body)).status(201);
    for kind in ["run", "exec", "process.start"] {
        let page = server.ask(Some(&key), "GET", &format!("/v1/audit?kind={kind}"), None).status(200);
        let (length, rows) = (page.body.len(), page.json());
        let told = &rows["rows"][0]["result"];
        assert!(length < 8192 && told["command"][0] == "true", "{kind}: {length}");
        assert!(told["command_whole"]["bytes"].as_u64() >= Some(100_000), "{kind}: {told}");
        assert!(told["command_whole"]["digest"].is_string(), "{kind}: {told}");
    }
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

/// Nobody sees how much others do.
#[test]
fn what_runs_is_counted_for_oneself_and_for_admins() {
    let scene = scene();
    let server = configured(&scene, "");
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "viewer"));
    let root = server.key("root", "admin");
    let sleep = json!({ "command": ["sleep", "600"], "timeout_ms": 600_000 });
    let mut stream = server.events(&ada, "/v1/run/stream", None, Some(&sleep));
    while stream.next_event().expect("an event").name != "start" {}
    let told = |key: &str| {
        let status = server.ask(Some(key), "GET", "/v1/status", None).status(200).json();
        (status["commands_running"].as_u64(), status["streams"].as_u64())
    };
    assert_eq!((told(&ada), told(&eve)), ((Some(1), Some(1)), (Some(0), Some(0))));
    assert_eq!(told(&root), (Some(1), Some(1)));
    drop(stream);
}
