//! What others wrote, on the terminal of whoever decides: nothing in it is hidden, moves the cursor or reads another way than it is;
//! and what is secret in it is not shown.

use ringfence_testing::{Scene, Test};
use serde_json::json;

use crate::actions::{STEERING, run, waiting};
use crate::{scene, server};

const HIDING: &str = "echo a\u{9b}2J\u{202e}cba\u{200b}\u{7f} # x";

fn told(scene: &Scene, words: &[&str]) -> String {
    let outcome = Test::in_scene(scene).verb(words.iter().copied()).call();
    assert_eq!(outcome.exit, 0, "{}", outcome.describe());
    outcome.output
}

#[track_caller]
fn assert_plain(what: &str, text: &str) {
    let hidden = |letter: &char| {
        letter.is_control() && !matches!(letter, '\n' | '\t')
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found: Vec<char> = text.chars().filter(hidden).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
}

#[test]
fn nothing_of_others_is_hidden_from_whoever_reads_it() {
    let scene = scene();
    let server = server(&scene);
    let key = server.key("ada", "operator");
    let body = json!({
        "command": ["sh", "-c", HIDING, STEERING], "env": { "MODE": "x\u{202e}y" },
        "files": [{ "path": "a\u{202e}b.txt", "content": "\u{9b}31mred\u{2066}" }],
    });
    let id = waiting(&server, &key, &body);
    for words in [
        &["actions", "show", &id][..],
        &["actions", "show", &id, "--json"],
        &["actions", "ls"],
        &["actions", "ls", "--json"],
        &["audit", "ls"],
        &["audit", "ls", "--json"],
    ] {
        let text = told(&scene, words);
        assert_plain(&words.join(" "), &text);
    }
    let shown = told(&scene, &["actions", "show", &id]);
    assert!(shown.contains("\\u009b") && shown.contains("\\u202e"), "what is there is said: {shown}");
    assert_plain("approve", &told(&scene, &["actions", "approve", &id]));
}

#[test]
fn what_looks_like_a_credential_is_masked_in_what_is_shown_and_kept() {
    let scene = scene();
    let server = server(&scene);
    let (key, eve) = (server.key("ada", "operator"), server.key("eve", "approver"));
    let body = json!({
        "command": ["sh", "-c", "echo $2 $4", STEERING, "--password", "hunter22", "-x", "-phunter33", "mysql", "-phunter44"],
    });
    let action = run(&server, &key, &body).status(202).json();
    let id = action["id"].as_str().expect("an id");
    let secret = ["hunter22"];
    let clean = |what: &str, text: &str| {
        for secret in secret {
            assert!(!text.contains(secret), "{what}: {secret} in {text}");
        }
    };
    clean("the answer", &action.to_string());
    assert!(action["request"]["command"].to_string().contains("--password"), "{action}");
    let listed = server.ask(Some(&eve), "GET", &format!("/v1/actions/{id}"), None).status(200);
    clean("to who decides", &String::from_utf8_lossy(&listed.body));
    clean("the command line", &told(&scene, &["actions", "show", id]));
    // What runs is what was asked for.
    let _ = crate::actions::decide(&server, &eve, id, "approve", json!({})).status(200);
    let ran = run(&server, &key, &crate::actions::with_action(&body, id)).status(200).json();
    assert!(ran["stdout"].as_str().is_some_and(|text| text.contains("hunter22")), "{ran}");
    let mysql = json!({ "command": ["echo", "mysql", "-u", "root", "-phunter55"] });
    let mysql_itself = json!({ "command": ["mysql", "-u", "root", "-phunter66"] });
    let _ = run(&server, &key, &mysql).status(200);
    let _ = run(&server, &key, &mysql_itself).status(200);
    let root = server.key("root", "admin");
    let audit = server.ask(Some(&root), "GET", "/v1/audit?limit=1000", None).status(200);
    let audit = String::from_utf8_lossy(&audit.body).into_owned();
    assert!(!audit.contains("hunter22") && !audit.contains("hunter66"), "{audit}");
    drop(server);
    for file in ["server.db", "server.db-wal", "denials.jsonl"] {
        let path = scene.state().join(file);
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("hunter22") && !text.contains("hunter66"), "{file} has it");
    }
}
