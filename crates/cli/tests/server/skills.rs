//! Skills over HTTP: who sees, publishes and overwrites which domains, and what hostile archives and names come to.

use ringfence_testing::{Scene, Server, Test};
use serde_json::{Value, json};

use crate::scene;

const RULES: &str = "[roles.operator.skills]\nsee = ['shared', 'team']\npublish = ['team']\noverwrite = []\n\
                     [roles.viewer.skills]\nsee = ['shared']\n";

fn archive(scene: &Scene, name: &str, script: &str) -> Vec<u8> {
    scene.write(&format!("made/{name}/SKILL.md"), &format!("---\nname: {name}\ndescription: Counts the words of a text.\n---\n# {name}\nRun scripts/count.sh\n"));
    scene.write(&format!("made/{name}/scripts/count.sh"), script);
    let out = scene.path(&format!("{name}.skill"));
    let outcome = Test::in_scene(scene)
        .verb(["skill", "pack"])
        .args([scene.path(&format!("made/{name}")).as_os_str(), "-o".as_ref(), out.as_os_str()])
        .call();
    assert_eq!(outcome.exit, 0, "{}", outcome.describe());
    std::fs::read(out).expect("an archive")
}

fn started(scene: &Scene) -> Server<'_> {
    scene.write("server.toml", RULES);
    let config = scene.path("server.toml").display().to_string();
    Server::start(scene, ["--config", &config])
}

fn upload(server: &Server<'_>, key: &str, query: &str, bytes: &[u8]) -> ringfence_testing::Reply {
    server.ask_bytes(Some(key), "POST", &format!("/v1/skills?{query}"), Some("application/zip"), bytes)
}

