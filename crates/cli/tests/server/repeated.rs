//! An `Idempotency-Key` on whatever creates: the same request twice makes one thing and is told the same; another request
//! under that key is refused, and makes nothing.

use std::collections::BTreeSet;

use ringfence_testing::{Reply, Scene, Server, Test};
use serde_json::{Value, json};

use crate::{sandbox, scene};

/// One route that creates.
struct Creates {
    path: String,
    kind: &'static str,
    body: Vec<u8>,
    /// For the same route, and no less good.
    other: Vec<u8>,
    /// Where what it makes is listed, and under which name.
    listed: (String, &'static str),
}

fn creates(path: &str, body: &Value, other: &Value, list: &str, rows: &'static str) -> Creates {
    let bytes = |value: &Value| value.to_string().into_bytes();
    Creates {
        path: path.to_owned(),
        kind: "application/json",
        body: bytes(body),
        other: bytes(other),
        listed: (list.to_owned(), rows),
    }
}

fn bytes(path: &str, [body, other]: [Vec<u8>; 2], list: &str, rows: &'static str) -> Creates {
    let kind = "application/octet-stream";
    Creates { path: path.to_owned(), kind, body, other, listed: (list.to_owned(), rows) }
}

impl Creates {
    fn ask(&self, server: &Server<'_>, key: &str, once: &str, body: &[u8]) -> Reply {
        let headers = [
            ("authorization", format!("Bearer {key}")),
            ("content-type", self.kind.to_owned()),
            ("idempotency-key", once.to_owned()),
        ];
        server.ask_raw("POST", &self.path, &headers, body)
    }

