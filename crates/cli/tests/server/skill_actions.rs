//! Publishing a skill and taking one away are actions: rules decide on them, and what lint finds in a skill counts.

use ringfence_testing::{Scene, Server, Test};
use serde_json::{Value, json};

use crate::actions::{STEERING, configured, decide};
use crate::scene;

const ROLES: &str = "[roles.operator.skills]\nsee = ['*']\npublish = ['*']\noverwrite = ['*']\n";

fn archive(scene: &Scene, name: &str, more: &str) -> Vec<u8> {
    let manifest = format!(
        "---\nname: {name}\ndescription: Says a word.\n---\n# {name}\n\nRun scripts/say.sh\n\n{more}\n"
    );
    scene.write(&format!("made/{name}/SKILL.md"), &manifest);
    scene.write(&format!("made/{name}/scripts/say.sh"), "#!/bin/sh\necho said\n");
    let out = scene.path(&format!("{name}.skill"));
    let made = scene.path(&format!("made/{name}"));
    let packed = Test::in_scene(scene)
        .verb(["skill", "pack"])
        .args([made.as_os_str(), "-o".as_ref(), out.as_os_str()])
        .call();
    assert_eq!(packed.exit, 0, "{}", packed.describe());
    std::fs::read(out).expect("an archive")
}

fn upload(server: &Server<'_>, key: &str, query: &str, bytes: &[u8]) -> ringfence_testing::Reply {
    server.ask_bytes(Some(key), "POST", &format!("/v1/skills?{query}"), Some("application/zip"), bytes)
}

fn delete(server: &Server<'_>, key: &str, skill: &str, query: &str) -> ringfence_testing::Reply {
    server.ask(Some(key), "DELETE", &format!("/v1/skills/{skill}{query}"), None)
}

/// Of what was answered 202.
fn waits(reply: ringfence_testing::Reply, kind: &str) -> String {
    let action = reply.status(202).json();
    assert_eq!((&action["kind"], &action["state"]), (&json!(kind), &json!("waiting")), "{action}");
    action["id"].as_str().expect("an id").to_owned()
}

fn names(server: &Server<'_>, key: &str) -> Vec<String> {
    let page = server.ask(Some(key), "GET", "/v1/skills", None).status(200).json();
    let rows = page["skills"].as_array().cloned().unwrap_or_default();
    let name = |row: &Value| format!("{}/{}", row["domain"].as_str()?, row["name"].as_str()?).into();
    rows.iter().filter_map(name).collect()
}

#[test]
fn rules_decide_on_uploads_and_deletions() {
    let scene = scene();
    let rules = "[[actions.rules]]\nname = 'ours alone'\nthen = 'deny'\nkinds = ['skill.upload', 'skill.delete']\ntargets = ['core/*', '*/closed']\n\
                 [[actions.rules]]\nname = 'read it first'\nthen = 'ask'\nkinds = ['skill.upload', 'skill.delete']\ntargets = ['team/*']\n";
    let server = configured(&scene, &format!("{ROLES}{rules}"));
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "approver"));
    let (word, closed) = (archive(&scene, "say-word", ""), archive(&scene, "closed", ""));
    // Denied, whoever names the skill: the request, or the archive.
    for (query, bytes) in [
        ("domain=core", &word),
        ("domain=core&name=other", &word),
        ("domain=open&name=closed", &word),
        ("domain=open", &closed),
    ] {
        let told = upload(&server, &ada, query, bytes).refused(403, "denied_by_rule").json();
        assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("ours alone")), "{told}");
    }
    assert!(names(&server, &ada).is_empty());
    let _ = upload(&server, &ada, "domain=open", &word).status(201);
    // Asked: nothing is there until somebody else has said yes, and then exactly that.
    let id = waits(upload(&server, &ada, "domain=team", &word), "skill.upload");
    assert_eq!(names(&server, &ada), ["open/say-word"]);
    let shown = server.ask(Some(&eve), "GET", &format!("/v1/actions/{id}"), None).status(200).json();
    assert_eq!(shown["request"]["skill"], "team/say-word", "{shown}");
    let about = &shown["request"]["archive"];
    assert_eq!(about["bytes"], json!(word.len()), "who decides can tell which archive it is: {shown}");
    assert_eq!(about["digest"].as_str().map(str::len), Some(64), "{shown}");
    let approved = format!("domain=team&action={id}");
    let _ = upload(&server, &ada, &approved, &word).status(202);
    let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
    let other = archive(&scene, "say-word", "Another line.");
    upload(&server, &ada, &approved, &other).refused(409, "changed");
    upload(&server, &ada, &format!("{approved}&name=second"), &word).refused(409, "changed");
    let _ = upload(&server, &ada, &approved, &word).status(201);
    assert_eq!(names(&server, &ada), ["open/say-word", "team/say-word"]);
    // Taking it away.
    let id = waits(delete(&server, &ada, "team/say-word", ""), "skill.delete");
    assert_eq!(names(&server, &ada), ["open/say-word", "team/say-word"]);
    delete(&server, &ada, "open/say-word", &format!("?action={id}")).refused(409, "changed");
    let _ = decide(&server, &eve, &id, "deny", json!({ "reason": "still in use" })).status(200);
    let told = delete(&server, &ada, "team/say-word", &format!("?action={id}"));
    assert!((400..500).contains(&told.status), "{}", told.status);
    let id = waits(delete(&server, &ada, "team/say-word", ""), "skill.delete");
    let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
    let _ = delete(&server, &ada, "team/say-word", &format!("?action={id}")).status(204);
    let _ = delete(&server, &ada, "open/say-word", "").status(204);
    assert!(names(&server, &ada).is_empty());
}