#[test]
fn each_domain_is_seen_published_and_overwritten_by_whom_its_rules_name() {
    let scene = scene();
    let server = started(&scene);
    let (admin, ada) = (server.key("root", "admin"), server.key("ada", "operator"));
    let (viewer, approver) = (server.key("vic", "viewer"), server.key("app", "approver"));
    let ask = |key: &str, method: &str, path: &str, body: Value| {
        server.ask(Some(key), method, path, Some(&body).filter(|body| !body.is_null()))
    };
    let one = archive(&scene, "word-count", "#!/bin/sh\nwc -w \"$@\"\n");
    let secret = archive(&scene, "hidden-one", "#!/bin/sh\necho hidden\n");
    for (domain, bytes) in [("shared", &one), ("closed", &secret)] {
        let _ = upload(&server, &admin, &format!("domain={domain}"), bytes).status(201);
    }
    // Publishing.
    for domain in ["shared", "closed", "other", "..", "*", ""] {
        upload(&server, &ada, &format!("domain={domain}"), &one).refused(403, "forbidden");
    }
    for key in [&viewer, &approver] {
        upload(&server, key, "domain=team", &one).refused(403, "forbidden");
    }
    let added = upload(&server, &ada, "domain=team&name=mine", &one).status(201).json();
    assert_eq!(added["skill"], "team/mine", "{added}");
    // The same once more changes nothing; another one is not put in its place.
    let _ = upload(&server, &ada, "domain=team&name=mine", &one).status(201);
    let other = archive(&scene, "another", "#!/bin/sh\necho another\n");
    let again = upload(&server, &ada, "domain=team&name=mine", &other);
    assert_eq!(again.status, 409, "{}", String::from_utf8_lossy(&again.body));
    upload(&server, &ada, "domain=team&name=mine&replace=true", &one).refused(403, "forbidden");
    upload(&server, &ada, "domain=team&name=two&accept_findings=true", &one).refused(403, "forbidden");
    for name in ["..", "a/b", "%2e%2e%2fx", "A B", ".git"] {
        let reply = upload(&server, &ada, &format!("domain=team&name={name}"), &one);
        assert_eq!(reply.status, 400, "{name}: {}", String::from_utf8_lossy(&reply.body));
    }
    for bytes in [&b""[..], b"no archive", &one[..one.len() / 2]] {
        let reply = upload(&server, &ada, "domain=team&name=bad", bytes);
        assert!(matches!(reply.status, 400 | 422), "{}", String::from_utf8_lossy(&reply.body));
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(!text.contains(&scene.state().display().to_string()), "{text}");
    }
    upload(&server, &ada, "domain=team&name=big", &vec![0; 17 << 20]).status(413);
    // Seeing.
    let names = |key: &str| -> Vec<String> {
        let page = ask(key, "GET", "/v1/skills", Value::Null).status(200).json();
        let rows = page["skills"].as_array().expect("rows").iter();
        rows.map(|row| {
            format!("{}/{}", row["domain"].as_str().unwrap_or("-"), row["name"].as_str().unwrap_or("-"))
        })
        .collect()
    };
    assert_eq!(names(&admin), ["closed/hidden-one", "shared/word-count", "team/mine"]);
    assert_eq!(names(&ada), ["shared/word-count", "team/mine"]);
    assert_eq!(names(&viewer), ["shared/word-count"]);
    assert!(names(&approver).is_empty());
    let first = ask(&ada, "GET", "/v1/skills?limit=1", Value::Null).status(200).json();
    assert_eq!(first["next"], "shared/word-count");
    let rest = ask(&ada, "GET", "/v1/skills?limit=1&after=shared/word-count", Value::Null).status(200).json();
    assert_eq!((&rest["skills"][0]["name"], &rest["next"]), (&json!("mine"), &Value::Null));
    let hits =
        |key: &str| ask(key, "GET", "/v1/skills/search?q=counts+words", Value::Null).status(200).json();
    assert_eq!(hits(&admin)["hits"].as_array().map(Vec::len), Some(3));
    assert_eq!(hits(&viewer)["hits"].as_array().map(Vec::len), Some(1));
    assert_eq!(hits(&approver)["hits"], json!([]));
    let of = |name: &str, rest: &str| format!("/v1/skills/{name}{rest}");
    for rest in ["", "/file", "/archive", "/versions", "/validate", "/lint"] {
        ask(&ada, "GET", &of("closed/hidden-one", rest), Value::Null).refused(404, "not_found");
        ask(&viewer, "GET", &of("team/mine", rest), Value::Null).refused(404, "not_found");
        ask(&ada, "GET", &of("shared/none", rest), Value::Null).refused(404, "not_found");
        let reply = ask(&ada, "GET", &of("team/mine", rest), Value::Null).status(200);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(!text.contains(&scene.path("").display().to_string()), "no path of the server: {text}");
    }
    // No name leads to a path of the server.
    for name in
        ["etc/ssh", "..%2f..%2fetc/ssh", "shared/..%2fclosed%2fhidden-one", "%2fetc/ssh", ".ringfence/x"]
    {
        for rest in ["", "/file", "/lint", "/archive"] {
            let reply = ask(&admin, "GET", &of(name, rest), Value::Null);
            assert_eq!(reply.status, 404, "{name}{rest}: {}", String::from_utf8_lossy(&reply.body));
        }
    }
    for path in ["../mine/SKILL.md", "/etc/passwd", "scripts/../../hidden", "none", "scripts"] {
        let reply = ask(&ada, "GET", &of("team/mine", &format!("/file?path={path}")), Value::Null);
        assert_eq!(reply.status, 404, "{path}: {}", String::from_utf8_lossy(&reply.body));
    }
    let script = ask(&ada, "GET", &of("team/mine", "/file?path=scripts/count.sh"), Value::Null).status(200);
    assert!(script.body.starts_with(b"#!/bin/sh"));
    // Discovery, with digests of what is served.
    let index = ask(&ada, "GET", "/.well-known/agent-skills/index.json", Value::Null).status(200).json();
    let found = index["skills"].as_array().expect("skills");
    assert_eq!(found.len(), 2, "{index}");
    assert!(
        found[0]["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:") && digest.len() == 71)
    );
    let url = found[0]["url"].as_str().expect("a URL");
    assert!(ask(&ada, "GET", url, Value::Null).status(200).body.starts_with(&[0x1f, 0x8b]));
    server.ask(None, "GET", "/.well-known/agent-skills/index.json", None).refused(401, "unauthenticated");
    // Removing.
    ask(&ada, "DELETE", &of("team/mine", ""), Value::Null).refused(403, "forbidden");
    ask(&ada, "DELETE", &of("closed/hidden-one", ""), Value::Null).refused(404, "not_found");
    let _ = ask(&admin, "DELETE", &of("team/mine", ""), Value::Null).status(204);
    ask(&ada, "GET", &of("team/mine", ""), Value::Null).refused(404, "not_found");
    let refused = ask(&ada, "GET", "/v1/audit?kind=skill.upload&limit=1000", Value::Null).status(200).json();
    let denied = refused["rows"].as_array().into_iter().flatten().filter(|row| row["decision"] == "deny");
    assert!(denied.count() > 5, "what was tried is in the audit");
}

