//! Who may decide on an action, what is remembered, and what outlives a server.

use std::sync::Mutex;

use ringfence_testing::{Reply, Server, Test, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::actions::{STEERING, configured, decide, echo, run, state, waiting, with_action};
use crate::{sandbox, scene, server};

#[test]
fn nobody_approves_their_own_high_or_critical_action() {
    let scene = scene();
    let server = server(&scene);
    let (boss, second) = (server.key("boss", "admin"), server.key("boss", "admin"));
    let (decider, eve) = (server.key("boss", "approver"), server.key("eve", "approver"));
    let open = json!({ "command": ["true"], "network": { "enabled": true } });
    let steering = json!({ "command": ["echo", STEERING], "network": { "enabled": true } });
    for (body, level) in [(&open, "high"), (&steering, "critical")] {
        let action = run(&server, &boss, body).status(202).json();
        assert_eq!(action["level"], level);
        let id = action["id"].as_str().expect("an id");
        for key in [&boss, &second, &decider] {
            decide(&server, key, id, "approve", json!({})).refused(403, "own_action");
            decide(&server, key, id, "deny", json!({})).refused(403, "own_action");
        }
        assert_eq!(state(&server, &boss, id), "waiting");
        let _ = decide(&server, &eve, id, "approve", json!({})).status(200);
    }
}

#[test]
fn ones_own_low_action_may_be_approved_by_whoever_may_decide_at_all() {
    let scene = scene();
    let server = configured(&scene, "[[actions.rules]]\nthen = 'ask'\nkinds = ['run']\n");
    let (boss, ada) = (server.key("boss", "admin"), server.key("ada", "operator"));
    let id = waiting(&server, &boss, &echo("hi"));
    let _ = decide(&server, &boss, &id, "approve", json!({})).status(200);
    let id = waiting(&server, &ada, &echo("hi"));
    decide(&server, &ada, &id, "approve", json!({})).refused(403, "forbidden");
}

#[test]
fn every_role_does_its_own_and_what_is_anothers_is_not_there() {
    let scene = scene();
    let server = server(&scene);
    let (ada, bob) = (server.key("ada", "operator"), server.key("bob", "operator"));
    let (viewer, eve, admin) =
        (server.key("vic", "viewer"), server.key("eve", "approver"), server.key("root", "admin"));
    let body = echo(STEERING);
    let id = waiting(&server, &ada, &body);
    let path = format!("/v1/actions/{id}");
    let listed = |key: &str| {
        let page = server.ask(Some(key), "GET", "/v1/actions", None).status(200).json();
        page["actions"].as_array().map(Vec::len)
    };
    for key in [&bob, &viewer] {
        server.ask(Some(key), "GET", &path, None).refused(404, "not_found");
        decide(&server, key, &id, "cancel", json!({})).refused(404, "not_found");
        decide(&server, key, &id, "approve", json!({})).refused(403, "forbidden");
        decide(&server, key, &id, "deny", json!({})).refused(403, "forbidden");
        assert_eq!(listed(key), Some(0));
        server.ask(Some(key), "GET", "/v1/actions?user=ada", None).refused(403, "forbidden");
    }
    for key in [&ada, &eve, &admin] {
        assert_eq!(listed(key), Some(1));
    }
    // An approver decides and runs nothing; a viewer neither.
    for key in [&viewer, &eve] {
        run(&server, key, &body).refused(403, "forbidden");
        let submit = server.ask(Some(key), "POST", "/v1/actions", Some(&json!({ "run": body })));
        submit.refused(403, "forbidden");
    }
    decide(&server, &eve, &id, "cancel", json!({})).refused(403, "forbidden");
    let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
    // Approved for ada, and for nobody else.
    run(&server, &bob, &with_action(&body, &id)).refused(404, "not_found");
    run(&server, &admin, &with_action(&body, &id)).refused(404, "not_found");
    assert_eq!(run(&server, &ada, &with_action(&body, &id)).status(200).json()["exit_code"], 0);
    for wrong in [json!({ "remember": "ever" }), json!({ "forever": true })] {
        assert_eq!(decide(&server, &eve, &id, "approve", wrong).status, 400);
    }
    decide(&server, &eve, "nothing", "approve", json!({})).refused(404, "not_found");
    // An admin in somebody else's sandbox is asked for.
    let made = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
    let sandbox = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
    let asked =
        server.ask(Some(&admin), "POST", &format!("{sandbox}/exec"), Some(&echo("hi"))).status(202).json();
    assert!(asked["reasons"][0].as_str().expect("why").contains("ada's"), "{asked}");
    let _ = server.ask(Some(&ada), "DELETE", &sandbox, None).status(204);
}

#[test]
fn of_two_approvers_one_wins_and_the_other_is_told() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve, max) =
        (server.key("ada", "operator"), server.key("eve", "approver"), server.key("max", "approver"));
    for round in 0..25 {
        let id = waiting(&server, &ada, &echo(STEERING));
        let replies: Mutex<Vec<(&str, Reply)>> = Mutex::new(Vec::new());
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for (key, verb, after) in [(&eve, "approve", "approved"), (&max, "deny", "denied")] {
                let (replies, id, start, server) = (&replies, &id, &start, &server);
                scope.spawn(move || {
                    start.wait();
                    let reply = decide(server, key, id, verb, json!({}));
                    replies.lock().expect("replies").push((after, reply));
                });
            }
        });
        let replies = replies.into_inner().expect("replies");
        let (won, lost): (Vec<_>, Vec<_>) = replies.into_iter().partition(|(_, reply)| reply.status == 200);
        assert_eq!((won.len(), lost.len()), (1, 1), "round {round}");
        assert_eq!(state(&server, &ada, &id), won[0].0);
        for (_, reply) in lost {
            let told = reply.refused(409, "conflict").json();
            let winner = if won[0].0 == "approved" { "eve" } else { "max" };
            assert!(told["error"]["message"].as_str().expect("text").contains(winner), "{told}");
        }
    }
}

