//! What is open, or waits, ends with the right to it: a key that is revoked or ends, a user who is disabled or made less.

use ringfence_testing::{Server, Test, WebSocket, eventually};
use serde_json::{Value, json};

use crate::actions::{STEERING, decide, echo, run};
use crate::{sandbox, scene, server};

fn by_key(key: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {key}"))]
}

fn ticket(server: &Server<'_>, key: &str, at: &str) -> String {
    let path = format!("{at}/terminal/ticket");
    let told = server.ask(Some(key), "POST", &path, None).status(200).json();
    told["ticket"].as_str().expect("a ticket").to_owned()
}

fn shell(server: &Server<'_>, key: &str, at: &str) -> WebSocket {
    let mut socket =
        WebSocket::connect(server, &format!("{at}/terminal"), &by_key(key)).expect("a WebSocket");
    socket.say(&json!({ "command": ["sh"] }));
    let (_, told) = socket.until_text();
    assert!(told.as_ref().is_some_and(|told| told["started"]["process"].is_u64()), "{told:?}");
    socket
}

fn all_gone(server: &Server<'_>, admin: &str, at: &str) -> bool {
    let rows = server.ask(Some(admin), "GET", &format!("{at}/processes"), None).status(200).json();
    rows.as_array().into_iter().flatten().all(|row| row["gone"] == true)
}

#[test]
fn what_a_user_has_open_ends_when_they_are_disabled() {
    let scene = scene();
    let server = server(&scene);
    let (root, ada) = (server.key("root", "admin"), server.key("ada", "operator"));
    let at = sandbox(&server, &ada, &json!({}));
    let _terminal = shell(&server, &ada, &at);
    let events = server.listen(&ada, "/v1/actions/events", None);
    let files = server.listen(&ada, &format!("{at}/files/watch?path=."), None);
    let sleep = json!({ "command": ["sleep", "600"], "timeout_ms": 600_000 });
    let mut command = server.events(&ada, &format!("{at}/exec/stream"), None, Some(&sleep));
    while command.next_event().expect("an event").name != "start" {}
    let given = ticket(&server, &ada, &at);
    let change = |body: Value| server.ask(Some(&root), "PATCH", "/v1/users/ada", Some(&body)).status(200);
    let _ = change(json!({ "disabled": true }));
    // Each of them comes to its end.
    for stream in [events, files, command] {
        let _ = stream.rest();
    }
    eventually("the terminal's command has ended, and the stream's", || all_gone(&server, &root, &at));
    let refused = WebSocket::connect(&server, &format!("{at}/terminal?ticket={given}"), &[]);
    assert_eq!(refused.err(), Some(401));
    let _ = change(json!({ "disabled": false }));
    // A ticket is good once, also where it was refused.
    let refused = WebSocket::connect(&server, &format!("{at}/terminal?ticket={given}"), &[]);
    assert_eq!(refused.err(), Some(401));
    let again = shell(&server, &ada, &at);
    drop(again);
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}

/// By the command line too, of which the server is not told.
#[test]
fn a_key_that_is_revoked_or_less_ends_what_it_opened_and_no_more() {
    let scene = scene();
    let server = server(&scene);
    let (root, ada, other) =
        (server.key("root", "admin"), server.key("ada", "operator"), server.key("ada", "operator"));
    let at = sandbox(&server, &ada, &json!({}));
    let mut kept = shell(&server, &other, &at);
    let events = server.listen(&ada, "/v1/actions/events", None);
    let given = ticket(&server, &ada, &at);
    let keys = server.ask(Some(&ada), "GET", "/v1/keys", None).status(200).json();
    let first = keys["keys"][0]["id"].as_str().expect("an id").to_owned();
    let revoked = Test::in_scene(&scene).verb(["key", "rm", &first]).call();
    assert_eq!(revoked.exit, 0, "{}", revoked.describe());
    let _ = events.rest();
    let refused = WebSocket::connect(&server, &format!("{at}/terminal?ticket={given}"), &[]);
    assert_eq!(refused.err(), Some(401));
    kept.write(b"echo st''ill\n");
    kept.until_shown("still");
    let body = json!({ "role": "viewer" });
    let _ = server.ask(Some(&root), "PATCH", "/v1/users/ada", Some(&body)).status(200);
    eventually("a viewer has no terminal", || all_gone(&server, &root, &at));
    let _ = server.ask(Some(&root), "DELETE", &at, None).status(204);
}

#[test]
fn what_was_approved_is_not_begun_for_a_user_who_was_disabled_meanwhile() {
    let scene = scene();
    let server = server(&scene);
    let (root, ada, eve) =
        (server.key("root", "admin"), server.key("ada", "operator"), server.key("eve", "approver"));
    let mut body = echo(STEERING);
    body["wait_ms"] = 60_000.into();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| run(&server, &ada, &body));
        let mut id = None;
        eventually("it waits", || {
            let page = server.ask(Some(&eve), "GET", "/v1/actions?state=waiting", None).status(200).json();
            id = page["actions"][0]["id"].as_str().map(str::to_owned);
            id.is_some()
        });
        let disabled = json!({ "disabled": true });
        let _ = server.ask(Some(&root), "PATCH", "/v1/users/ada", Some(&disabled)).status(200);
        let _ = decide(&server, &eve, &id.expect("an id"), "approve", json!({})).status(200);
        answer.join().expect("an answer").refused(401, "wrong_key");
    });
}