#[test]
fn a_skill_is_run_within_the_ceiling_and_only_where_it_is_seen() {
    let scene = scene();
    let server = started(&scene);
    let (admin, ada) = (server.key("root", "admin"), server.key("ada", "operator"));
    let viewer = server.key("vic", "viewer");
    let one = archive(&scene, "word-count", "#!/bin/sh\necho \"args: $@\"; cat; ls /skills; id -u\n");
    let _ = upload(&server, &admin, "domain=shared", &one).status(201);
    let _ = upload(&server, &admin, "domain=closed&name=other", &one).status(201);
    let run = |key: &str, skill: &str, body: Value| {
        server.ask(Some(key), "POST", &format!("/v1/skills/{skill}/run"), Some(&body))
    };
    let done = run(&ada, "shared/word-count", json!({ "args": ["a", "b c"], "stdin": "typed\n" }))
        .status(200)
        .json();
    let stdout = done["stdout"].as_str().unwrap_or_default();
    assert!(stdout.starts_with("args: a b c\ntyped\n") && stdout.contains("shared"), "{done}");
    assert!(!stdout.contains("closed"), "only the skill itself is there: {done}");
    let text = done.to_string();
    assert!(!text.contains(&scene.path("").display().to_string()), "no path of the server: {text}");
    run(&ada, "closed/other", json!({})).refused(404, "not_found");
    run(&viewer, "shared/word-count", json!({})).refused(403, "forbidden");
    run(&ada, "shared/word-count", json!({ "profile": "permissive" })).refused(403, "beyond_ceiling");
    run(&ada, "shared/word-count", json!({ "unknown": 1 })).refused(400, "bad_body");
    let wrong = run(&ada, "shared/word-count", json!({ "script": "../../closed/other/scripts/count.sh" }));
    assert_eq!(wrong.status, 422, "{}", String::from_utf8_lossy(&wrong.body));
    // The library as a run sees it.
    let list = json!({ "command": ["sh", "-c", "ls /skills"], "skills": true });
    let seen = server.ask(Some(&ada), "POST", "/v1/run", Some(&list)).status(200).json();
    let stdout = seen["stdout"].as_str().unwrap_or_default();
    assert!(stdout.contains("shared") && !stdout.contains("closed") && !stdout.contains("other"), "{seen}");
    let seen = server.ask(Some(&admin), "POST", "/v1/run", Some(&list)).status(200).json();
    assert!(seen["stdout"].as_str().is_some_and(|text| text.contains("closed")), "{seen}");
}

