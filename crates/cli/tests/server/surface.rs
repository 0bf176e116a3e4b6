//! Where the server answers: paths beside the document, pages of other origins, and requests that are sent twice.

use ringfence_testing::{Scene, database};
use serde_json::{Value, json};

use crate::{scene, server};

#[test]
fn what_is_served_is_in_the_document_or_in_the_list_of_what_is_not() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("root", "admin");
    for open in ["/healthz", "/readyz", "/openapi.json", "/v1/healthz", "/v1/readyz", "/v1/openapi.json"] {
        let _ = server.ask(None, "GET", open, None).status(200);
    }
    for metrics in ["/metrics", "/v1/metrics"] {
        server.ask(None, "GET", metrics, None).refused(401, "unauthenticated");
        let _ = server.ask(Some(&key), "GET", metrics, None).status(200);
    }
    let document = server.ask(None, "GET", "/v1/openapi.json", None).status(200).json();
    assert_eq!(document, server.ask(None, "GET", "/openapi.json", None).status(200).json());
    for (path, reason) in ringfence_server::NOT_DESCRIBED {
        assert!(document["paths"].get(path).is_none() && !reason.is_empty(), "{path} is described");
        let real = path.replace("{id}", "x").replace("{port}", "80").replace("{path}", "");
        let reply = server.ask(Some(&key), "GET", &real, None);
        assert!(!String::from_utf8_lossy(&reply.body).contains("no_route"), "{path} is not served");
    }
}

#[test]
fn another_port_of_this_machine_is_another_origin() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let from = |origin: String| {
        let headers = [("authorization", format!("Bearer {key}")), ("origin", origin)];
        server.ask_raw("GET", "/v1/me", &headers, b"")
    };
    let port = server.address().port();
    let _ = from(format!("http://127.0.0.1:{port}")).status(200);
    for other in [
        format!("http://127.0.0.1:{}", port ^ 1),
        "http://127.0.0.1".to_owned(),
        "http://localhost:9999".to_owned(),
    ] {
        from(other).refused(421, "wrong_host");
    }
}

/// Is this text in the database, or in what was written to it last?
fn kept(scene: &Scene, text: &str) -> bool {
    let path = database(scene);
    let log = path.with_extension("db-wal");
    [path, log].iter().any(|file| {
        let bytes = std::fs::read(file).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[test]
fn a_key_is_made_once_and_its_secret_told_once() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let make = |once: &str| {
        let headers = [
            ("authorization", format!("Bearer {key}")),
            ("content-type", "application/json".to_owned()),
            ("idempotency-key", once.to_owned()),
        ];
        server.ask_raw("POST", "/v1/keys", &headers, b"{\"label\":\"twice\"}")
    };
    let (first, again) = (make("one").status(201), make("one").status(201));
    let secret = first.json()["key"].as_str().expect("a key").to_owned();
    let _ = server.ask(Some(&secret), "GET", "/v1/me", None).status(200);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!((&again.json()["key"], &again.json()["id"]), (&json!(""), &first.json()["id"]));
    let page = server.ask(Some(&key), "GET", "/v1/keys", None).status(200).json();
    let made = page["keys"].as_array().into_iter().flatten().filter(|row| row["label"] == "twice").count();
    assert_eq!(made, 1, "{page}");
    assert!(kept(&scene, "twice") && !kept(&scene, &secret), "the secret is nowhere");
    // A ticket is a secret of half a minute, and asked for anew.
    let at = crate::sandbox(&server, &key, &json!({}));
    let headers = [("authorization", format!("Bearer {key}")), ("idempotency-key", "two".to_owned())];
    server.ask_raw("POST", &format!("{at}/terminal/ticket"), &headers, b"").refused(400, "bad_request");
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

#[test]
fn a_stream_is_begun_once_and_taken_up_by_the_same_request() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let stream = |once: &str, body: &Value| {
        let headers = [
            ("authorization", format!("Bearer {key}")),
            ("content-type", "application/json".to_owned()),
            ("idempotency-key", once.to_owned()),
        ];
        server.listen_raw("POST", "/v1/run/stream", &headers, body.to_string().as_bytes())
    };
    let body = json!({ "command": ["sh", "-c", "echo ran >> log; wc -l < log"], "keep": true });
    for _ in 0..2 {
        let events = stream("one", &body);
        assert_eq!(events.status, 200);
        let events = events.rest();
        let said: Vec<&str> = events.iter().filter_map(|event| event.data["text"].as_str()).collect();
        assert_eq!(said, ["1\n"], "it ran once");
        assert_eq!(events.last().map(|event| event.name.as_str()), Some("exit"));
    }
    // One that is not kept is over with its reader, and not begun again.
    let mut brief = body.clone();
    brief["keep"] = json!(false);
    assert_eq!(stream("two", &brief).rest().last().map(|event| event.name.clone()).as_deref(), Some("exit"));
    let mut gone = false;
    for _ in 0..50 {
        gone |= stream("two", &brief).status == 410;
        std::thread::sleep(std::time::Duration::from_millis(if gone { 0 } else { 50 }));
    }
    assert!(gone, "it is told that it is over");
    let count = json!({ "command": ["sh", "-c", "wc -l < log"] });
    let count = server.ask(Some(&key), "POST", "/v1/run", Some(&count)).status(200).json();
    assert_eq!(count["stdout"], "2\n");
    assert_eq!(stream("one", &brief).status, 422, "another request");
}
