//! What one key can do to others: it makes none that is more than itself or lives longer, and ends none that is more.

use ringfence_testing::{Scene, Server, Test};
use serde_json::{Value, json};

use crate::actions::configured;
use crate::{scene, server};

/// A key by the command line that ends in an hour.
fn ending(scene: &Scene, user: &str, role: &str) -> String {
    let words = ["key", "create", "--user", user, "--role", role, "--expires", "1h"];
    let made = Test::in_scene(scene).verb(words).call();
    assert_eq!(made.exit, 0, "{}", made.describe());
    made.output.trim().to_owned()
}

fn make(server: &Server<'_>, key: &str, body: Value) -> Value {
    server.ask(Some(key), "POST", "/v1/keys", Some(&body)).status(201).json()
}

fn own(server: &Server<'_>, key: &str, user: &str) -> Value {
    let page = server.ask(Some(key), "GET", "/v1/keys", None).status(200).json();
    let rows = page["keys"].as_array().cloned().unwrap_or_default();
    rows.into_iter().find(|row| row["user"] == user).expect("a key")
}

#[test]
fn no_key_outlives_the_one_that_made_it() {
    let scene = scene();
    let server = server(&scene);
    let ada = ending(&scene, "ada", "operator");
    let end = own(&server, &ada, "ada")["expires"].as_i64().expect("it ends");
    for body in [json!({}), json!({ "expires_ms": 86_400_000 }), json!({ "role": "viewer" })] {
        let made = make(&server, &ada, body);
        assert_eq!(made["expires"].as_i64(), Some(end), "{made}");
        // Nor by one more step.
        let next = make(&server, made["key"].as_str().expect("a key"), json!({ "role": "viewer" }));
        assert_eq!(next["expires"].as_i64(), Some(end), "{next}");
    }
    assert!(make(&server, &ada, json!({ "expires_ms": 1000 }))["expires"].as_i64() < Some(end));
    // An admin's neither, whoever it is for: another user's key would outlive it just as well.
    let root = ending(&scene, "root", "admin");
    let page = server.ask(Some(&root), "GET", "/v1/keys?limit=1000", None).status(200).json();
    let rows = page["keys"].as_array().expect("rows");
    let end = rows.iter().find(|row| row["user"] == "root").and_then(|row| row["expires"].as_i64());
    let _ = server
        .ask(Some(&root), "POST", "/v1/users", Some(&json!({ "name": "mole", "role": "admin" })))
        .status(201);
    for user in ["root", "mole", "ada"] {
        let made = make(&server, &root, json!({ "user": user, "role": "operator" }));
        assert_eq!(made["expires"].as_i64(), end, "{made}");
    }
    assert_eq!(make(&server, &root, json!({ "user": "mole" }))["expires"].as_i64(), end);
    // One that never ends makes such.
    let free = server.key("free", "operator");
    assert_eq!(make(&server, &free, json!({}))["expires"], Value::Null);
}

#[test]
fn keys_do_not_multiply() {
    let scene = scene();
    let text = "[roles.operator.quotas]\nkeys = 4\nrequests_per_minute = 20\nuser_requests_per_minute = 30\n";
    let server = configured(&scene, text);
    let (ada, root) = (server.key("ada", "operator"), server.key("root", "admin"));
    let made: Vec<Value> = (0..3).map(|_| make(&server, &ada, json!({}))).collect();
    let full = server.ask(Some(&ada), "POST", "/v1/keys", Some(&json!({}))).refused(429, "quota").json();
    assert!(full["error"]["message"].as_str().is_some_and(|text| text.contains("4 keys")), "{full}");
    // Nor does an admin give them more; one that is revoked makes room.
    server
        .ask(Some(&root), "POST", "/v1/keys", Some(&json!({ "user": "ada", "role": "viewer" })))
        .refused(429, "quota");
    let id = made[0]["id"].as_str().expect("an id");
    let _ = server.ask(Some(&ada), "DELETE", &format!("/v1/keys/{id}"), None).status(204);
    let another = make(&server, &ada, json!({}));
    // All of a user's keys together are held to a rate, so that a new key is no new allowance.
    let keys: Vec<&str> =
        [&made[1], &made[2], &another].iter().filter_map(|one| one["key"].as_str()).collect();
    let asked = (0..60).map(|at| server.ask(Some(keys[at % 3]), "GET", "/v1/me", None));
    let refused = asked.into_iter().find(|reply| reply.status == 429).expect("the rate is held");
    let told = refused.refused(429, "too_many").json();
    assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("your keys")), "{told}");
    let bob = server.key("bob", "operator");
    let _ = server.ask(Some(&bob), "GET", "/v1/me", None).status(200);
}

#[test]
fn nobody_ends_the_keys_of_others_but_an_admin() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve, root) =
        (server.key("ada", "operator"), server.key("eve", "operator"), server.key("root", "admin"));
    let keys = server.ask(Some(&ada), "GET", "/v1/keys", None).status(200).json();
    let path = format!("/v1/keys/{}", keys["keys"][0]["id"].as_str().expect("an id"));
    // It is not there for them, and it is good as before.
    server.ask(Some(&eve), "DELETE", &path, None).refused(404, "not_found");
    let _ = server.ask(Some(&ada), "GET", "/v1/me", None).status(200);
    let _ = server.ask(Some(&root), "DELETE", &path, None).status(204);
    server.ask(Some(&ada), "GET", "/v1/me", None).refused(401, "wrong_key");
}

#[test]
fn a_key_ends_none_that_is_more() {
    let scene = scene();
    let server = server(&scene);
    let strong = server.key("ada", "admin");
    let weak = make(&server, &strong, json!({ "role": "viewer" }));
    let (weak_key, weak_id) = (weak["key"].as_str().expect("a key"), weak["id"].as_str().expect("an id"));
    let page = server.ask(Some(weak_key), "GET", "/v1/keys", None).status(200).json();
    let rows = page["keys"].as_array().expect("rows");
    let id =
        rows.iter().find(|row| row["role"] == "admin").and_then(|row| row["id"].as_str()).expect("an id");
    server.ask(Some(weak_key), "DELETE", &format!("/v1/keys/{id}"), None).refused(403, "forbidden");
    let _ = server.ask(Some(&strong), "GET", "/v1/me", None).status(200);
    // Its own, and what it covers, it may.
    let _ = server.ask(Some(weak_key), "DELETE", &format!("/v1/keys/{weak_id}"), None).status(204);
    server.ask(Some(weak_key), "GET", "/v1/me", None).refused(401, "wrong_key");
    let other = make(&server, &strong, json!({ "role": "operator" }));
    let _ = server
        .ask(Some(&strong), "DELETE", &format!("/v1/keys/{}", other["id"].as_str().unwrap()), None)
        .status(204);
    let audit = server.ask(Some(&strong), "GET", "/v1/audit?kind=key.revoke", None).status(200).json();
    let denied =
        audit["rows"].as_array().into_iter().flatten().filter(|row| row["decision"] == "deny").count();
    assert_eq!(denied, 1, "{audit}");
}
