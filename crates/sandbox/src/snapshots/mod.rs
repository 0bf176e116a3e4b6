//! Snapshots of directory trees, by content: objects that are named by their BLAKE3, and manifests that say which tree
//! they make. A snapshot is there whole or not at all, and everything in it can be checked.
//!
//! Invariant: what is read from a tree, and what is imported, is hostile. No link is followed, every amount has a
//! limit, and a name reaches a path only as a checked [`TreePath`].

mod collect;
mod compare;
mod diff;
mod error;
mod export;
mod faults;
mod hash;
mod import;
mod limits;
mod local;
mod lock;
mod manifest;
mod manifest_file;
mod materialise;
mod objects;
mod path;
mod reading;
mod restore;
mod save;
mod sparse;
mod stat_cache;
mod store;
mod temporary;
mod text_diff;
mod tree;
mod verify;
mod walk;

pub(crate) use sparse::write_sparse;
pub(crate) use temporary::random_name;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod diff_tests;
#[cfg(test)]
mod import_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod restore_tests;
#[cfg(test)]
mod save_tests;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod store_tests;

pub use collect::Collected;
pub use diff::{Change, Changed, Diff, DiffLimits, DiffSide, Seen};
pub use error::SnapshotError;
pub use export::ExportFormat;
pub use hash::{ObjectHash, SnapshotId};
pub use import::Imported;
pub use limits::SnapshotLimits;
pub use local::LocalTree;
pub use manifest::{Entry, Manifest, Node, RootEntries, Skipped, SnapshotFacts};
pub use materialise::Materialised;
pub use path::{TreePath, shown};
pub use restore::Restored;
pub use save::{KeepAttributes, Recognise, SaveOptions, SaveProgress, Saved};
pub use store::{Listing, SnapshotStore, Summary};
pub use tree::{Attributes, EntryKind, EntryStat, EntryTime, Listed, RootTree, RootWriter, Tree, TreeWriter};
pub use verify::{Damage, Verified};
