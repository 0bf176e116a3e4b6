//! The audit: who did what, what was decided, what came of it. Only ever added to, each row chained to the one before by
//! its digest, so that `verify` finds an edit, a deletion, an insertion, another order; and with an anchor a cut tail.
//!
//! What it can't show: who can change the database *and* every anchor can write another history. So keep one anchor where
//! they can't (`StoreOptions::anchors`).

mod anchor;
mod anchors;
mod append;
mod chain;
mod fold;
mod read;
mod redact;
mod spool;
mod verify;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Store;

pub use anchor::{Anchor, AuditHead};
pub(crate) use anchors::Anchors;
pub use fold::{FoldReport, TornRecord};
pub use read::{AuditFilter, ExportPage};
pub use redact::{REDACTED, redact};
pub use spool::spool_append;
pub use verify::{AuditProblem, AuditVerdict};

/// What happened. It may hold no secret: see `Audit::append_redacted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Milliseconds since 1970.
    pub at: i64,
    pub user: String,
    pub kind: String,
    pub target: Option<String>,
    pub decision: Option<String>,
    pub policy_digest: Option<String>,
    pub receipt_digest: Option<String>,
    pub denials: Value,
    pub result: Value,
    pub request_id: Option<String>,
    /// `http`, `cli`, `mcp`.
    pub origin: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    pub seq: i64,
    /// The digest of the row before; zeros for the first.
    pub previous: String,
    pub digest: String,
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// What it was known by in the spool, if it came from there.
    pub spool_id: Option<String>,
}

/// Made by `Store::audit`.
#[derive(Debug, Clone)]
pub struct Audit {
    store: Store,
}

impl Store {
    pub fn audit(&self) -> Audit {
        Audit { store: self.clone() }
    }
}
