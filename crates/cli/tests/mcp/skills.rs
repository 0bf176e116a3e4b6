//! Skills: found, read, run and drafted by a model; and as the Skills extension and prompts for its client.

use ringfence_testing::{Scene, Test};
use serde_json::{Value, json};

use crate::client::Client;
use crate::scene;

const MANIFEST: &str = "---\nname: counter\ndescription: Counts the lines of a text file. Use it for line counts.\nlicense: MIT\nmetadata:\n  version: 1.10\n  text: \"1.10\"\n  ready: true\nx-own: kept\n---\n\nRun scripts/count.sh FILE.\n";
const SCRIPT: &str = "#!/bin/sh\nwc -l < \"$1\"\n";

/// A library with one skill, `docs/counter`.
pub(crate) fn with_library(scene: &Scene) {
    use std::os::unix::fs::PermissionsExt;
    scene.write("source/counter/SKILL.md", MANIFEST);
    scene.write("source/counter/scripts/count.sh", SCRIPT);
    let script = scene.path("source/counter/scripts/count.sh");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let source = scene.path("source/counter").display().to_string();
    let added = Test::in_scene(scene).verb(["skill", "add"]).args([&source, "--domain", "docs"]).call();
    assert_eq!(added.exit, 0, "{}", added.describe());
}

#[test]
fn a_skill_is_found_read_and_run() {
    let scene = scene();
    with_library(&scene);
    scene.write("ws/lines.txt", "a\nb\nc\n");
    let mut client = Client::start(&scene);
    let found = client.call("skill_search", json!({ "query": "count lines" }));
    assert_eq!(found["skills"][0]["skill"], "docs/counter", "{found}");
    let read = client.call("skill_read", json!({ "skill": "counter" }));
    assert_eq!((&read["content"], &read["skill"]), (&json!(MANIFEST), &json!("docs/counter")));
    let script = client.call("skill_read", json!({ "skill": "docs/counter", "file": "scripts/count.sh" }));
    assert_eq!(script["content"], SCRIPT);
    for file in ["../../../../server.db", "/etc/passwd", "none"] {
        let refused = client.refusal("skill_read", json!({ "skill": "counter", "file": file }));
        assert!(!refused.to_string().contains("root:"), "{refused}");
    }
    let run = client.call("skill_run", json!({ "skill": "counter", "args": ["lines.txt"] }));
    assert_eq!((&run["exit_code"], run["stdout"].as_str().map(str::trim)), (&json!(0), Some("3")), "{run}");
    assert_eq!(run["skill"]["name"], "counter", "{run}");
    // The library is in every sandbox too, read-only.
    let inside = client.call(
        "sandbox_run",
        json!({ "command": "sh /skills/counter/scripts/count.sh lines.txt; echo x > /skills/docs/counter/x" }),
    );
    assert!(inside["stdout"].as_str().unwrap().starts_with('3'), "{inside}");
    assert_ne!(inside["exit_code"], 0);
    let checked = client.call("skill_validate", json!({ "skill": "counter" }));
    assert_eq!(checked["valid"], false, "an unknown field is not as the specification says: {checked}");
}

#[test]
fn a_draft_is_written_to_the_workspace_and_checked() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let made = client.call(
        "skill_create",
        json!({
            "name": "greet", "description": "Greets. Use it to greet.", "instructions": "Run scripts/hi.sh.",
            "files": { "scripts/hi.sh": "#!/bin/sh\necho hi\n" },
        }),
    );
    assert_eq!((&made["path"], &made["valid"]), (&json!("skills/greet"), &json!(true)), "{made}");
    assert!(scene.read("ws/skills/greet/SKILL.md").unwrap().contains("name: greet"));
    assert_eq!(
        client.call("sandbox_run", json!({ "command": "skills/greet/scripts/hi.sh" }))["stdout"],
        "hi\n"
    );
    assert_eq!(client.call("skill_validate", json!({ "path": "skills/greet" }))["valid"], true);
    client.call(
        "sandbox_file_edit",
        json!({ "path": "skills/greet/SKILL.md", "old": "name: greet", "new": "name: Bad" }),
    );
    let checked = client.call("skill_validate", json!({ "path": "skills/greet" }));
    assert_eq!(checked["valid"], false, "{checked}");
    // No library was touched.
    assert_eq!(client.call("skill_search", json!({ "query": "greet" }))["skills"], json!([]));
}

#[test]
fn skills_are_offered_to_clients_with_digests_and_as_prompts() {
    let scene = scene();
    with_library(&scene);
    let mut client = Client::start(&scene);
    let listed = client.ask("skills/list", json!({}))["result"].clone();
    assert_eq!(
        (&listed["resultType"], &listed["cacheScope"]),
        (&json!("complete"), &json!("private")),
        "{listed}"
    );
    let skill = &listed["skills"][0];
    assert_eq!(skill["uri"], "skill://docs/counter/SKILL.md");
    assert_eq!(
        skill["frontmatter"],
        json!({
            "name": "counter", "description": "Counts the lines of a text file. Use it for line counts.",
            "license": "MIT", "x-own": "kept",
            // As a host reads it from the file: else it would not load the skill.
            "metadata": { "version": 1.1, "text": "1.10", "ready": true },
        })
    );
    let got = client.ask("skills/get", json!({ "uri": skill["uri"] }))["result"]["skill"].clone();
    assert_eq!(got, *skill);
    let files = skill["resources"].as_array().expect("files").clone();
    assert_eq!(files.len(), 2);
    for file in &files {
        let read = client.ask("resources/read", json!({ "uri": file["uri"] }));
        let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
        assert_eq!(file["size"], text.len());
        assert_eq!(file["digest"], format!("sha256:{}", sha256(text)));
    }
    for uri in
        ["skill://docs/none/SKILL.md", "skill://docs/counter/scripts/count.sh", "file:///etc/passwd", ""]
    {
        assert_eq!(client.ask("skills/get", json!({ "uri": uri }))["error"]["code"], -32602, "{uri}");
    }
    let code = |answer: Value| answer["error"]["code"].clone();
    for uri in [
        "skill://docs/counter/../../../server.db",
        "skill://../../etc/passwd",
        "skill://docs/counter/%2e%2e/x",
    ] {
        assert_eq!(code(client.ask("resources/read", json!({ "uri": uri }))), -32002, "{uri}");
    }
    let resources = client.ask("resources/list", json!({}));
    assert_eq!(resources["result"]["resources"][0]["uri"], "skill://docs/counter/SKILL.md", "{resources}");
    let prompts = client.ask("prompts/list", json!({}));
    assert_eq!(prompts["result"]["prompts"][0]["name"], "docs/counter", "{prompts}");
    let prompt =
        client.ask("prompts/get", json!({ "name": "docs/counter", "arguments": { "task": "count it" } }));
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().expect("a prompt");
    assert!(text.contains("Run scripts/count.sh FILE.") && text.ends_with("The task: count it"), "{text}");
}

/// By another program than ours.
fn sha256(text: &str) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child =
        Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha256sum");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}
