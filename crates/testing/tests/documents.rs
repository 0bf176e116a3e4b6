//! The documents are true where that can be checked: links lead somewhere, and the reference of the policy file has an
//! example for every key and for none that doesn't exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

fn markdown_in(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("list {}: {error}", directory.display()));
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The targets of `[text](target)`, less the addresses and the anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for directory in [root(), root().join("docs"), root().join("docs/adr")] {
        for document in markdown_in(&directory) {
            let text = read(&document);
            let dead = links(&text).filter(|target| !directory.join(target).exists());
            broken.extend(dead.map(|target| format!("{} -> {target}", document.display())));
        }
    }
    assert!(broken.is_empty(), "links to nothing:\n  {}", broken.join("\n  "));
}

/// `section.key` for every key of the schema.
fn schema_keys() -> BTreeSet<String> {
    let schema: Value =
        serde_json::from_str(&read(&root().join("docs/policy.schema.json"))).expect("the schema");
    let mut keys = BTreeSet::new();
    for (name, value) in schema["properties"].as_object().expect("properties") {
        let section = value["$ref"].as_str().and_then(|link| link.strip_prefix("#/$defs/"));
        match section.and_then(|section| schema["$defs"][section]["properties"].as_object()) {
            Some(properties) => keys.extend(properties.keys().map(|key| format!("{name}.{key}"))),
            None => {
                keys.insert(name.clone());
            }
        }
    }
    keys
}

/// The keys that the examples of a document set. Each example is a whole file.
fn example_keys(text: &str) -> BTreeSet<String> {
    let examples = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut keys = BTreeSet::new();
    for example in examples {
        let table: toml::Table = example.parse().unwrap_or_else(|error| panic!("{error} in:\n{example}"));
        for (name, value) in table {
            match value.as_table() {
                Some(section) => keys.extend(section.keys().map(|key| format!("{name}.{key}"))),
                None => {
                    keys.insert(name);
                }
            }
        }
    }
    keys
}

#[test]
fn every_key_of_the_policy_has_an_example() {
    let (keys, shown) = (schema_keys(), example_keys(&read(&root().join("docs/policy.md"))));
    assert!(keys.len() > 25, "the schema has lost its keys: {keys:?}");
    assert_eq!(keys.difference(&shown).collect::<Vec<_>>(), Vec::<&String>::new(), "keys without an example");
    assert_eq!(shown.difference(&keys).collect::<Vec<_>>(), Vec::<&String>::new(), "examples of no key");
}
