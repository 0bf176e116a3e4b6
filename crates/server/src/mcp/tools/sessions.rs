//! `sandbox_session_*`: sandboxes that stay.

use std::collections::BTreeMap;

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::{checked, span};
use super::{Call, parsed};
use crate::error::{Answer, ApiError};
use crate::mcp::answer::told;
use crate::mcp::host::{NetworkWish, SessionShown, SessionWish, Wish};

/// With what stands before it, a session's name has 64.
const LONGEST_NAME: usize = 40;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateInput {
    /// a-z, 0-9, `-`, `_` and `.`; with one it lives on after this connection, for 24 hours or `ttl_ms`.
    name: Option<String>,
    /// restrictive, moderate or permissive; at most what the user allows.
    profile: Option<String>,
    /// Its system directories in place of the host's; one that the user allows.
    image: Option<String>,
    network: Option<NetworkWish>,
    /// Begin from the defaults of claude-code, codex or gemini.
    compat: Option<String>,
    /// Writes are kept apart from the real workspace: see them with sandbox_diff.
    #[serde(default)]
    overlay: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Only with a name.
    #[schemars(range(min = 1))]
    ttl_ms: Option<u64>,
    /// Of this same call, once approved.
    action: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CreateOutput {
    session: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

pub(super) async fn create(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: CreateInput = parsed(arguments)?;
    checked(&input.env, None)?;
    if let Some(name) = &input.name {
        check_name(name)?;
    }
    if input.name.is_none() && input.ttl_ms.is_some() {
        return Err(ApiError::bad(
            "a session without a name ends with this connection",
            "give it a `name`, or leave `ttl_ms` out",
        ));
    }
    let named = input.name.clone();
    let wish = SessionWish {
        name: input.name,
        wish: Wish {
            compat: input.compat,
            profile: input.profile,
            image: input.image,
            network: input.network,
            granted: call.granted,
        },
        overlay: input.overlay,
        variables: input.env,
        ttl: input.ttl_ms.map(span),
        action: input.action,
    };
    let (session, notes) = call.host.create(wish).await?;
    if named.is_none() {
        call.connection.remember(&call.host, &session);
    }
    told(&CreateOutput { session: named.unwrap_or(session), notes })
}

fn check_name(name: &str) -> Answer<()> {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let more = |byte: u8| first(byte) || b"._-".contains(&byte);
    if name.len() <= LONGEST_NAME && name.bytes().next().is_some_and(first) && name.bytes().all(more) {
        return Ok(());
    }
    Err(ApiError::bad(
        format!("`{}` is no name for a session", name.escape_debug()),
        "use up to 40 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit",
    ))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListInput {}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListOutput {
    sessions: Vec<SessionShown>,
}

pub(super) async fn list(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let ListInput {} = parsed(arguments)?;
    told(&ListOutput { sessions: call.host.list().await? })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CloseInput {
    session: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CloseOutput {
    closed: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

pub(super) async fn close(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let CloseInput { session } = parsed(arguments)?;
    let notes = call.host.close(&session).await?;
    call.connection.forget(&session).await;
    told(&CloseOutput { closed: session, notes })
}