#[test]
fn what_is_cancelled_is_neither_approved_nor_run() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve, admin) =
        (server.key("ada", "operator"), server.key("eve", "approver"), server.key("root", "admin"));
    let body = echo(STEERING);
    let id = waiting(&server, &ada, &body);
    let _ = decide(&server, &ada, &id, "cancel", json!({})).status(200);
    decide(&server, &eve, &id, "approve", json!({})).refused(409, "conflict");
    run(&server, &ada, &with_action(&body, &id)).refused(409, "conflict");
    // Also after it was approved, and by an admin.
    let id = waiting(&server, &ada, &body);
    let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
    let _ = decide(&server, &admin, &id, "cancel", json!({})).status(200);
    run(&server, &ada, &with_action(&body, &id)).refused(409, "conflict");
    decide(&server, &ada, &id, "cancel", json!({})).refused(409, "conflict");
}

fn remembered(server: &Server<'_>, key: &str) -> Vec<Value> {
    let rows = server.ask(Some(key), "GET", "/v1/actions/remembered", None).status(200).json();
    rows["remembered"].as_array().expect("rows").clone()
}

#[test]
fn an_approval_is_remembered_for_as_long_as_it_was_given_and_can_be_withdrawn() {
    let scene = scene();
    let server = server(&scene);
    let (ada, bob, eve) =
        (server.key("ada", "operator"), server.key("bob", "operator"), server.key("eve", "approver"));
    let body = echo(STEERING);
    // Once: the next one is asked for again.
    let id = waiting(&server, &ada, &body);
    let _ = decide(&server, &eve, &id, "approve", json!({ "remember": "once" })).status(200);
    let _ = run(&server, &ada, &with_action(&body, &id)).status(200);
    let _ = run(&server, &ada, &body).status(202);
    assert_eq!(remembered(&server, &eve), [] as [Value; 0]);
    for scope in ["hour", "always"] {
        let body = echo(&format!("{STEERING} {scope}"));
        let id = waiting(&server, &ada, &body);
        let _ = decide(&server, &eve, &id, "approve", json!({ "remember": scope })).status(200);
        for _ in 0..2 {
            let _ = run(&server, &ada, &body).status(200);
        }
        // Exactly that, by exactly that user.
        let mut other = body.clone();
        other["stdin"] = "x".into();
        let _ = run(&server, &ada, &other).status(202);
        let _ = run(&server, &bob, &body).status(202);
        let rows = remembered(&server, &ada);
        assert_eq!((rows.len(), &rows[0]["scope"], &rows[0]["by"]), (1, &json!(scope), &json!("eve")));
        assert_eq!(rows[0]["until"].is_i64(), scope == "hour");
        let path = format!("/v1/actions/remembered/{}", rows[0]["id"].as_str().expect("an id"));
        server.ask(Some(&bob), "DELETE", &path, None).refused(404, "not_found");
        let _ = server.ask(Some(&eve), "DELETE", &path, None).status(204);
        let _ = run(&server, &ada, &body).status(202);
    }
    // A run has no session; what is critical is approved each time.
    let id = waiting(&server, &ada, &body);
    decide(&server, &eve, &id, "approve", json!({ "remember": "session" })).refused(409, "conflict");
    assert_eq!(state(&server, &ada, &id), "waiting");
    let boss = server.key("boss", "admin");
    let critical = json!({ "command": ["echo", STEERING], "network": { "enabled": true } });
    let id = waiting(&server, &boss, &critical);
    decide(&server, &eve, &id, "approve", json!({ "remember": "always" })).refused(409, "conflict");
    decide(&server, &eve, &id, "deny", json!({ "remember": "always" })).refused(400, "bad_request");
}

