//! The committed JSON Schema is the one that the code makes.

use std::path::Path;

#[test]
fn the_committed_schemas_are_current() {
    for (name, schema) in [
        ("policy.schema.json", ringfence_policy::json_schema()),
        ("actions.schema.json", ringfence_policy::actions_schema()),
    ] {
        is_current(name, &schema);
    }
}

fn is_current(name: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let made = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some_and(|value| value == "1") {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/{name} is out of date, run `UPDATE_SCHEMA=1 cargo test -p ringfence-policy --test schema`"
    );
}

#[test]
fn the_schema_refuses_unknown_keys_in_every_section() {
    let schema = ringfence_policy::json_schema();
    assert_eq!(schema["additionalProperties"], false);
    let sections = schema["$defs"].as_object().unwrap().iter().filter(|(name, _)| name.ends_with("Layer"));
    let mut count = 0;
    for (name, section) in sections {
        assert_eq!(section["additionalProperties"], false, "{name}");
        count += 1;
    }
    assert_eq!(count, 6);
}
