//! `sandbox_diff`, `sandbox_snapshot`, `sandbox_restore`: what a session changed, and the way back.

use ringfence_service::{Places, Since, list_snapshots, session_changes};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Call, parsed};
use crate::blocking;
use crate::error::{Answer, ApiError};
use crate::mcp::answer::told;
use crate::mcp::client::AnswerLimit;
use crate::mcp::cut::head_and_tail;

/// Beyond these a list says nothing more.
const MOST_CHANGES: usize = 200;
const LONGEST_NAME: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffInput {
    session: Option<String>,
    /// A snapshot of this session; without one, since its start.
    since: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DiffOutput {
    /// Path, and what happened to it.
    changes: Vec<Value>,
    /// As `git diff` writes it.
    diff: String,
    truncated: bool,
}

pub(super) async fn diff(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let DiffInput { session, since } = parsed(arguments)?;
    let session = call.connection.living(&call.host, session.as_deref()).await?;
    let (places, name) = call.host.places_of(&session).await?;
    let changes = blocking(move || {
        let since = match since {
            Some(wanted) => Since::Snapshot(snapshot_of(&places, &name, &wanted)?),
            None => Since::Start,
        };
        session_changes(&places, &name, &since).map_err(|error| {
            let mut error = ApiError::from(error);
            if since == Since::Start {
                error.hint =
                    "take one with sandbox_snapshot before the work and name it as `since`, or make the \
                              session with `overlay`"
                        .into();
            }
            error
        })
    })
    .await?;
    let limit = AnswerLimit { bytes: call.limit.bytes / 2, ..call.limit };
    let (diff, cut) = head_and_tail(&String::from_utf8_lossy(&changes.text), limit);
    let fits = MOST_CHANGES.min(call.limit.bytes / 200);
    let truncated = cut || changes.changes.len() > fits;
    let changes = changes
        .changes
        .iter()
        .take(fits)
        .map(|one| json!({ "path": one.path, "change": one.change }))
        .collect();
    told(&DiffOutput { changes, diff, truncated })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotInput {
    session: Option<String>,
    name: Option<String>,
}

pub(super) async fn snapshot(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let SnapshotInput { session, name } = parsed(arguments)?;
    call.host.may_change()?;
    if name.as_ref().is_some_and(|name| name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0')) {
        return Err(ApiError::bad("that is no name for a snapshot", "give one of 1 to 64 bytes, or none"));
    }
    let session = call.connection.living(&call.host, session.as_deref()).await?;
    told(&call.host.snapshot(&session, name).await?)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreInput {
    /// Its id or name.
    snapshot: String,
    session: Option<String>,
    /// Of this same call, once approved.
    action: Option<String>,
}

pub(super) async fn restore(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let RestoreInput { snapshot, session, action } = parsed(arguments)?;
    call.host.may_change()?;
    let session = call.connection.living(&call.host, session.as_deref()).await?;
    let (places, name) = call.host.places_of(&session).await?;
    let id = blocking(move || snapshot_of(&places, &name, &snapshot)).await?;
    let action = call.connection.claim(action).await;
    told(&call.host.restore(&session, id, action).await?)
}

/// The id of a snapshot of this session, by id or name, the newest first. Others' are not there.
fn snapshot_of(places: &Places, session: &str, wanted: &str) -> Answer<String> {
    let (rows, _) = list_snapshots(places)?;
    let mut own = rows.into_iter().filter(|row| row.facts.session == session);
    let found = own.find(|row| row.facts.name == wanted || row.id == wanted);
    found.map(|row| row.id).ok_or_else(|| {
        ApiError::new(
            axum::http::StatusCode::NOT_FOUND,
            "no_snapshot",
            format!("there is no snapshot `{}` of this session", wanted.escape_debug()),
            "take one with sandbox_snapshot; one of another session can't be used here",
        )
    })
}