#[test]
fn what_is_denied_for_a_skill_is_denied_for_its_deletion() {
    let scene = scene();
    let rules = "[[actions.rules]]\nname = 'it stays'\nthen = 'deny'\nkinds = ['skill.delete']\ntargets = ['team/*']\n";
    let server = configured(&scene, &format!("{ROLES}{rules}"));
    let (ada, root) = (server.key("ada", "operator"), server.key("root", "admin"));
    let _ = upload(&server, &ada, "domain=team", &archive(&scene, "say-word", "")).status(201);
    for key in [&ada, &root] {
        let told = delete(&server, key, "team/say-word", "").refused(403, "denied_by_rule").json();
        assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("it stays")), "{told}");
    }
    assert_eq!(names(&server, &ada), ["team/say-word"]);
    let rows = server.ask(Some(&root), "GET", "/v1/audit?kind=skill.delete", None).status(200).json();
    let denied = rows["rows"].as_array().into_iter().flatten().filter(|row| row["decision"] == "deny");
    assert_eq!(denied.count(), 2, "what was tried is in the audit: {rows}");
}

/// With the rules that are shipped: what lint finds is high, and high is asked for.
#[test]
fn what_is_found_in_a_skill_raises_what_is_done_with_it() {
    let scene = scene();
    let server = configured(&scene, ROLES);
    let (ada, eve) = (server.key("ada", "operator"), server.key("eve", "approver"));
    let clean = archive(&scene, "clean", "");
    let steering = archive(&scene, "steering", STEERING);
    let _ = upload(&server, &ada, "domain=team", &clean).status(201);
    let id = waits(upload(&server, &ada, "domain=team", &steering), "skill.upload");
    let raised = |id: &str| {
        let action = server.ask(Some(&eve), "GET", &format!("/v1/actions/{id}"), None).status(200).json();
        assert_eq!(action["level"], "high", "{action}");
        let reasons = action["reasons"].to_string();
        assert!(
            reasons.contains("prompt-injection") && reasons.contains("SKILL.md"),
            "it says why: {reasons}"
        );
    };
    raised(&id);
    let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
    let _ = upload(&server, &ada, &format!("domain=team&action={id}"), &steering).status(201);
    let run = |skill: &str, body: Value| {
        server.ask(Some(&ada), "POST", &format!("/v1/skills/team/{skill}/run"), Some(&body))
    };
    assert_eq!(run("clean", json!({})).status(200).json()["stdout"], "said\n");
    let id = waits(run("steering", json!({})), "skill.run");
    raised(&id);
    // However it is run: by its own route, by name in a run, streamed.
    let named = json!({ "skill": "team/steering" });
    let by_name = waits(server.ask(Some(&ada), "POST", "/v1/run", Some(&named)), "skill.run");
    raised(&by_name);
    let streamed = server.ask(Some(&ada), "POST", "/v1/run/stream", Some(&named));
    raised(&waits(streamed, "skill.run"));
    let _ = decide(&server, &eve, &id, "approve", json!({})).status(200);
    let ran = run("steering", json!({ "action": id })).status(200).json();
    assert_eq!(ran["stdout"], "said\n", "it raises the level, and blocks nothing by itself: {ran}");
}
