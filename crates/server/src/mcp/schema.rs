//! Schemas of tools from the types that are parsed and written, without what costs a model's context and says nothing.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Value, json};

use super::answer::{Refused, Waiting};

/// What a tool takes.
pub(super) fn input<T: JsonSchema>() -> Arc<JsonObject> {
    let mut object = plain::<T>(Contract::Deserialize);
    object.entry("properties").or_insert_with(|| json!({}));
    Arc::new(object)
}

/// What a tool answers: that, why nothing came of it, or for which action it waits.
pub(super) fn output<T: JsonSchema>() -> Arc<JsonObject> {
    let mut object = plain::<T>(Contract::Serialize);
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    properties["error"] = Value::Object(plain::<Refused>(Contract::Serialize));
    for name in ["state", "action"] {
        if properties.get(name).is_none() {
            properties[name] = json!({ "type": "string" });
        }
    }
    if let Some(required) = object.remove("required") {
        let waits = json!({ "required": ["state", "action"], "properties": { "state": { "const": Waiting::STATE } } });
        object.insert("anyOf".into(), json!([{ "required": required }, { "required": ["error"] }, waits]));
    }
    object.remove("additionalProperties");
    Arc::new(object)
}

fn plain<T: JsonSchema>(contract: Contract) -> JsonObject {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.contract = contract;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// Titles are the names again, formats are Rust's, and a field that may be left out need not be null.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("title");
            object.remove("format");
            object.remove("$schema");
            if object.get("default").is_some_and(|default| default.is_null() || *default == json!(false)) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|one| one != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    object.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|one| one.get("type") != Some(&json!("null")));
                if choices.len() == 1
                    && let Some(Value::Object(only)) = choices.pop()
                {
                    object.remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            // Properties may have these names too: only what is below them is looked at.
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                properties.values_mut().for_each(simplify);
            }
            for key in ["items", "additionalProperties", "anyOf", "oneOf", "allOf"] {
                match object.get_mut(key) {
                    Some(Value::Array(each)) => each.iter_mut().for_each(simplify),
                    Some(one) => simplify(one),
                    None => {}
                }
            }
        }
        Value::Array(each) => each.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Example {
        /// Said.
        title: Option<String>,
        count: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        inner: Option<Inner>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Inner {
        #[serde(default)]
        on: bool,
    }

    #[test]
    fn nothing_but_what_says_something() {
        assert_eq!(
            json!(*input::<Example>()),
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "title": { "type": "string", "description": "Said." },
                    "count": { "type": "integer", "minimum": 0 },
                    "inner": { "type": "object", "properties": { "on": { "type": "boolean" } } },
                },
                "required": ["count"],
            })
        );
        let answer = json!(*output::<Example>());
        let waits = json!({
            "required": ["state", "action"],
            "properties": { "state": { "const": "waiting_for_approval" } },
        });
        assert_eq!(
            answer["anyOf"],
            json!([{ "required": ["title", "count"] }, { "required": ["error"] }, waits])
        );
        assert_eq!(answer["properties"]["error"]["required"], json!(["code", "message", "hint"]));
    }
}
