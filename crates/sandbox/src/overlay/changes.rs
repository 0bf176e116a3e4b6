//! The words for what a session changed.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::identity::Stamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    File,
    Directory,
    /// A symbolic link, which is data: it is never followed.
    Link,
    /// A pipe, socket or device.
    Special,
}

/// One side of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    pub size: u64,
    #[serde(skip)]
    pub(super) stamp: Stamp,
}

impl From<Stamp> for Entry {
    fn from(stamp: Stamp) -> Self {
        Self { kind: stamp.kind(), mode: stamp.permissions(), size: stamp.size, stamp }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    Added,
    /// Another content, and perhaps other permissions.
    Modified,
    /// Other permissions, the same content.
    Mode,
    Removed,
    /// Another kind of thing: a directory where there was a file, and the like.
    Replaced,
}

/// One path that is not what it was. A directory that came or went is a change, and so is each thing in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Relative to the workspace.
    pub path: PathBuf,
    pub kind: ChangeKind,
    pub old: Option<Entry>,
    pub new: Option<Entry>,
    /// Why it can't be committed as things are.
    pub conflict: Option<ConflictReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConflictReason {
    /// The user's file is not what it was when the session began.
    Changed,
    /// The user's file that the session changed is gone.
    Gone,
    /// A directory above it was put in its place since the session began.
    Moved,
    /// Another filesystem is mounted there.
    Mounted,
}

/// A path that its user changed too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    pub path: PathBuf,
    pub reason: ConflictReason,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason {
            ConflictReason::Changed => "was changed",
            ConflictReason::Gone => "was removed",
            ConflictReason::Moved => "is in a directory that was moved there",
            ConflictReason::Mounted => "is on a filesystem that is mounted in the workspace",
        };
        write!(f, "{} {why}", self.path.display())
    }
}
