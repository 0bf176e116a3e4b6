//! The JSON Schema of a policy file, made from the `Layer` type.
//!
//! `docs/policy.schema.json` is its committed copy; `UPDATE_SCHEMA=1 cargo test -p ringfence-policy` writes it.

use serde_json::Value;

use crate::actions::ActionsFile;
use crate::layer::Layer;

/// The JSON Schema that a policy file (as JSON, or TOML taken as JSON) must meet.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Layer);
    schema.insert("title".to_owned(), "Ringfence policy".into());
    let mut value = schema.to_value();
    without_null(&mut value);
    value
}

/// The same for the `[actions]` of a server's configuration; its committed copy is `docs/actions.schema.json`.
pub fn actions_schema() -> Value {
    let mut schema = schemars::schema_for!(ActionsFile);
    schema.insert("title".to_owned(), "Ringfence actions".into());
    let mut value = schema.to_value();
    without_null(&mut value);
    value
}

/// An optional key may be left out, but not be null: the schema generator takes the two for the same.
fn without_null(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    object["type"] = only.clone();
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    object.extend(only);
                }
            }
            object.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_may_be_null() {
        assert!(!super::json_schema().to_string().contains("\"null\""));
        assert!(!super::actions_schema().to_string().contains("\"null\""));
    }
}
