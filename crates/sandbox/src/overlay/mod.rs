//! Copy-on-write workspaces: what a session wrote, and how it gets into the user's own directory.
//!
//! The kernel keeps the writes in an upper directory. [`Overlay::changes`] reads it beside the user's directory;
//! [`Overlay::commit`] applies it, file by file, each of them old or new at every moment, all or none of them in the end.
//!
//! Invariant: everything in the upper directory is hostile. No link is followed in it nor in the user's directory, nothing
//! in it is ever changed, and a file that its user has touched since the session began is never overwritten.

mod apply;
mod beneath;
mod changes;
mod commit;
mod compare;
mod contents;
mod error;
mod guarded;
mod identity;
mod journal;
mod record;
mod recover;
mod review;
mod stage;
mod start;
mod steps;
mod units;
mod walk;

#[cfg(test)]
mod attack_tests;
#[cfg(test)]
mod change_tests;
#[cfg(test)]
mod commit_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod review_tests;
#[cfg(test)]
mod scene_tests;

pub use changes::{Change, ChangeKind, Conflict, ConflictReason, Entry, EntryKind};
pub use commit::{CommitOptions, CommitReport, Guarding, LeftOut, LeftOutReason};
pub use contents::Content;
pub use error::OverlayError;
pub use recover::{Recovered, Unfinished};
pub(crate) use stage::remove_tree;
pub use start::{Overlay, prepare_layers};
