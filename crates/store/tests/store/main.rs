//! The store on real files: what it promises, tried from several connections and processes at once.

mod actions;
mod anchors;
mod audit;
mod decisions;
mod idempotency;
mod keys;
mod kills;
mod opening;
mod sandboxes;
mod spool;
mod support;
mod tampering;
mod upgrade;
mod users;
