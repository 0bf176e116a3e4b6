//! Many at once: what is held open has a quota, and whoever holds all that there is locks nobody else out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ringfence_testing::{EventReader, Server, eventually};
use serde_json::json;

use crate::actions::{STEERING, configured, echo, run};
use crate::{sandbox, scene};

fn held(server: &Server<'_>, key: &str, path: &str) -> EventReader {
    server.listen(key, path, None)
}

#[test]
fn what_is_held_open_has_a_quota_for_each_user() {
    let scene = scene();
    let server =
        configured(&scene, "[roles.operator.quotas]\nstreams = 4\n[roles.viewer.quotas]\nstreams = 3\n");
    let (eve, ada) = (server.key("eve", "viewer"), server.key("ada", "operator"));
    let events = "/v1/actions/events";
    let open: Vec<EventReader> = (0..3).map(|_| held(&server, &eve, events)).collect();
    assert!(open.iter().all(|one| one.status == 200));
    let refused = server.ask(Some(&eve), "GET", events, None).refused(429, "too_many");
    assert!(refused.header("retry-after").is_some());
    let told = refused.json();
    assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("3 streams")), "{told}");
    // What is no stream goes on, and so does everybody else.
    let _ = server.ask(Some(&eve), "GET", "/v1/me", None).status(200);
    let of_ada = held(&server, &ada, events);
    assert_eq!(of_ada.status, 200);
    drop(open);
    eventually("the places are free again", || server_lets_in(&server, &eve, events));

    // Waiting for a decision, watching files and following a stream count alike.
    let at = sandbox(&server, &ada, &json!({}));
    let watching = held(&server, &ada, &format!("{at}/files/watch?path=."));
    assert_eq!(watching.status, 200);
    let mut streamed =
        server.events(&ada, "/v1/run/stream", None, Some(&json!({ "command": ["sleep", "60"] })));
    while streamed.next_event().expect("an event").name != "start" {}
    let mut waits = echo(STEERING);
    waits["wait_ms"] = json!(60_000);
    let headers =
        [("authorization", format!("Bearer {ada}")), ("content-type", "application/json".to_owned())];
    let waiting = server.open_raw("POST", "/v1/run", &headers, waits.to_string().as_bytes());
    eventually("it waits", || {
        let page = server.ask(Some(&ada), "GET", "/v1/actions", None).status(200).json();
        page["actions"].as_array().is_some_and(|rows| !rows.is_empty())
    });
    server.ask(Some(&ada), "GET", events, None).refused(429, "too_many");
    run(&server, &ada, &waits).refused(429, "too_many");
    // Without a wait the answer is there at once.
    let _ = run(&server, &ada, &echo(STEERING)).status(202);
    drop((of_ada, watching, streamed, waiting));
    eventually("the places are free again", || server_lets_in(&server, &ada, events));
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}

fn server_lets_in(server: &Server<'_>, key: &str, path: &str) -> bool {
    held(server, key, path).status == 200
}

#[test]
fn whoever_takes_every_connection_does_not_silence_the_server() {
    let scene = scene();
    let server = configured(&scene, "[limits]\nconnections = 16\nhead_time = '60s'\n");
    let key = server.key("ada", "operator");
    // Connections that say nothing hold their places without a key.
    let silent: Vec<TcpStream> =
        (0..16).map(|_| TcpStream::connect(server.address()).expect("connect")).collect();
    std::thread::sleep(Duration::from_millis(200));
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(server.address()).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n",
            server.address()
        );
        stream.write_all(request.as_bytes()).expect("send");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    assert!(ask("/healthz").starts_with("HTTP/1.1 200"), "it is told that the server lives");
    let told = ask("/v1/me");
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("\"busy\""), "{told}");
    drop(silent);
    eventually("there is room again", || ask("/v1/me").starts_with("HTTP/1.1 200"));
}
