//! Every route, for every role, and every way to be refused. A route of the document without a row fails here, and so does
//! a row without a route.

use std::collections::BTreeSet;

use ringfence_testing::Server;
use serde_json::{Value, json};

use crate::{sandbox, scene, server};

const ROLES: [&str; 4] = ["viewer", "operator", "approver", "admin"];
/// Refused for itself, and not for want of a right.
const WRONG: u16 = 4;
/// Nobody's.
const NOBODYS: &str = "00000000000000000000000000000000";

enum Sends {
    Nothing,
    Json(Value),
    /// Bytes, and whether they are read whole.
    Bytes,
    Stream,
}

struct Row {
    method: &'static str,
    /// As the document has it, and what follows `?`.
    path: &'static str,
    query: &'static str,
    sends: Sends,
    /// For viewer, operator, approver and admin.
    statuses: [u16; 4],
}

fn row(method: &'static str, path: &'static str, sends: Sends, statuses: [u16; 4]) -> Row {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Row { method, path, query, sends, statuses }
}

/// What can be read by whoever may see it, and changed by operators and admins. Ids are nobody's: who gets as far as that
/// had the right to.
fn table() -> Vec<Row> {
    use Sends::{Bytes, Json, Nothing, Stream};
    let (all, read, change) = ([200; 4], [404; 4], [403, 404, 403, 404]);
    let (admins, wrong) = ([403, 403, 403, 200], [403, WRONG, 403, WRONG]);
    let admin_change = [403, 403, 403, 404];
    let run = || Json(json!({ "command": ["true"], "profile": "none" }));
    let exec = || Json(json!({ "command": ["true"] }));
    let empty = || Json(json!({}));
    vec![
        row("POST", "/v1/run", run(), wrong),
        row("POST", "/v1/run/stream", run(), wrong),
        row("POST", "/v1/sandboxes", Json(json!({ "profile": "none" })), wrong),
        row("GET", "/v1/sandboxes", Nothing, all),
        row("GET", "/v1/sandboxes/{id}", Nothing, read),
        row("DELETE", "/v1/sandboxes/{id}", Nothing, change),
        row("POST", "/v1/sandboxes/{id}/extend", empty(), change),
        row("POST", "/v1/sandboxes/{id}/pause", Nothing, change),
        row("POST", "/v1/sandboxes/{id}/resume", Nothing, change),
        row("GET", "/v1/sandboxes/{id}/stats", Nothing, read),
        row("POST", "/v1/sandboxes/{id}/exec", exec(), change),
        row("POST", "/v1/sandboxes/{id}/exec/stream", exec(), change),
        row("POST", "/v1/sandboxes/{id}/processes", exec(), change),
        row("GET", "/v1/sandboxes/{id}/processes", Nothing, read),
        row("GET", "/v1/sandboxes/{id}/processes/{process}/logs", Nothing, read),
        row("POST", "/v1/sandboxes/{id}/processes/{process}/stdin", Json(json!({ "text": "" })), change),
        row("POST", "/v1/sandboxes/{id}/processes/{process}/signal", Json(json!({ "signal": 9 })), change),
        row("GET", "/v1/sandboxes/{id}/files?path=x", Nothing, read),
        row("PUT", "/v1/sandboxes/{id}/files?path=x", Bytes, change),
        row("DELETE", "/v1/sandboxes/{id}/files?path=x", Nothing, change),
        row("GET", "/v1/sandboxes/{id}/files/list?path=x", Nothing, read),
        row("GET", "/v1/sandboxes/{id}/files/stat?path=x", Nothing, read),
        row("POST", "/v1/sandboxes/{id}/files/directories", Json(json!({ "path": "x" })), change),
        row("POST", "/v1/sandboxes/{id}/files/move", Json(json!({ "from": "x", "to": "y" })), change),
        row("GET", "/v1/sandboxes/{id}/files/tree?path=x", Nothing, read),
        row("PUT", "/v1/sandboxes/{id}/files/tree?path=x", Stream, change),
        row("GET", "/v1/sandboxes/{id}/files/watch?path=x", Nothing, read),
        row("POST", "/v1/sandboxes/{id}/snapshots", empty(), change),
        row("POST", "/v1/sandboxes/{id}/rollback", Json(json!({ "snapshot": "x" })), change),
        row("GET", "/v1/sandboxes/{id}/diff", Nothing, read),
        row("POST", "/v1/sandboxes/{id}/commit", empty(), change),
        row("POST", "/v1/sandboxes/{id}/fork", empty(), change),
        row("POST", "/v1/sandboxes/{id}/ports", Json(json!({ "port": 80 })), change),
        row("GET", "/v1/sandboxes/{id}/ports", Nothing, read),
        row("DELETE", "/v1/sandboxes/{id}/ports/{port}", Nothing, change),
        row("POST", "/v1/sandboxes/{id}/ports/{port}/ticket", Nothing, change),
        row("GET", "/v1/sandboxes/{id}/terminal", Nothing, change),
        row("POST", "/v1/sandboxes/{id}/terminal/ticket", Nothing, change),
        row("GET", "/v1/snapshots", Nothing, all),
        row("GET", "/v1/snapshots/{id}", Nothing, read),
        row("DELETE", "/v1/snapshots/{id}", Nothing, change),
        row("GET", "/v1/snapshots/{id}/export", Nothing, read),
        row("POST", "/v1/snapshots/{id}/fork", empty(), change),
        row("POST", "/v1/snapshots/import", Stream, wrong),
        row("GET", "/v1/workspaces", Nothing, all),
        row("GET", "/v1/workspaces/{name}", Nothing, read),
        row("DELETE", "/v1/workspaces/{name}", Nothing, change),
        row("GET", "/v1/workspaces/{name}/usage", Nothing, read),
        row("GET", "/v1/usage", Nothing, all),
        row("GET", "/v1/skills", Nothing, all),
        row("GET", "/v1/skills/search?q=x", Nothing, all),
        // Nobody but admins publishes anywhere unless somebody says so.
        row("POST", "/v1/skills?domain=x", Bytes, [403, 403, 403, WRONG]),
        row("POST", "/v1/skills/validate", Bytes, wrong),
        row("POST", "/v1/skills/lint", Bytes, wrong),
        row("GET", "/v1/skills/{domain}/{name}", Nothing, read),
        row("DELETE", "/v1/skills/{domain}/{name}", Nothing, change),
        row("GET", "/v1/skills/{domain}/{name}/file", Nothing, read),
        row("GET", "/v1/skills/{domain}/{name}/archive", Nothing, read),
        row("GET", "/v1/skills/{domain}/{name}/versions", Nothing, read),
        row("GET", "/v1/skills/{domain}/{name}/validate", Nothing, read),
        row("GET", "/v1/skills/{domain}/{name}/lint", Nothing, read),
        row("POST", "/v1/skills/{domain}/{name}/run", empty(), change),
        row("GET", "/v1/secrets", Nothing, all),
        row("PUT", "/v1/secrets/{name}", Json(json!({ "value": "" })), wrong),
        row("DELETE", "/v1/secrets/{name}", Nothing, change),
        row("GET", "/v1/me", Nothing, all),
        row("GET", "/v1/users", Nothing, admins),
        row("POST", "/v1/users", Json(json!({ "name": "x", "role": "boss" })), [403, 403, 403, WRONG]),
        row("PATCH", "/v1/users/{name}", empty(), admin_change),
        row("DELETE", "/v1/users/{name}", Nothing, admin_change),
        row("GET", "/v1/keys", Nothing, all),
        row("POST", "/v1/keys", Json(json!({ "role": "boss" })), [WRONG; 4]),
        row("DELETE", "/v1/keys/{id}", Nothing, read),
        row("POST", "/v1/actions", Json(json!({ "run": { "command": ["true"], "profile": "none" } })), wrong),
        row("GET", "/v1/actions", Nothing, all),
        row("GET", "/v1/actions/{id}", Nothing, read),
        row("POST", "/v1/actions/{id}/approve", empty(), [403, 403, 404, 404]),
        row("POST", "/v1/actions/{id}/deny", empty(), [403, 403, 404, 404]),
        row("POST", "/v1/actions/{id}/cancel", Nothing, read),
        row("GET", "/v1/actions/remembered", Nothing, all),
        row("DELETE", "/v1/actions/remembered/{id}", Nothing, read),
        row("GET", "/v1/audit", Nothing, all),
        row("GET", "/v1/audit/export", Nothing, admins),
        row("GET", "/v1/audit/verify", Nothing, admins),
        row("GET", "/v1/status", Nothing, all),
        row("GET", "/v1/metrics", Nothing, admins),
    ]
}

