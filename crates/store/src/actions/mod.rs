//! Actions: what somebody wants to run, how dangerous it is, who decided what, and what came of it.
//!
//! `waiting → approved | denied | cancelled | expired`, `approved → running | cancelled | expired`, `running → done | failed`. Each
//! step is taken once, in one transaction with the event that tells of it.

mod events;
mod list;
mod steps;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use crate::page::{json, optional_json, optional_word, word};
use crate::words::words;

pub use events::ActionEvent;

words! {
    /// Ordered: critical is more than high.
    #[derive(PartialOrd, Ord)]
    pub enum Level ("security level") {
        Low = "low",
        Medium = "medium",
        High = "high",
        Critical = "critical",
    }
}

impl Level {
    /// Nobody decides on their own action of such a level.
    pub fn needs_another_person(self) -> bool {
        self >= Self::High
    }
}

words! {
    pub enum ActionState ("state of an action") {
        Waiting = "waiting",
        Approved = "approved",
        Denied = "denied",
        Cancelled = "cancelled",
        Expired = "expired",
        Running = "running",
        Done = "done",
        Failed = "failed",
    }
}

impl ActionState {
    /// Nothing follows.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Approved | Self::Running)
    }
}

words! {
    pub enum Decision ("decision") {
        Approve = "approve",
        Deny = "deny",
    }
}

impl Decision {
    pub(crate) fn state(self) -> ActionState {
        match self {
            Self::Approve => ActionState::Approved,
            Self::Deny => ActionState::Denied,
        }
    }
}

words! {
    /// How long an approval holds.
    pub enum Scope ("scope") {
        Once = "once",
        Session = "session",
        Hour = "hour",
        Always = "always",
    }
}

words! {
    /// How what ran has ended.
    pub enum Outcome ("outcome") {
        Done = "done",
        Failed = "failed",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRow {
    pub id: String,
    pub user: String,
    pub kind: String,
    pub level: Level,
    pub state: ActionState,
    pub summary: String,
    pub request: Value,
    /// Of exactly what would run.
    pub digest: String,
    /// Why it is of this level.
    pub reasons: Vec<String>,
    pub created: i64,
    pub expires: i64,
    pub decided_by: Option<String>,
    pub decided_at: Option<i64>,
    pub decided_why: Option<String>,
    pub scope: Option<Scope>,
    pub finished: Option<i64>,
    pub result: Option<Value>,
}

#[derive(Debug, Clone)]
pub struct NewAction {
    /// A UUIDv7: lists are in the order of ids.
    pub id: String,
    pub user: String,
    pub kind: String,
    pub level: Level,
    pub summary: String,
    pub request: Value,
    pub digest: String,
    pub reasons: Vec<String>,
    pub expires: i64,
    /// `None` waits for a person.
    pub decided: Option<RuleDecision>,
}

/// What a rule of the policy file, or an approval that is remembered, decided at once.
#[derive(Debug, Clone)]
pub struct RuleDecision {
    pub decision: Decision,
    /// The rule, or who gave the approval that is remembered.
    pub by: String,
    pub why: Option<String>,
    pub scope: Option<Scope>,
}

/// Newest first; `after` is the id of the last one of the page before.
#[derive(Debug, Clone, Default)]
pub struct ActionFilter {
    pub user: Option<String>,
    pub state: Option<ActionState>,
    pub after: Option<String>,
    pub limit: u32,
}

impl FromRow<'_, SqliteRow> for ActionRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let reasons = serde_json::from_value(json(row, "reasons")?).map_err(|error| {
            sqlx::Error::ColumnDecode { index: "reasons".into(), source: Box::new(error) }
        })?;
        Ok(Self {
            id: row.try_get("id")?,
            user: row.try_get("user_name")?,
            kind: row.try_get("kind")?,
            level: word(row, "level")?,
            state: word(row, "state")?,
            summary: row.try_get("summary")?,
            request: json(row, "request")?,
            digest: row.try_get("digest")?,
            reasons,
            created: row.try_get("created")?,
            expires: row.try_get("expires")?,
            decided_by: row.try_get("decided_by")?,
            decided_at: row.try_get("decided_at")?,
            decided_why: row.try_get("decided_why")?,
            scope: optional_word(row, "scope")?,
            finished: row.try_get("finished")?,
            result: optional_json(row, "result")?,
        })
    }
}