#[test]
fn an_approval_for_a_session_holds_in_that_sandbox_and_ends_with_it() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "approver"));
    let make = || {
        let made = server.ask(Some(&ada), "POST", "/v1/sandboxes", Some(&json!({}))).status(201).json();
        format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"))
    };
    let (one, other) = (make(), make());
    let exec =
        |sandbox: &str| server.ask(Some(&ada), "POST", &format!("{sandbox}/exec"), Some(&echo(STEERING)));
    let asked = exec(&one).status(202).json();
    let id = asked["id"].as_str().expect("an id");
    let _ = decide(&server, &eve, id, "approve", json!({ "remember": "session" })).status(200);
    for _ in 0..2 {
        let _ = exec(&one).status(200);
    }
    let _ = exec(&other).status(202);
    assert_eq!(remembered(&server, &ada).len(), 1);
    let _ = server.ask(Some(&ada), "DELETE", &one, None).status(204);
    assert_eq!(remembered(&server, &ada), [] as [Value; 0]);
    let _ = server.ask(Some(&ada), "DELETE", &other, None).status(204);
}

#[test]
fn what_waits_or_is_approved_outlives_the_server_and_what_ran_has_failed() {
    let scene = scene();
    let mut first = server(&scene);
    let (ada, eve) = (first.key("ada", "operator"), first.key("eve", "approver"));
    let body = echo(STEERING);
    let id = waiting(&first, &ada, &body);
    first.kill();
    let mut second = server(&scene);
    assert_eq!(state(&second, &ada, &id), "waiting");
    let _ = decide(&second, &eve, &id, "approve", json!({})).status(200);
    second.kill();
    let mut third = server(&scene);
    assert_eq!(run(&third, &ada, &with_action(&body, &id)).status(200).json()["exit_code"], 0);
    // Killed while it runs: it has failed, and does not run again.
    let long = json!({ "command": ["sleep", "600", STEERING], "timeout_ms": 600_000 });
    let id = waiting(&third, &ada, &long);
    let _ = decide(&third, &eve, &id, "approve", json!({})).status(200);
    let events = third.events(&ada, "/v1/run/stream", None, Some(&with_action(&long, &id)));
    eventually("it runs", || state(&third, &ada, &id) == "running");
    third.kill();
    drop(events);
    let last = server(&scene);
    assert_eq!(state(&last, &ada, &id), "failed");
    run(&last, &ada, &with_action(&long, &id)).refused(409, "conflict");
    // A client that goes away ends the command, and with it the action.
    let id = waiting(&last, &ada, &long);
    let _ = decide(&last, &eve, &id, "approve", json!({})).status(200);
    let mut events = last.events(&ada, "/v1/run/stream", None, Some(&with_action(&long, &id)));
    assert_eq!(events.next_event().expect("an event").name, "start");
    drop(events);
    eventually("it ends", || ["done", "failed"].contains(&state(&last, &ada, &id).as_str()));
}

#[test]
fn the_command_line_decides_on_the_machine_itself() {
    let scene = scene();
    let server = server(&scene);
    let ada = server.key("ada", "operator");
    let cli = |words: &[&str]| Test::in_scene(&scene).verb(["actions"]).args(words.iter().copied()).call();
    let mut watching = Test::in_scene(&scene)
        .verb(["actions"])
        .args(["watch", "--from", "0", "--json"])
        .stdout_file(std::fs::File::create(scene.path("watched")).expect("a file"))
        .spawn_call();
    let body = echo(STEERING);
    let id = waiting(&server, &ada, &body);
    let listed = cli(&["ls", "--state", "waiting"]);
    listed.code(0).stdout_contains(&id);
    assert_eq!(listed.output.lines().next().map(|line| line.split('\t').nth(2)), Some(Some("high")));
    let shown: Value = serde_json::from_str(&cli(&["show", &id, "--json"]).output).expect("JSON");
    assert_eq!((&shown["id"], &shown["request"]["command"]), (&json!(id), &body["command"]));
    cli(&["show", &id]).code(0).stdout_contains("steer a model");
    let approved = cli(&["approve", &id, "--remember", "always", "--reason", "seen"]);
    approved.code(0).stdout_contains("approved");
    // The server runs it, though another process decided.
    assert_eq!(run(&server, &ada, &with_action(&body, &id)).status(200).json()["exit_code"], 0);
    assert_eq!(run(&server, &ada, &body).status(200).json()["exit_code"], 0);
    let kept: Value = serde_json::from_str(&cli(&["remembered", "--json"]).output).expect("JSON");
    let approval = kept[0]["id"].as_str().expect("an id").to_owned();
    cli(&["forget", &approval]).code(0);
    let _ = run(&server, &ada, &body).status(202);
    let again = cli(&["approve", &id]);
    again.code(125).stderr_contains("can't be approved");
    for (verb, after) in [("deny", "denied"), ("cancel", "cancelled")] {
        let id = waiting(&server, &ada, &body);
        cli(&[verb, &id]).code(0).stdout_contains(after);
        assert_eq!(state(&server, &ada, &id), after);
    }
    cli(&["approve", "nothing"]).code(125).stderr_contains("there is no action");
    eventually("it was watched", || {
        let text = scene.read("watched").unwrap_or_default();
        text.contains("\"approved\"") && text.contains("\"cancelled\"")
    });
    assert!(!watching.has_ended());
    watching.signal(Signal::INT);
    let _ = watching.wait();
    let rows = Test::in_scene(&scene).verb(["audit", "ls", "--kind", "action.approve", "--json"]).call();
    rows.code(0).stdout_contains("\"origin\":\"cli\"");
}

