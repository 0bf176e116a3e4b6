//! What happened, and what is going on: users, keys, sandboxes, actions, remembered decisions, answered requests and the
//! audit, in one SQLite file. SQL lives here and nowhere else, one file a table.
//!
//! Invariant: what a function has returned is there after a `kill -9` of any process at any moment. Every change that
//! depends on what was there before looks and writes in one transaction. The audit is only ever added to. No secret is kept:
//! keys are known by their hashes, and what else goes into a row is its caller's duty (`redact` helps).

mod actions;
mod audit;
mod clock;
mod decisions;
mod error;
mod files;
mod idempotency;
mod keys;
mod makers;
mod migrations;
mod page;
mod ports;
mod sandboxes;
mod store;
mod users;
mod words;

pub use actions::{
    ActionEvent, ActionFilter, ActionRow, ActionState, Decision, Level, NewAction, Outcome, RuleDecision,
    Scope,
};
pub use audit::{
    Anchor, Audit, AuditEntry, AuditFilter, AuditHead, AuditProblem, AuditRow, AuditVerdict, ExportPage,
    FoldReport, REDACTED, TornRecord, redact, spool_append,
};
pub use clock::Clock;
pub use decisions::{Decisions, NewRemembered, Remembered};
pub use error::StoreError;
pub use idempotency::{Answer, Begun, Idempotency, RequestKey};
pub use keys::{Key, NewKey};
pub use makers::Maker;
pub use sandboxes::{Claim, Enforced, NewSandbox, Quotas, SandboxFilter, SandboxRow, SandboxState};
pub use store::{Store, StoreOptions};
pub use users::{Role, User};
pub use words::UnknownWord;