/// What answers for as long as somebody listens: see the tests of actions.
const ENDLESS: (&str, &str) = ("GET", "/v1/actions/events");

/// Those that take no key.
const OPEN: [(&str, &str); 3] = [("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/v1/login")];

impl Row {
    fn at(&self, id: &str) -> String {
        let path = self.path.replace("{id}", id).replace("{process}", "1").replace("{port}", "80");
        let path = path.replace("{name}", "none").replace("{domain}", "none");
        if self.query.is_empty() { path } else { format!("{path}?{}", self.query) }
    }

    fn ask(&self, server: &Server<'_>, key: Option<&str>, id: &str) -> ringfence_testing::Reply {
        let (kind, body) = match &self.sends {
            Sends::Nothing => (None, String::new()),
            Sends::Json(value) => (Some("application/json"), value.to_string()),
            Sends::Bytes | Sends::Stream => (Some("application/octet-stream"), "x".to_owned()),
        };
        server.ask_bytes(key, self.method, &self.at(id), kind, body.as_bytes())
    }

    fn told(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

#[test]
fn every_route_has_a_row_and_every_row_a_route() {
    let scene = scene();
    let server = server(&scene);
    let document = server.ask(None, "GET", "/openapi.json", None).status(200).json();
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        routes.extend(
            methods.as_object().expect("methods").keys().map(|method| (method.to_uppercase(), path.clone())),
        );
    }
    let own = |method: &str, path: &str| (method.to_owned(), path.to_owned());
    let mut rows: BTreeSet<_> = table().iter().map(|row| own(row.method, row.path)).collect();
    rows.extend(OPEN.iter().chain([&ENDLESS]).map(|(method, path)| own(method, path)));
    let (without_row, without_route): (Vec<_>, Vec<_>) =
        (routes.difference(&rows).collect(), rows.difference(&routes).collect());
    assert!(without_row.is_empty() && without_route.is_empty(), "{without_row:?} {without_route:?}");
}

#[test]
fn every_role_gets_what_its_row_says() {
    let scene = scene();
    let server = server(&scene);
    let keys: Vec<String> = ROLES.iter().map(|role| server.key(&format!("a-{role}"), role)).collect();
    for row in table() {
        for ((role, key), status) in ROLES.iter().zip(&keys).zip(row.statuses) {
            let reply = row.ask(&server, Some(key), NOBODYS);
            let told = || {
                format!("{role} {}: {} {}", row.told(), reply.status, String::from_utf8_lossy(&reply.body))
            };
            match status {
                WRONG => assert!(
                    (400..500).contains(&reply.status) && ![401, 403].contains(&reply.status),
                    "{}",
                    told()
                ),
                status => assert_eq!(reply.status, status, "{}", told()),
            }
        }
    }
}

#[test]
fn no_route_is_there_without_a_key_that_is_good() {
    let scene = scene();
    let server = server(&scene);
    let revoked = server.key("ada", "operator");
    let admin = server.key("root", "admin");
    let short = json!({ "role": "operator", "expires_ms": 1 });
    let expired = server.ask(Some(&revoked), "POST", "/v1/keys", Some(&short)).status(201).json();
    let expired = expired["key"].as_str().expect("a key").to_owned();
    let keys = server.ask(Some(&revoked), "GET", "/v1/keys", None).status(200).json();
    let keys = keys["keys"].as_array().expect("keys");
    let keys = json!({ "keys": keys.iter().filter(|key| key["expires"].is_null()).collect::<Vec<_>>() });
    let id = keys["keys"][0]["id"].as_str().expect("a key").to_owned();
    let _ = server.ask(Some(&admin), "DELETE", &format!("/v1/keys/{id}"), None).status(204);
    let wrong = format!("rf_{}", "0".repeat(64));
    for row in table() {
        row.ask(&server, None, NOBODYS).refused(401, "unauthenticated");
        for key in [&wrong, &revoked, &expired] {
            row.ask(&server, Some(key), NOBODYS).refused(401, "wrong_key");
        }
    }
}

/// What answers without end is refused like the rest, and told to each role as far as it sees.
#[test]
fn events_of_actions_are_for_whoever_has_a_good_key() {
    let scene = scene();
    let server = server(&scene);
    let (method, path) = ENDLESS;
    let wrong = format!("rf_{}", "0".repeat(64));
    for at in [path, "/v1/actions/events?after=0"] {
        server.ask(None, method, at, None).refused(401, "unauthenticated");
        server.ask(Some(&wrong), method, at, None).refused(401, "wrong_key");
    }
    let keys: Vec<String> = ROLES.iter().map(|role| server.key(&format!("a-{role}"), role)).collect();
    let admin = &keys[3];
    for query in ["no_such_word=1", "after=x"] {
        let reply = server.ask(Some(admin), method, &format!("{path}?{query}"), None);
        assert_eq!(reply.status, 400, "{query}: {}", String::from_utf8_lossy(&reply.body));
    }
    let mut listening: Vec<_> = keys.iter().map(|key| server.listen(key, path, None)).collect();
    assert!(listening.iter().all(|one| one.status == 200), "{listening:?}");
    // Those who decide hear of everybody's; the others of their own, and a viewer has none.
    let steering = json!({ "command": ["echo", crate::actions::STEERING] });
    let mut seen = Vec::new();
    for who in [1, 3] {
        let action = server.ask(Some(&keys[who]), "POST", "/v1/run", Some(&steering)).status(202).json();
        seen.push(action["id"].clone());
    }
    for (who, expected) in [(1, &seen[..1]), (2, &seen[..]), (3, &seen[..])] {
        for id in expected {
            let told = listening[who].next_event().expect("an event");
            assert_eq!((told.name.as_str(), &told.data["action"]), ("action", id), "{}", ROLES[who]);
        }
    }
    // Since the beginning, for whoever comes late: nothing of anybody else's is for a viewer.
    let mut late = server.listen(admin, "/v1/actions/events?after=0", None);
    assert_eq!(late.next_event().expect("an event").data["action"], seen[0]);
    drop(listening);
    // A key that is revoked opens nothing.
    let own = server.ask(Some(&keys[1]), "GET", "/v1/keys", None).status(200).json();
    let id = own["keys"][0]["id"].as_str().expect("an id");
    let _ = server.ask(Some(admin), "DELETE", &format!("/v1/keys/{id}"), None).status(204);
    server.ask(Some(&keys[1]), method, path, None).refused(401, "wrong_key");
}

#[test]
fn nothing_of_somebody_elses_sandbox_is_there() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
    let at = sandbox(&server, &ada, &json!({}));
    let id = at.rsplit('/').next().expect("an id");
    let mut tried = 0;
    for row in table().iter().filter(|row| row.path.starts_with("/v1/sandboxes/{id}")) {
        let reply = row.ask(&server, Some(&eve), id);
        assert_eq!(reply.status, 404, "{}: {}", row.told(), String::from_utf8_lossy(&reply.body));
        tried += 1;
    }
    assert!(tried > 30, "{tried}");
    let _ = server.ask(Some(&ada), "GET", &at, None).status(200);
    let _ = server.ask(Some(&ada), "DELETE", &at, None).status(204);
}

