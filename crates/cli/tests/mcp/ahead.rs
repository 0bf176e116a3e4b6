//! The session that a first call works in is made when its client says hello, and nobody waits for it.

use ringfence_testing::{Scene, Server, Test, eventually};
use serde_json::{Value, json};

use crate::client::Client;
use crate::http;
use crate::scene;

fn of_stdio(scene: &Scene) -> Vec<Value> {
    let listed = Test::in_scene(scene).verb(["session", "ls", "--json"]).call();
    let rows: Value =
        serde_json::from_str(&listed.output).unwrap_or_else(|_| panic!("{}", listed.describe()));
    rows.as_array().expect("a list").clone()
}

fn of_server(server: &Server<'_>, key: &str) -> Vec<Value> {
    let rows = server.ask(Some(key), "GET", "/v1/sandboxes?state=alive", None).status(200).json();
    rows["sandboxes"].as_array().expect("a list").clone()
}

#[test]
fn a_hello_on_stdio_makes_the_first_session() {
    let scene = scene();
    let mut client = Client::start(&scene);
    eventually("a session is made", || of_stdio(&scene).len() == 1);
    let made = of_stdio(&scene)[0]["id"].clone();
    let own = client.call("sandbox_run", json!({ "command": "true" }))["session"].clone();
    let (made, own) = (made.as_str().unwrap(), own.as_str().unwrap());
    assert!(made.ends_with(own), "{made} {own}");
    assert_eq!(of_stdio(&scene).len(), 1, "the first call makes no other");
}

#[test]
fn a_hello_over_http_makes_the_first_session() {
    let scene = scene();
    let server = Server::start(&scene, [] as [&str; 0]);
    let client = http::Client::new(&server, "ada", "operator");
    eventually("a sandbox is made", || of_server(&server, &client.key).len() == 1);
    let made = of_server(&server, &client.key)[0]["id"].clone();
    assert_eq!(client.call("sandbox_run", json!({ "command": "true" }))["session"], made);
    assert_eq!(of_server(&server, &client.key).len(), 1, "the first call makes no other");
    // Who may run nothing has nothing made.
    let viewer = http::Client::new(&server, "eve", "viewer");
    viewer.call("skill_search", json!({ "query": "x" }));
    assert!(of_server(&server, &viewer.key).is_empty());
}
