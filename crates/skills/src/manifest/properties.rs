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
    // What does not have the form of the specification was kept among the extra keys.
    let texts = [("license", &manifest.license), ("compatibility", &manifest.compatibility)];
    for (key, text) in texts {
        let value = text.clone().map(Value::String).or_else(|| manifest.extra.get(key).cloned());
        value.map(|value| put(key, value));
    }
    let tools = Some(manifest.allowed_tools.join(" ")).filter(|tools| !tools.is_empty());
    if let Some(tools) = manifest.extra.get("allowed-tools").cloned().or(tools.map(Value::String)) {
        put("allowed-tools", tools);
    }
    if !manifest.metadata.is_empty() {
        put("metadata", Value::Object(manifest.metadata.clone()));
    } else if let Some(other) = manifest.extra.get("metadata").filter(|other| *other != "") {
        put("metadata", other.clone());
    }
    Value::Object(properties)
}