/// What is typed into a command that runs is no way round what a person has to look at before it runs.
#[test]
fn what_is_typed_into_a_command_is_looked_at_like_one() {
    let scene = scene();
    let rules = "[[actions.rules]]\nname = 'pushes'\nthen = 'ask'\ncommand = ['git', 'push', '**']\n\
         [[actions.rules]]\nname = 'no dates'\nthen = 'deny'\ncommand = ['date']\n";
    let server = configured(&scene, rules);
    let key = server.key("ada", "operator");
    let path = sandbox(&server, &key, &json!({}));
    let shell =
        server.ask(Some(&key), "POST", &format!("{path}/processes"), Some(&json!({ "command": ["sh"] })));
    let process = shell.status(201).json()["process"].clone();
    let stdin = format!("{path}/processes/{process}/stdin");
    let typed = |text: &str| server.ask(Some(&key), "POST", &stdin, Some(&json!({ "text": text })));
    let _ = typed("echo hi\n").status(204);
    let steering = typed(&format!("echo '{STEERING}'\n")).refused(403, "needs_approval");
    assert!(steering.json()["error"]["message"].as_str().expect("text").contains("high"), "its level");
    let push = typed("true; git push origin\n").refused(403, "needs_approval");
    assert!(push.json()["error"]["message"].as_str().expect("text").contains("pushes"), "the rule by name");
    let _ = typed("x\ndate\n").refused(403, "denied_by_rule");
    let _ = typed("echo done\n").status(204);
    let close = json!({ "close": true });
    let _ = server.ask(Some(&key), "POST", &stdin, Some(&close)).status(204);
    let logs = format!("{path}/processes/{process}/logs");
    eventually("it has read all that was let through", || {
        server.ask(Some(&key), "GET", &logs, None).status(200).json()["stdout"] == "hi\ndone\n"
    });
    let _ = server.ask(Some(&key), "DELETE", &path, None).status(204);
}

/// Whoever may make users and keys has no second person in them.
#[test]
fn nobody_approves_through_a_user_or_key_of_their_own_making() {
    let scene = scene();
    let server = server(&scene);
    let (boss, eve, other) =
        (server.key("boss", "admin"), server.key("eve", "approver"), server.key("chief", "admin"));
    let open = json!({ "command": ["true"], "network": { "enabled": true } });
    let id = waiting(&server, &boss, &open);
    let post = |key: &str, path: &str, body: Value| server.ask(Some(key), "POST", path, Some(&body));
    let key_of = |maker: &str, user: &str| {
        let made = post(maker, "/v1/keys", json!({ "user": user })).status(201).json();
        made["key"].as_str().expect("a key").to_owned()
    };
    // A user of their own making, whoever gives them a key; and one whom that one makes.
    let _ = post(&boss, "/v1/users", json!({ "name": "puppet", "role": "admin" })).status(201);
    let puppet = key_of(&boss, "puppet");
    let by_other = key_of(&other, "puppet");
    let _ = post(&by_other, "/v1/users", json!({ "name": "second", "role": "admin" })).status(201);
    let second = key_of(&other, "second");
    // A key for somebody who is another person, and one that is made with it.
    let lent = {
        let made = post(&boss, "/v1/keys", json!({ "user": "eve", "role": "approver" })).status(201).json();
        made["key"].as_str().expect("a key").to_owned()
    };
    let made = post(&lent, "/v1/keys", json!({ "role": "approver" })).status(201).json();
    let again = made["key"].as_str().expect("a key").to_owned();
    let _ = server.ask(Some(&other), "DELETE", "/v1/users/puppet", None).status(204);
    for key in [&second, &lent, &again] {
        decide(&server, key, &id, "approve", json!({})).refused(403, "own_action");
    }
    decide(&server, &puppet, &id, "approve", json!({})).refused(401, "wrong_key");
    assert_eq!(state(&server, &boss, &id), "waiting");
    let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
}