#[test]
fn a_run_that_names_a_skill_is_a_run_of_that_skill() {
    let scene = scene();
    let rules = "[[actions.rules]]\nname = 'not that one'\nthen = 'deny'\nkinds = ['skill.run']\ntargets = ['team/*']\n\
                 [[actions.rules]]\nthen = 'ask'\nkinds = ['skill.run']\nusers = ['bob']\n";
    scene.write("server.toml", &format!("{RULES}{rules}"));
    let config = scene.path("server.toml").display().to_string();
    let server = Server::start(&scene, ["--config", &config]);
    let (admin, ada) = (server.key("root", "admin"), server.key("ada", "operator"));
    let (viewer, bob) = (server.key("vic", "viewer"), server.key("bob", "operator"));
    let one = archive(&scene, "word-count", "#!/bin/sh\necho \"args: $@\"; cat; ls /skills\n");
    for (domain, name) in [("shared", "word-count"), ("closed", "other"), ("closed", "word-count")] {
        let _ = upload(&server, &admin, &format!("domain={domain}&name={name}"), &one).status(201);
    }
    let _ = upload(&server, &admin, "domain=team&name=denied", &one).status(201);
    let run = |key: &str, body: Value| server.ask(Some(key), "POST", "/v1/run", Some(&body));
    let whole = json!({ "skill": "shared/word-count", "command": ["scripts/count.sh", "a", "b c"], "stdin": "typed\n" });
    let done = run(&ada, whole.clone()).status(200).json();
    let stdout = done["stdout"].as_str().unwrap_or_default();
    assert!(stdout.starts_with("args: a b c\ntyped\n") && !stdout.contains("closed"), "{done}");
    // By its name, which is the only one that is seen; and the only script.
    let streamed = json!({ "skill": "word-count" });
    let events = server.events(&ada, "/v1/run/stream", None, Some(&streamed)).rest();
    let told: String = events
        .iter()
        .filter(|event| event.name == "stdout")
        .filter_map(|event| event.data["text"].as_str())
        .collect();
    assert!(told.starts_with("args: \n"), "{told}");
    assert!(events.iter().any(|event| event.name == "exit" && event.data["code"] == 0), "{events:?}");
    // The same row as the skill's own route leaves.
    let own = json!({ "script": "scripts/count.sh", "args": ["a", "b c"], "stdin": "typed\n" });
    let _ = server.ask(Some(&ada), "POST", "/v1/skills/shared/word-count/run", Some(&own)).status(200);
    let rows = server.ask(Some(&ada), "GET", "/v1/audit?kind=run", None).status(200).json();
    let said = |at: usize| (&rows["rows"][at]["result"]["command"], &rows["rows"][at]["policy_digest"]);
    assert_eq!(said(0), said(2), "{rows}");
    assert_eq!(said(0).0, &json!(["skill:shared/word-count", "scripts/count.sh", "a", "b c"]));
    // What is not seen is not there, by whatever name; an admin, who sees both, has to say which.
    for skill in
        ["closed/word-count", "closed/other", "other", "..", "/etc", "shared/../closed/other", "", "shared/"]
    {
        let reply = run(&ada, json!({ "skill": skill }));
        assert_eq!(reply.status, 404, "{skill}: {}", String::from_utf8_lossy(&reply.body));
    }
    run(&admin, json!({ "skill": "word-count" })).refused(400, "bad_request");
    run(&viewer, json!({ "skill": "shared/word-count" })).refused(403, "forbidden");
    run(&ada, json!({ "skill": "shared/word-count", "profile": "permissive" }))
        .refused(403, "beyond_ceiling");
    run(&ada, json!({ "skill": "shared/word-count", "skills": true })).refused(400, "bad_request");
    run(&ada, json!({ "skill": "shared/word-count", "command": [""] })).refused(400, "bad_request");
    let wrong =
        run(&ada, json!({ "skill": "word-count", "command": ["../../closed/other/scripts/count.sh"] }));
    assert_eq!(wrong.status, 422, "{}", String::from_utf8_lossy(&wrong.body));
    // The same gate: a rule for the skill, and one that asks. What waits is good for both routes.
    run(&ada, json!({ "skill": "team/denied" })).refused(403, "denied_by_rule");
    server
        .ask(Some(&ada), "POST", "/v1/skills/team/denied/run", Some(&json!({})))
        .refused(403, "denied_by_rule");
    let waiting = run(&bob, whole.clone()).status(202).json();
    assert_eq!(waiting["kind"], "skill.run", "{waiting}");
    let id = waiting["id"].as_str().expect("an id");
    let _ =
        server.ask(Some(&admin), "POST", &format!("/v1/actions/{id}/approve"), Some(&json!({}))).status(200);
    let mut changed = whole.clone();
    (changed["action"], changed["command"][1]) = (json!(id), json!("z"));
    run(&bob, changed).refused(409, "changed");
    let mut same = own.clone();
    same["action"] = json!(id);
    let _ = server.ask(Some(&bob), "POST", "/v1/skills/shared/word-count/run", Some(&same)).status(200);
    let submitted =
        server.ask(Some(&bob), "POST", "/v1/actions", Some(&json!({ "run": whole }))).status(201).json();
    assert_eq!(
        (&submitted["kind"], &submitted["digest"]),
        (&waiting["kind"], &waiting["digest"]),
        "{submitted}"
    );
}

#[test]
fn nobody_sees_a_skill_unless_somebody_says_so() {
    let scene = scene();
    let server = crate::server(&scene);
    let (admin, ada) = (server.key("root", "admin"), server.key("ada", "operator"));
    let _ =
        upload(&server, &admin, "domain=shared", &archive(&scene, "word-count", "#!/bin/sh\n")).status(201);
    let page = server.ask(Some(&ada), "GET", "/v1/skills", None).status(200).json();
    assert_eq!(page["skills"], json!([]));
    upload(&server, &ada, "domain=shared&name=x", b"x").refused(403, "forbidden");
    let list = json!({ "command": ["sh", "-c", "ls /skills 2>/dev/null | wc -l"], "skills": true });
    let seen = server.ask(Some(&ada), "POST", "/v1/run", Some(&list)).status(200).json();
    assert_eq!(seen["stdout"].as_str().map(str::trim), Some("0"), "{seen}");
}