#[test]
fn bodies_are_read_strictly_and_not_without_bound() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("root", "admin");
    let large = vec![b' '; (16 << 20) + 1];
    for row in table() {
        let path = row.at(NOBODYS);
        let ask = |kind: &str, body: &[u8]| server.ask_bytes(Some(&key), row.method, &path, Some(kind), body);
        match &row.sends {
            Sends::Json(value) => {
                for body in ["{", "[]", "null", "", "\"x\""] {
                    let reply = ask("application/json", body.as_bytes());
                    assert_eq!(reply.status, 400, "{} {body}", row.told());
                    reply.refused(400, "bad_body");
                }
                let mut more = value.clone();
                more["no_such_field"] = json!(1);
                ask("application/json", more.to_string().as_bytes()).refused(400, "bad_body");
                ask("text/plain", value.to_string().as_bytes()).refused(415, "bad_media_type");
                ask("application/json", &large).refused(413, "too_large");
            }
            Sends::Bytes => {
                let reply = ask("application/octet-stream", &large);
                assert_eq!(reply.status, 413, "{}", row.told());
            }
            Sends::Nothing | Sends::Stream => {}
        }
        let joiner = if row.query.is_empty() { "?" } else { "&" };
        // Routes that take a query take no other words of it.
        if row.method == "GET" && !row.query.is_empty() {
            let path = format!("{path}{joiner}no_such_word=1");
            server.ask(Some(&key), "GET", &path, None).refused(400, "bad_query");
        }
    }
}

