//! A manifest as JSON for other programs.

use serde_json::{Map, Value};

use super::Manifest;

/// As `skills-ref read-properties` prints it: only the fields of the specification, only those that are there, and
/// `allowed-tools` as it was written. Nested metadata stays JSON, where the reference prints it as Python would.
pub fn properties(manifest: &Manifest) -> Value {
    let mut properties = Map::new();
    let mut put = |key: &str, value: Value| properties.insert(key.to_owned(), value);
    put("name", manifest.name.clone().into());
    put("description", manifest.description.clone().into());
    let texts = [("license", &manifest.license), ("compatibility", &manifest.compatibility)];
    for (key, text) in texts {
        // What is not text was kept among the extra keys.
        let value = text.clone().map(Value::String).or_else(|| manifest.extra.get(key).cloned());
        value.map(|value| put(key, value));
    }
    if let Some(written) = &manifest.allowed_tools_written {
        put("allowed-tools", written.clone());
    }
    if !manifest.metadata.is_empty() {
        put("metadata", Value::Object(manifest.metadata.clone()));
    } else if let Some(other) = manifest.extra.get("metadata").filter(|other| *other != "") {
        put("metadata", other.clone());
    }
    Value::Object(properties)
}
