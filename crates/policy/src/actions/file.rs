//! What a server's configuration says about actions: the `[actions]` of `server.toml`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::ActionRule;
use crate::units::Span;

/// `[actions]`, read strictly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ActionsFile {
    /// How long an action waits for a decision, and an approval for its use. An hour where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Span>,
    /// How many actions of one user may wait at a time; 64 where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
    /// In order: a `deny` that matches wins, else the first rule that matches, else what is shipped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ActionRule>,
}