    fn made(&self, server: &Server<'_>, key: &str) -> usize {
        let (path, rows) = &self.listed;
        let listed = server.ask(Some(key), "GET", path, None).status(200).json();
        listed[*rows].as_array().or(listed.as_array()).expect("rows").len()
    }
}

fn skill(scene: &Scene, name: &str) -> Vec<u8> {
    let text = format!("---\nname: {name}\ndescription: Says a word.\n---\n# {name}\n");
    scene.write(&format!("made/{name}/SKILL.md"), &text);
    let (made, out) = (scene.path(&format!("made/{name}")), scene.path(&format!("{name}.skill")));
    let packed = Test::in_scene(scene)
        .verb(["skill", "pack"])
        .args([made.as_os_str(), "-o".as_ref(), out.as_os_str()])
        .call();
    assert_eq!(packed.exit, 0, "{}", packed.describe());
    std::fs::read(out).expect("an archive")
}

/// Another user's snapshots, as archives.
fn archives(server: &Server<'_>) -> [Vec<u8>; 2] {
    let key = server.key("eve", "operator");
    let at = sandbox(server, &key, &json!({}));
    let taken = ["one", "two"].map(|name| {
        let file = format!("{at}/files?path={name}");
        let _ = server.ask_bytes(Some(&key), "PUT", &file, None, name.as_bytes()).status(204);
        let body = json!({ "name": name });
        let taken =
            server.ask(Some(&key), "POST", &format!("{at}/snapshots"), Some(&body)).status(201).json();
        let id = taken["id"].as_str().expect("an id");
        server.ask(Some(&key), "GET", &format!("/v1/snapshots/{id}/export"), None).status(200).body
    });
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
    taken
}

#[test]
fn whatever_is_created_is_created_once() {
    let scene = scene();
    let server = crate::server(&scene);
    let key = server.key("root", "admin");
    let model = sandbox(&server, &key, &json!({}));
    let snapshot = server
        .ask(Some(&key), "POST", &format!("{model}/snapshots"), Some(&json!({ "name": "model" })))
        .status(201)
        .json();
    let snapshot = format!("/v1/snapshots/{}", snapshot["id"].as_str().expect("an id"));
    // Of what is there the second time, a snapshot has the same id.
    let _ = server.ask_bytes(Some(&key), "PUT", &format!("{model}/files?path=new"), None, b"x").status(204);
    let sleep = |name: &str| json!({ "command": ["sleep", "600"], "env": { "NAME": name } });
    let run = |word: &str| json!({ "run": { "command": ["echo", word] } });
    let user = |name: &str| json!({ "name": name, "role": "viewer" });
    let named = |name: &str| json!({ "name": name });
    let (one, two) = (json!({}), json!({ "count": 2 }));
    let (sandboxes, processes) = ("/v1/sandboxes", format!("{model}/processes"));
    let mode = |mode: &str| json!({ "env": { "MODE": mode } });
    let ports = format!("{model}/ports");
    let port = |port: u16| json!({ "port": port });
    let table = [
        creates(sandboxes, &mode("a"), &mode("b"), sandboxes, "sandboxes"),
        creates(&format!("{model}/fork"), &one, &two, sandboxes, "sandboxes"),
        creates(&format!("{snapshot}/fork"), &one, &two, sandboxes, "sandboxes"),
        creates(&format!("{model}/snapshots"), &named("a"), &named("b"), "/v1/snapshots", "snapshots"),
        bytes("/v1/snapshots/import", archives(&server), "/v1/snapshots", "snapshots"),
        creates(&processes, &sleep("a"), &sleep("b"), &processes, "processes"),
        creates(&ports, &port(8080), &port(8081), &ports, "ports"),
        creates("/v1/actions", &run("a"), &run("b"), "/v1/actions", "actions"),
        creates("/v1/users", &user("ann"), &user("ben"), "/v1/users", "users"),
        bytes(
            "/v1/skills?domain=shared",
            ["a-word", "b-word"].map(|name| skill(&scene, name)),
            "/v1/skills",
            "skills",
        ),
    ];
    for one in &table {
        let (path, before) = (&one.path, one.made(&server, &key));
        let first = one.ask(&server, &key, "the-key", &one.body);
        let said = String::from_utf8_lossy(&first.body).into_owned();
        assert_eq!(first.status, 201, "{path}: {said}");
        assert_eq!(one.made(&server, &key), before + 1, "{path}: {said}");
        let again = one.ask(&server, &key, "the-key", &one.body);
        assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")), "{path}");
        assert_eq!(again.body, first.body, "{path}: the same answer");
        assert_eq!(again.header("content-type"), first.header("content-type"), "{path}");
        one.ask(&server, &key, "the-key", &one.other).refused(422, "key_reused");
        assert_eq!(one.made(&server, &key), before + 1, "{path}: nothing more is made");
    }
    // The key is what counts, and it is one for each route and user.
    let routes: BTreeSet<&str> = table.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(routes.len(), table.len());
    let ada = server.key("ada", "operator");
    let theirs = table[0].ask(&server, &ada, "the-key", &table[0].body).status(201);
    assert_eq!(theirs.header("idempotency-replayed"), None, "somebody else's key is another");
    let other = table[0].ask(&server, &key, "another-key", &table[0].body).status(201);
    assert_eq!(other.header("idempotency-replayed"), None);
    for (key, list) in [(&key, sandboxes), (&ada, sandboxes)] {
        let listed = server.ask(Some(key), "GET", list, None).status(200).json();
        for row in listed["sandboxes"].as_array().into_iter().flatten() {
            let at = format!("{sandboxes}/{}", row["id"].as_str().expect("an id"));
            let _ = server.ask(Some(key), "DELETE", &at, None).status(204);
        }
    }
}

/// What waits for a person is made once too: a second try finds the first.
#[test]
fn what_waits_waits_once() {
    let scene = scene();
    let server = crate::actions::configured(
        &scene,
        "[[actions.rules]]\nthen = 'ask'\nkinds = ['sandbox.create', 'skill.upload', 'run']\n",
    );
    let (key, eve) = (server.key("root", "admin"), server.key("eve", "approver"));
    let run = |word: &str| json!({ "command": ["echo", word] });
    let table = [
        creates("/v1/run", &run("a"), &run("b"), "/v1/actions", "actions"),
        creates("/v1/sandboxes", &json!({}), &json!({ "env": { "A": "b" } }), "/v1/actions", "actions"),
        bytes(
            "/v1/skills?domain=x",
            ["a-word", "b-word"].map(|name| skill(&scene, name)),
            "/v1/actions",
            "actions",
        ),
    ];
    for one in &table {
        let before = one.made(&server, &key);
        let first = one.ask(&server, &key, "k", &one.body).status(202);
        let again = one.ask(&server, &key, "k", &one.body).status(202);
        assert_eq!(first.json()["id"], again.json()["id"], "{}", one.path);
        one.ask(&server, &key, "k", &one.other).refused(422, "key_reused");
        assert_eq!(one.made(&server, &key), before + 1, "{}", one.path);
    }
    let waiting = server.ask(Some(&eve), "GET", "/v1/actions?state=waiting", None).status(200).json();
    assert_eq!(waiting["actions"].as_array().map(Vec::len), Some(table.len()), "{waiting}");
}
