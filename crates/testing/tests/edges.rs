//! Which crate may use which, and which may use `unsafe`: the table in ARCHITECTURE.md is the rule, and the manifests
//! are held to it in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// The one crate with lints of its own.
const UNSAFE_CRATE: &str = "linux";
/// A crate of ours by its package name: `ringfence-policy` is `policy`.
const PREFIX: &str = "ringfence-";
const BEGIN: &str = "<!-- edges: checked by crates/testing/tests/edges.rs -->";
const END: &str = "<!-- /edges -->";

type Edges = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// Every crate by the name of its directory, with its manifest. `bench` is one of them.
fn manifests() -> BTreeMap<String, Table> {
    let entries = fs::read_dir(root().join("crates")).expect("the crates directory");
    let directories = entries.flatten().map(|entry| entry.path()).chain([root().join("bench")]);
    directories
        .filter(|directory| directory.join("Cargo.toml").is_file())
        .map(|directory| {
            let name = directory.file_name().expect("a name").to_string_lossy().into_owned();
            let manifest = directory.join("Cargo.toml");
            let table =
                read(&manifest).parse().unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
            (name, table)
        })
        .collect()
}

/// The crates of ours in a section; build dependencies and those of one target count like ordinary ones.
fn own_dependencies(manifest: &Table) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    tables
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|section| table.get(section)))
        .flatten()
        .filter_map(Value::as_table)
        .flat_map(Table::keys)
        .filter_map(|name| name.strip_prefix(PREFIX))
        .map(str::to_owned)
        .collect()
}

/// The rows of the table between the marks: `| crate | uses |`, where a dash is nothing.
fn documented(text: &str) -> Edges {
    let (_, rest) = text.split_once(BEGIN).expect("the mark that begins the table");
    let (table, _) = rest.split_once(END).expect("the mark that ends the table");
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, uses, ..] = cells[..] else { panic!("a row needs two cells: {row}") };
        let plain = |cell: &str| cell.trim().trim_matches('`').to_owned();
        let uses = uses.split(',').map(plain).filter(|name| !name.is_empty() && name != "-").collect();
        (plain(name), uses)
    })
    .collect()
}

#[test]
fn the_crates_use_what_the_architecture_says_and_nothing_else() {
    let actual: Edges =
        manifests().iter().map(|(name, manifest)| (name.clone(), own_dependencies(manifest))).collect();
    let expected = documented(&read(&root().join("ARCHITECTURE.md")));
    let mut differences = Vec::new();
    for name in actual.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
        match (actual.get(name), expected.get(name)) {
            (Some(has), Some(may)) if has == may => {}
            (has, may) => {
                differences.push(format!("{name}: the manifest says {has:?}, ARCHITECTURE.md {may:?}"))
            }
        }
    }
    assert!(differences.is_empty(), "crate edges differ:\n  {}", differences.join("\n  "));
}

#[test]
fn the_edges_have_no_cycle() {
    let mut left: Edges =
        manifests().iter().map(|(name, manifest)| (name.clone(), own_dependencies(manifest))).collect();
    loop {
        let leaves: BTreeSet<String> =
            left.iter().filter(|(_, uses)| uses.is_empty()).map(|(name, _)| name.clone()).collect();
        if leaves.is_empty() {
            break;
        }
        left.retain(|name, _| !leaves.contains(name));
        for uses in left.values_mut() {
            uses.retain(|name| !leaves.contains(name));
        }
    }
    assert!(left.is_empty(), "these use each other: {left:?}");
}

#[test]
fn unsafe_is_forbidden_in_every_crate_but_one() {
    let workspace: Table = read(&root().join("Cargo.toml")).parse().expect("the workspace manifest");
    assert_eq!(workspace["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
    for (name, manifest) in manifests() {
        let inherits = manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .and_then(Value::as_bool)
            .unwrap_or(false);
        assert_eq!(
            inherits,
            name != UNSAFE_CRATE,
            "{name}: [lints] workspace = true is for all but {UNSAFE_CRATE}"
        );
    }
    let lints = &manifests()[UNSAFE_CRATE]["lints"];
    assert_eq!(lints["clippy"]["undocumented_unsafe_blocks"].as_str(), Some("deny"));
    assert_eq!(lints["rust"]["unsafe_op_in_unsafe_fn"].as_str(), Some("deny"));
}

#[test]
fn the_test_probe_is_in_no_product_crate() {
    for (name, manifest) in manifests() {
        let asks = manifest
            .get("dependencies")
            .and_then(|dependencies| dependencies.get("ringfence-linux"))
            .and_then(|linux| linux.get("features"))
            .is_some();
        assert_eq!(asks, name == "testing", "{name}: the `probe` feature of linux is for tests only");
        assert!(
            !own_dependencies(&manifest).contains("testing"),
            "{name} must not depend on the test harness"
        );
    }
}

#[test]
fn policy_is_pure() {
    let manifest = &manifests()["policy"];
    let dependencies = manifest["dependencies"].as_table().expect("dependencies");
    for name in ["rustix", "libc", "tempfile", "jiff", "landlock"] {
        assert!(
            !dependencies.contains_key(name),
            "policy does no I/O and knows no clock, so it can't need {name}"
        );
    }
}
