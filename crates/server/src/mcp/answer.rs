//! Answers of tools: the same data as text and as structured content, and errors that tell a model what to do.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Answer, ApiError};

/// Why nothing came of a call.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Refused {
    /// Stable: programs match on it.
    code: String,
    message: String,
    /// What to do next.
    hint: String,
}

/// Both forms of an answer hold this. Clients show their model one of them, and not all the same one.
pub(super) fn told(value: &impl Serialize) -> Answer<CallToolResult> {
    let value = serde_json::to_value(value).map_err(|error| ApiError::internal("write an answer", error))?;
    Ok(CallToolResult::structured(value))
}

/// Nothing was done yet: a person has to decide.
#[derive(Debug, Serialize)]
pub(super) struct Waiting {
    state: &'static str,
    /// For `action` of the same call, once it is approved.
    action: String,
    kind: Value,
    level: Value,
    summary: Value,
    reasons: Value,
    /// Milliseconds since 1970.
    expires: Value,
    /// What to do next.
    message: String,
    /// For the person who decides.
    how: String,
}

impl Waiting {
    pub(super) const STATE: &str = "waiting_for_approval";

    fn on(action: &Value) -> Self {
        let id = action["id"].as_str().unwrap_or_default().to_owned();
        Self {
            state: Self::STATE,
            kind: action["kind"].clone(),
            level: action["level"].clone(),
            summary: action["summary"].clone(),
            reasons: action["reasons"].clone(),
            expires: action["expires"].clone(),
            message: format!(
                "Nothing was done yet: a person has to approve this action. Tell the user that it waits and what it is \
                 for; see with approval_status whether it is approved, and then call this tool again with the same \
                 arguments and `action`: \"{id}\". Another call that does the same would wait too."
            ),
            how: format!(
                "`ringfence actions approve {id}` on the server, or POST /v1/actions/{id}/approve with the key of \
                 somebody who may decide"
            ),
            action: id,
        }
    }
}

/// Why a call came to nothing, or not yet to anything.
pub(super) fn stopped(error: ApiError) -> CallToolResult {
    match error.waits_for.as_deref().map(Waiting::on).map(|waiting| told(&waiting)) {
        Some(Ok(waiting)) => waiting,
        Some(Err(error)) => refused(error),
        None => refused(error),
    }
}

/// For the model to read: an error of the protocol would not reach it.
fn refused(error: ApiError) -> CallToolResult {
    let refused = Refused { code: error.code, message: error.message, hint: error.hint };
    CallToolResult::structured_error(json!({ "error": refused }))
}

/// What a model is told when the sandbox blocked something.
pub(super) fn advice(denials: &[Value]) -> Option<String> {
    let first = denials.first()?;
    let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
    let more = match denials.len() {
        1 => String::new(),
        more => format!(" (and {} more)", more - 1),
    };
    Some(format!(
        "The sandbox blocked `{}`{more}: {}. Trying again or another way round will be blocked too: do without it, or \
         tell the user what you need and why, so that they can allow it.",
        text("what"),
        text("rule"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_structure_are_the_same() {
        let result = told(&json!({ "a": "\"ä\n" })).unwrap();
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result.structured_content.unwrap());
        let result = refused(ApiError::bad("no", "do"));
        assert_eq!(result.is_error, Some(true));
        assert_eq!(result.structured_content.unwrap()["error"]["hint"], "do");
    }

    #[test]
    fn what_waits_is_no_error_and_says_how_it_goes_on() {
        let mut error = ApiError::bad("waits", "wait");
        error.waits_for = Some(Box::new(json!({ "id": "abc", "level": "high" })));
        let result = stopped(error);
        assert_ne!(result.is_error, Some(true));
        let told = result.structured_content.unwrap();
        assert_eq!(
            (&told["state"], &told["action"], &told["level"]),
            (&json!(Waiting::STATE), &json!("abc"), &json!("high"))
        );
        for (field, word) in [("message", "`action`: \"abc\""), ("how", "ringfence actions approve abc")] {
            assert!(told[field].as_str().unwrap().contains(word), "{told}");
        }
    }

    #[test]
    fn advice_names_what_was_blocked() {
        assert_eq!(advice(&[]), None);
        let denial = json!({ "what": "example.com:443", "rule": "network.mode = off" });
        let advice = advice(&[denial.clone(), denial]).unwrap();
        assert!(advice.contains("`example.com:443` (and 1 more): network.mode = off"), "{advice}");
    }
}
