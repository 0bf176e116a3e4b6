//! Snapshots, forks, diffs and commits, and that each is its user's own.

use ringfence_testing::{Leftovers, Server};
use serde_json::{Value, json};

use crate::actions::{configured, decide};
use crate::{sandbox, scene, server};

fn shell(server: &Server<'_>, key: &str, at: &str, script: &str) -> String {
    let body = json!({ "command": ["sh", "-c", script] });
    let done = server.ask(Some(key), "POST", &format!("{at}/exec"), Some(&body)).status(200).json();
    assert_eq!(done["exit_code"], 0, "{done}");
    done["stdout"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn taken_listed_brought_back_exported_and_forked() {
    let before = Leftovers::before();
    {
        let scene = scene();
        let server = server(&scene);
        let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
        let ask = |key: &str, method: &str, path: &str, body: Value| {
            server.ask(Some(key), method, path, Some(&body).filter(|body| !body.is_null()))
        };
        let at = sandbox(&server, &ada, &json!({ "env": { "A": "kept" } }));
        shell(&server, &ada, &at, "echo one > file; mkdir d; echo two > d/other");
        let taken = ask(&ada, "POST", &format!("{at}/snapshots"), json!({ "name": "before" }));
        let taken = taken.status(201).json();
        let id = taken["id"].as_str().expect("an id").to_owned();
        assert_eq!(taken["name"], "before");
        shell(&server, &ada, &at, "echo changed > file; rm -r d; echo new > new");
        let changes = ask(&ada, "GET", &format!("{at}/diff?since=before"), Value::Null).status(200).json();
        let has = |path: &str, change: &str| {
            let rows = changes["changes"].as_array().into_iter().flatten();
            rows.into_iter().any(|row| row["path"] == path && row["change"] == change)
        };
        assert!(has("file", "changed") && has("d/other", "removed") && has("new", "added"), "{changes}");
        let text = ask(&ada, "GET", &format!("{at}/diff?since={id}&format=unified"), Value::Null).status(200);
        let text = String::from_utf8_lossy(&text.body).into_owned();
        assert!(text.contains("-one\n+changed"), "{text}");
        ask(&ada, "GET", &format!("{at}/diff"), Value::Null).refused(400, "bad_request");
        ask(&ada, "GET", &format!("{at}/diff?format=html"), Value::Null).refused(400, "bad_request");
        let back = ask(&ada, "POST", &format!("{at}/rollback"), json!({ "snapshot": id })).status(200).json();
        assert!(back["written"].as_u64() >= Some(2), "{back}");
        assert_eq!(shell(&server, &ada, &at, "cat file d/other; test ! -e new"), "one\ntwo\n");
        // Forks begin there, go their own ways, and have the policy of their model.
        let forks = ask(&ada, "POST", &format!("/v1/snapshots/{id}/fork"), json!({ "count": 2 }));
        let forks = forks.status(201).json();
        let forks: Vec<String> = forks["sandboxes"]
            .as_array()
            .expect("forks")
            .iter()
            .map(|fork| format!("/v1/sandboxes/{}", fork["id"].as_str().expect("an id")))
            .collect();
        assert_eq!(forks.len(), 2);
        assert_eq!(shell(&server, &ada, &forks[0], "cat file; echo $A; echo mine > file"), "one\nkept\n");
        assert_eq!(shell(&server, &ada, &forks[1], "cat file"), "one\n");
        let changes = ask(&ada, "GET", &format!("{}/diff", forks[0]), Value::Null).status(200).json();
        assert_eq!(changes["changes"][0]["path"], "file", "{changes}");
        let more = ask(&ada, "POST", &format!("{}/fork", forks[0]), json!({})).status(201).json();
        let third = format!("/v1/sandboxes/{}", more["sandboxes"][0]["id"].as_str().expect("an id"));
        assert_eq!(shell(&server, &ada, &third, "cat file"), "mine\n");
        for count in [0, 17] {
            ask(&ada, "POST", &format!("{at}/fork"), json!({ "count": count })).refused(400, "bad_body");
        }
        // Out and in again, by somebody who has the bytes.
        let tar = ask(&ada, "GET", &format!("/v1/snapshots/{id}/export"), Value::Null).status(200).body;
        let kind = Some("application/x-tar");
        let imported = server.ask_bytes(Some(&eve), "POST", "/v1/snapshots/import", kind, &tar).status(201);
        assert_eq!(imported.json()["id"], id.as_str());
        let theirs = ask(&eve, "POST", &format!("/v1/snapshots/{id}/fork"), json!({})).status(201).json();
        let theirs = format!("/v1/sandboxes/{}", theirs["sandboxes"][0]["id"].as_str().expect("an id"));
        // What ada's sandbox was made with is not told by its files.
        assert_eq!(shell(&server, &eve, &theirs, "cat file; echo $A"), "one\n\n");
        for bad in [&tar[..tar.len() / 2], b"no tar at all", b""] {
            let reply = server.ask_bytes(Some(&eve), "POST", "/v1/snapshots/import", kind, bad);
            reply.refused(400, "snapshot");
        }
        let _ = ask(&eve, "DELETE", &format!("/v1/snapshots/{id}"), Value::Null).status(204);
        let _ = ask(&ada, "GET", &format!("/v1/snapshots/{id}"), Value::Null).status(200);
        let _ = ask(&ada, "DELETE", &format!("/v1/snapshots/{id}"), Value::Null).status(204);
        ask(&ada, "GET", &format!("/v1/snapshots/{id}"), Value::Null).refused(404, "not_found");
        for (key, path) in
            [(&ada, &at), (&ada, &forks[0]), (&ada, &forks[1]), (&ada, &third), (&eve, &theirs)]
        {
            let _ = ask(key, "DELETE", path, Value::Null).status(204);
        }
    }
    before.assert_none_since();
}

#[test]
fn somebody_elses_snapshots_are_not_there() {
    let scene = scene();
    let server = server(&scene);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
    let (viewer, admin) = (server.key("ada", "viewer"), server.key("root", "admin"));
    let (at, own) = (sandbox(&server, &ada, &json!({})), sandbox(&server, &eve, &json!({})));
    let take = |name: &str| {
        let body = json!({ "name": name });
        let taken = server.ask(Some(&ada), "POST", &format!("{at}/snapshots"), Some(&body)).status(201);
        taken.json()["id"].as_str().expect("an id").to_owned()
    };
    let id = take("mine");
    let ids: Vec<String> = (0..4).map(|number| take(&number.to_string())).collect();
    let short = &id[..12];
    for name in [id.as_str(), "mine", short, "..", "%2e%2e%2fada", "ada%2fmine"] {
        for (method, rest, body) in [
            ("GET", "", None),
            ("DELETE", "", None),
            ("GET", "/export", None),
            ("POST", "/fork", Some(json!({}))),
        ] {
            let path = format!("/v1/snapshots/{name}{rest}");
            let reply = server.ask(Some(&eve), method, &path, body.as_ref());
            assert_eq!(reply.status, 404, "{method} {path}: {}", String::from_utf8_lossy(&reply.body));
        }
        let body = json!({ "snapshot": name });
        let reply = server.ask(Some(&eve), "POST", &format!("{own}/rollback"), Some(&body));
        reply.refused(404, "not_found");
        server.ask(Some(&eve), "GET", &format!("{own}/diff?since={name}"), None).refused(404, "not_found");
    }
    for path in ["/snapshots", "/fork", "/commit", "/rollback"] {
        let body = json!({ "snapshot": id });
        let body = if path == "/rollback" { &body } else { &json!({}) };
        server.ask(Some(&eve), "POST", &format!("{at}{path}"), Some(body)).refused(404, "not_found");
        server.ask(Some(&viewer), "POST", &format!("{at}{path}"), Some(body)).refused(403, "forbidden");
    }
    server.ask(Some(&eve), "GET", "/v1/snapshots?user=ada", None).refused(403, "forbidden");
    let none = server.ask(Some(&eve), "GET", "/v1/snapshots", None).status(200).json();
    assert_eq!(none["snapshots"], json!([]));
    let all = server.ask(Some(&admin), "GET", "/v1/snapshots?user=ada", None).status(200).json();
    assert_eq!(all["snapshots"].as_array().map(Vec::len), Some(5));
    // By the page: each once, the newest first.
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/snapshots?limit=2{after}");
        let page = server.ask(Some(&viewer), "GET", &path, None).status(200).json();
        let rows = page["snapshots"].as_array().expect("rows").iter();
        seen.extend(rows.map(|row| row["id"].as_str().expect("an id").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!((seen.len(), seen.last()), (5, Some(&id)), "{ids:?}");
    for path in [&at, &own] {
        let key = if path == &at { &ada } else { &eve };
        let _ = server.ask(Some(key), "DELETE", path, None).status(204);
    }
}

#[test]
fn a_copy_on_write_workspace_is_committed_whole_or_not_at_all() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let direct = sandbox(&server, &key, &json!({ "workspace": "w" }));
    shell(&server, &key, &direct, "echo old > a; echo old > b");
    let overlay = sandbox(&server, &key, &json!({ "workspace": "w", "overlay": true }));
    shell(
        &server,
        &key,
        &overlay,
        "echo new > a; echo new > b; echo new > c; mkdir -p .git/hooks; echo x > .git/hooks/evil",
    );
    shell(&server, &key, &direct, "cat a; echo theirs > b; test ! -e c");
    let commit = |body: Value| server.ask(Some(&key), "POST", &format!("{overlay}/commit"), Some(&body));
    let conflict = commit(json!({})).refused(409, "commit").json();
    assert_eq!(conflict["error"]["paths"], json!(["b"]), "{conflict}");
    assert_eq!(shell(&server, &key, &direct, "cat a b"), "old\ntheirs\n", "nothing was committed");
    for path in ["../x", "/etc", "", "a/../b"] {
        commit(json!({ "only": [path] })).refused(400, "bad_request");
    }
    let done = commit(json!({ "only": ["a", "c"] })).status(200).json();
    assert_eq!(done["applied"].as_array().map(Vec::len), Some(2), "{done}");
    assert_eq!(
        shell(&server, &key, &direct, "cat a b c; ls -d .git/hooks/evil 2>/dev/null || true"),
        "new\ntheirs\nnew\n"
    );
    let direct_commit = server.ask(Some(&key), "POST", &format!("{direct}/commit"), Some(&json!({})));
    direct_commit.refused(400, "bad_request");
    for path in [&direct, &overlay] {
        let _ = server.ask(Some(&key), "DELETE", path, None).status(204);
    }
}

/// A sandbox that can't be made leaves no trace, and says why.
#[test]
fn what_could_not_be_made_takes_no_room() {
    let scene = scene();
    scene.write("server.toml", "[roles.operator.quotas]\nsandboxes = 2\n");
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let key = server.key("ada", "operator");
    let wrong = json!({ "name": "x", "overlay": true, "workspace": "private" });
    for _ in 0..4 {
        let reply = server.ask(Some(&key), "POST", "/v1/sandboxes", Some(&wrong));
        reply.refused(400, "bad_request");
    }
    let at = sandbox(&server, &key, &json!({ "name": "x" }));
    server.ask(Some(&key), "POST", &format!("{at}/fork"), Some(&json!({ "count": 2 }))).refused(429, "quota");
    let rows = server.ask(Some(&key), "GET", "/v1/sandboxes", None).status(200).json();
    assert_eq!(rows["sandboxes"].as_array().map(Vec::len), Some(1), "{rows}");
    let _ = server.ask(Some(&key), "DELETE", &at, None).status(204);
}

/// What is destroyed passes the gate: shipped rules let it through, and an admin's can deny it or ask.
#[test]
fn rules_decide_on_what_is_removed() {
    let scene = scene();
    let rules = "[[actions.rules]]\nname = 'stays'\nthen = 'deny'\nkinds = ['sandbox.delete', 'snapshot.delete']\nusers = ['eve']\n\
                 [[actions.rules]]\nthen = 'ask'\nkinds = ['sandbox.delete', 'snapshot.delete']\nusers = ['ada']\n";
    let server = configured(&scene, rules);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "operator"));
    let (bob, admin) = (server.key("bob", "operator"), server.key("root", "admin"));
    let delete = |key: &str, path: &str| server.ask(Some(key), "DELETE", path, None);
    let taken = |key: &str, at: &str| {
        let made =
            server.ask(Some(key), "POST", &format!("{at}/snapshots"), Some(&json!({}))).status(201).json();
        format!("/v1/snapshots/{}", made["id"].as_str().expect("an id"))
    };
    let [hers, evil, his] = [&ada, &eve, &bob].map(|key| sandbox(&server, key, &json!({})));
    let (kept, evils) = (taken(&ada, &hers), taken(&eve, &evil));
    delete(&eve, &evil).refused(403, "denied_by_rule");
    delete(&eve, &evils).refused(403, "denied_by_rule");
    let _ = server.ask(Some(&eve), "GET", &evil, None).status(200);
    let _ = server.ask(Some(&eve), "GET", &evils, None).status(200);
    for (path, kind) in [(&kept, "snapshot.delete"), (&hers, "sandbox.delete")] {
        let waits = delete(&ada, path).status(202).json();
        assert_eq!((&waits["kind"], &waits["level"]), (&json!(kind), &json!("low")), "{waits}");
        let id = waits["id"].as_str().expect("an id");
        let _ = server.ask(Some(&ada), "GET", path, None).status(200);
        // It is for that one, and good only once somebody has approved it.
        delete(&ada, &format!("{path}?action={NOBODYS}")).refused(404, "not_found");
        assert_eq!(delete(&ada, &format!("{path}?action={id}")).status, 202);
        let _ = decide(&server, &admin, id, "approve", json!({})).status(200);
        let _ = delete(&ada, &format!("{path}?action={id}")).status(204);
        assert!(matches!(
            server.ask(Some(&ada), "POST", &format!("{path}/fork"), Some(&json!({}))).status,
            404 | 410
        ));
    }
    // Nobody has said anything about bob, nor about an admin who ends what is his.
    let row = |kind: &str| {
        server.ask(Some(&bob), "GET", &format!("/v1/audit?kind={kind}"), None).status(200).json()
    };
    let _ = delete(&bob, &taken(&bob, &his)).status(204);
    assert_eq!(row("snapshot.delete")["rows"][0]["result"]["level"], "low");
    let _ = delete(&admin, &his).status(204);
    let _ = delete(&admin, &evil).status(204);
}

const NOBODYS: &str = "00000000000000000000000000000000";
