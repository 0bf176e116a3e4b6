//! `approval_*`: calls that wait for a person. They are the caller's own, also for those who could decide on others'.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parsed;
use crate::error::{Answer, ApiError};
use crate::mcp::answer::told;
use crate::mcp::served::Served;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListInput {}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListOutput {
    /// The newest first.
    waiting: Vec<Shown>,
}

/// What is told of an action, from what the API says of it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Shown {
    #[serde(alias = "id")]
    action: String,
    /// waiting, approved, denied, cancelled, expired, running, done or failed
    state: String,
    kind: String,
    level: String,
    summary: String,
    reasons: Vec<String>,
    /// Milliseconds since 1970.
    expires: i64,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_why: Option<String>,
}

fn shown(action: Value) -> Answer<Shown> {
    serde_json::from_value(action).map_err(|error| ApiError::internal("understand an action", error))
}

pub(super) async fn list(served: &Served, arguments: Value) -> Answer<CallToolResult> {
    let ListInput {} = parsed(arguments)?;
    let waiting = served.waiting_actions().await?.into_iter().map(shown).collect::<Answer<_>>()?;
    told(&ListOutput { waiting })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusInput {
    action: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StatusOutput {
    #[serde(flatten)]
    shown: Shown,
    /// What to do now.
    next: &'static str,
}

pub(super) async fn status(served: &Served, arguments: Value) -> Answer<CallToolResult> {
    let StatusInput { action } = parsed(arguments)?;
    let shown = shown(served.action(&action).await?)?;
    let next = match shown.state.as_str() {
        "waiting" => {
            "a person has not decided yet: go on with something else, or tell the user that it waits"
        }
        "approved" => "make the same call again with this `action`",
        "denied" => "do without it, or ask the user why; the same call would be denied again",
        "cancelled" | "expired" => "make the call again without `action`: it will wait anew",
        _ => "it was begun, and can't be used again",
    };
    told(&StatusOutput { shown, next })
}
