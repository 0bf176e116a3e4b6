//! Every way to be refused at the door, with one shape of error.

use ringfence_testing::Test;
use serde_json::json;

use crate::{scene, server};

#[test]
fn who_has_no_key_gets_nothing() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let routes = [
        ("POST", "/v1/run"),
        ("POST", "/run"),
        ("POST", "/run/stream"),
        ("GET", "/v1/sandboxes"),
        ("POST", "/v1/sandboxes"),
        ("GET", "/v1/sandboxes/x/files?path=/etc/passwd"),
        ("GET", "/v1/workspaces"),
        ("GET", "/v1/users"),
        ("GET", "/v1/keys"),
        ("GET", "/v1/audit"),
        ("GET", "/v1/status"),
        ("GET", "/v1/metrics"),
    ];
    for (method, path) in routes {
        let reply = server.ask(None, method, path, None).refused(401, "unauthenticated");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        server.ask(Some("rf_wrong"), method, path, None).refused(401, "wrong_key");
    }
    for wrong in [
        "Basic YTpi".to_owned(),
        key.clone(),
        format!("Bearer  {key}"),
        format!("Bearer {}x", key),
        format!("Bearer {}", &key[..66]),
        format!("Bearer {}", key.to_uppercase()),
    ] {
        let headers = [("authorization", wrong)];
        server.ask_raw("GET", "/v1/me", &headers, b"").refused(401, "wrong_key");
    }
    let twice = [("authorization", format!("Bearer {key}")), ("authorization", format!("Bearer {key}"))];
    server.ask_raw("GET", "/v1/me", &twice, b"").refused(401, "wrong_key");
    assert_eq!(server.ask(Some(&key), "GET", "/v1/me", None).status(200).json()["user"], "ada");
    for open in ["/healthz", "/readyz", "/openapi.json"] {
        let _ = server.ask(None, "GET", open, None).status(200);
    }
}

#[test]
fn keys_end() {
    let scene = scene();
    let server = server(&scene);
    let admin = server.key("root", "admin");
    let make = json!({ "user": "root", "expires_ms": 1 });
    let short = server.ask(Some(&admin), "POST", "/v1/keys", Some(&make)).status(201).json();
    std::thread::sleep(std::time::Duration::from_millis(5));
    server.ask(short["key"].as_str(), "GET", "/v1/me", None).refused(401, "wrong_key");
    let made = server.ask(Some(&admin), "POST", "/v1/keys", Some(&json!({}))).status(201).json();
    let key = made["key"].as_str().expect("a key");
    let _ = server.ask(Some(key), "GET", "/v1/me", None).status(200);
    let listed = server.ask(Some(&admin), "GET", "/v1/keys", None).status(200);
    assert!(!String::from_utf8_lossy(&listed.body).contains(key), "a secret is shown once");
    let _ = server
        .ask(Some(&admin), "DELETE", &format!("/v1/keys/{}", made["id"].as_str().unwrap()), None)
        .status(204);
    server.ask(Some(key), "GET", "/v1/me", None).refused(401, "wrong_key");
    let ada = server.key("ada", "operator");
    let off = json!({ "disabled": true });
    let _ = server.ask(Some(&admin), "PATCH", "/v1/users/ada", Some(&off)).status(200);
    server.ask(Some(&ada), "GET", "/v1/me", None).refused(401, "wrong_key");
    let _ = server.ask(Some(&admin), "DELETE", "/v1/users/ada", None).status(204);
    server.ask(Some(&ada), "GET", "/v1/me", None).refused(401, "wrong_key");
}

#[test]
fn the_first_token_is_good_once() {
    let scene = scene();
    let server = server(&scene);
    let token =
        server.first_url().and_then(|url| url.split_once("token=")).expect("a first start").1.to_owned();
    server.ask(None, "POST", "/v1/login", Some(&json!({ "token": "wrong" }))).refused(401, "wrong_token");
    let given = server.ask(None, "POST", "/v1/login", Some(&json!({ "token": token }))).status(201).json();
    let me = server.ask(given["key"].as_str(), "GET", "/v1/me", None).status(200).json();
    assert_eq!(me, json!({ "user": "admin", "role": "admin" }));
    server.ask(None, "POST", "/v1/login", Some(&json!({ "token": token }))).refused(401, "wrong_token");
}

#[test]
fn a_body_that_is_not_understood_is_refused_whole() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let kind = Some("application/json");
    let ask = |body: &[u8]| server.ask_bytes(Some(&key), "POST", "/v1/run", kind, body);
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{\"command\":\"true\"}",
        "{\"command\":[1]}",
        "{\"command\":[\"true\"],\"unknown\":1}",
        "{\"command\":[\"true\"],\"timeout_ms\":-1}",
        "{\"command\":[\"true\"],\"policy\":{\"netwrok\":{}}}",
        "{\"command\":[\"true\"]} x",
        "[[\"true\"]]",
    ] {
        ask(body.as_bytes()).refused(400, "bad_body");
    }
    ask(b"{\"command\":[\"\xff\"]}").refused(400, "bad_body");
    for body in [
        "{\"command\":[]}",
        "{\"command\":[\"\"]}",
        "{\"command\":[\"a\\u0000b\"]}",
        "{\"command\":[\"a\"],\"env\":{\"A=B\":\"\"}}",
        "{\"command\":[\"a\"],\"stdin\":\"\",\"stdin_base64\":\"\"}",
        "{\"command\":[\"a\"],\"stdin_base64\":\"?\"}",
        "{\"command\":[\"a\"],\"profile\":\"none\"}",
        "{\"command\":[\"a\"],\"workspace\":\"../root\"}",
        "{\"command\":[\"a\"],\"files\":[{\"path\":\"a\"}]}",
    ] {
        ask(body.as_bytes()).refused(400, "bad_request");
    }
    // A list is no object, also where every field could be left out.
    server.ask_bytes(Some(&key), "POST", "/v1/sandboxes", kind, b"[null, null]").refused(400, "bad_body");
    server.ask_bytes(Some(&key), "POST", "/v1/run", None, b"{}").refused(415, "bad_media_type");
    ask(&vec![b' '; 17 << 20]).refused(413, "too_large");
    server.ask(Some(&key), "GET", "/v1/run", None).refused(405, "wrong_method");
    server.ask(Some(&key), "GET", "/v1/nothing", None).refused(404, "no_route");
    server.ask(Some(&key), "GET", "/v1/sandboxes?limit=many", None).refused(400, "bad_query");
    server.ask(Some(&key), "GET", "/v1/sandboxes?unknown=1", None).refused(400, "bad_query");
}