/// What the document says of numbers is so, on every route: of each that has a bound, what is just beyond it is refused.
#[test]
fn numbers_are_held_to_what_the_document_says() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("root", "admin");
    let document = server.ask(None, "GET", "/openapi.json", None).status(200).json();
    let beyond = |schema: &Value| -> Vec<u64> {
        let least = schema["minimum"].as_u64().filter(|least| *least > 0).map(|least| least - 1);
        least.into_iter().chain(schema["maximum"].as_u64().map(|most| most + 1)).collect()
    };
    let (mut queries, mut bodies) = (0, 0);
    for row in table() {
        let operation = &document["paths"][row.path][row.method.to_lowercase()];
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            for number in beyond(&parameter["schema"]).into_iter().filter(|_| parameter["in"] == "query") {
                let joiner = if row.query.is_empty() { "?" } else { "&" };
                let path = format!(
                    "{}{joiner}{}={number}",
                    row.at(NOBODYS),
                    parameter["name"].as_str().expect("a name")
                );
                let reply = server.ask(Some(&key), row.method, &path, None);
                assert_eq!(reply.status, 400, "{path}: {}", String::from_utf8_lossy(&reply.body));
                assert!(
                    reply.json()["error"]["message"]
                        .as_str()
                        .is_some_and(|told| told.contains("whole number"))
                );
                queries += 1;
            }
        }
        let Sends::Json(body) = &row.sends else { continue };
        let named = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
        let named = named.and_then(|named| named.rsplit('/').next()).expect("a schema");
        let properties = document["components"]["schemas"][named]["properties"].as_object();
        for (name, schema) in properties.into_iter().flatten() {
            for number in beyond(schema) {
                let mut body = body.clone();
                body[name.as_str()] = json!(number);
                let reply = server.ask(Some(&key), row.method, &row.at(NOBODYS), Some(&body));
                let told = String::from_utf8_lossy(&reply.body).into_owned();
                assert!(reply.status == 400 && told.contains("hint"), "{} {body}: {told}", row.told());
                bodies += 1;
            }
        }
    }
    assert!(queries > 12 && bodies > 12, "{queries} {bodies}");
}

/// However long a path is, there is an answer.
#[test]
fn a_path_without_end_gets_an_answer() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    for length in [1_000, 10_000, 60_000] {
        let long = "a".repeat(length);
        for path in [
            format!("/{long}"),
            format!("/v1/sandboxes/{long}"),
            format!("/v1/workspaces/{long}"),
            format!("/v1/snapshots/{long}"),
            format!("/v1/skills/{long}/{long}"),
            format!("/v1/secrets/{long}"),
            format!("/v1/sandboxes/{long}/files?path={long}"),
        ] {
            let method = if path.starts_with("/v1/secrets") { "DELETE" } else { "GET" };
            let reply = server.ask(Some(&key), method, &path, None);
            assert!(matches!(reply.status, 400 | 404 | 414 | 431), "{length}: {}", reply.status);
        }
    }
}