#[test]
fn another_sites_page_gets_nothing() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let with = |name: &'static str, value: &str| {
        let headers = [("authorization", format!("Bearer {key}")), (name, value.to_owned())];
        server.ask_raw("GET", "/v1/me", &headers, b"")
    };
    let port = server.address().port();
    for host in ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example", "169.254.169.254"] {
        with("host", &format!("{host}:{port}")).refused(421, "wrong_host");
    }
    for origin in [
        "http://evil.example",
        "null",
        "https://localhost.evil.example",
        "file://",
        "http://127.0.0.1.evil.example",
    ] {
        with("origin", origin).refused(421, "wrong_host");
    }
    let _ = with("host", &format!("localhost:{port}")).status(200);
    let reply = with("origin", &format!("http://127.0.0.1:{port}")).status(200);
    assert_eq!(reply.header("access-control-allow-origin"), None);
    let preflight =
        [("origin", "http://evil.example".to_owned()), ("access-control-request-method", "POST".to_owned())];
    server.ask_raw("OPTIONS", "/v1/run", &preflight, b"").refused(421, "wrong_host");
}

#[test]
fn an_address_that_others_reach_takes_a_flag() {
    let scene = scene();
    let outcome = Test::in_scene(&scene).verb(["serve", "--listen", "0.0.0.0:0"]).call();
    assert_eq!(outcome.exit, 125);
    outcome.stderr_contains("--beyond-loopback");
}

#[test]
fn serving_without_keys_takes_a_flag_of_its_own() {
    let scene = scene();
    let server = ringfence_testing::Server::start(&scene, ["--without-authentication"]);
    let me = server.ask(None, "GET", "/v1/me", None).status(200).json();
    assert_eq!(me, json!({ "user": "local", "role": "admin" }));
    // A key that is wrong is still wrong, and a page of another site still gets nothing.
    server.ask(Some("rf_wrong"), "GET", "/v1/me", None).refused(401, "wrong_key");
    let from = [("origin", "http://evil.example".to_owned())];
    server.ask_raw("GET", "/v1/me", &from, b"").refused(421, "wrong_host");
    let said = server.stop();
    assert!(said.errors.contains("everybody who reaches this server is an admin"), "{}", said.errors);
    // One flag is not the other: beyond loopback it does not start for this one alone.
    let outcome =
        Test::in_scene(&scene).verb(["serve", "--listen", "0.0.0.0:0", "--without-authentication"]).call();
    assert_eq!(outcome.exit, 125);
    outcome.stderr_contains("--beyond-loopback");
}

#[test]
fn what_is_sent_twice_with_a_key_is_done_once() {
    let scene = scene();
    let server = server(&scene);
    let (ada, bob) = (server.key("ada", "operator"), server.key("bob", "operator"));
    let ask = |key: &str, once: &str, path: &str, body: &serde_json::Value| {
        let headers = [
            ("authorization", format!("Bearer {key}")),
            ("content-type", "application/json".to_owned()),
            ("idempotency-key", once.to_owned()),
        ];
        server.ask_raw("POST", path, &headers, body.to_string().as_bytes())
    };
    let run = json!({ "command": ["sh", "-c", "echo x >> log; wc -l < log"] });
    let first = ask(&ada, "one", "/v1/run", &run).status(200);
    let again = ask(&ada, "one", "/v1/run", &run).status(200);
    assert_eq!(
        (first.json()["stdout"].as_str(), again.header("idempotency-replayed")),
        (Some("1\n"), Some("true"))
    );
    assert_eq!(first.body, again.body);
    assert_eq!(ask(&ada, "two", "/v1/run", &run).status(200).json()["stdout"], "2\n");
    ask(&ada, "one", "/v1/run", &json!({ "command": ["true"] })).refused(422, "key_reused");
    // Another's key of the same name is another key.
    assert_eq!(ask(&bob, "one", "/v1/run", &run).status(200).json()["stdout"], "1\n");
    // What was refused was not done.
    let wrong = json!({ "command": ["true"], "profile": "permissive" });
    ask(&ada, "three", "/v1/run", &wrong).refused(403, "beyond_ceiling");
    ask(&ada, "three", "/v1/run", &wrong).refused(403, "beyond_ceiling");
    ask(&ada, "", "/v1/run", &run).refused(400, "bad_request");
}
