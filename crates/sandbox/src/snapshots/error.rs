//! Why something was not done with a snapshot. Each error has a stable code, and says what to do next.

use std::io;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot {step} {subject}: {source}")]
    Io { step: &'static str, subject: String, source: io::Error },
    #[error("no snapshot {0:?}")]
    Unknown(String),
    #[error("{given:?} begins the ids of {count} snapshots")]
    Ambiguous { given: String, count: usize },
    #[error("{what} {given:?} is not allowed: {why}")]
    BadName { what: &'static str, given: String, why: &'static str },
    #[error("snapshot {id} is damaged: {why}")]
    Damaged { id: String, why: String },
    #[error("{0} changes while it is read")]
    Changing(String),
    #[error("{what} is over the limit of {limit}")]
    TooMuch { what: &'static str, limit: u64 },
    #[error("not a snapshot to import: {0}")]
    BadImport(String),
    #[error("the store of snapshots is in use: {0}")]
    Busy(&'static str),
    #[error("the snapshot has no directory {0:?}")]
    NoRoot(String),
    #[error("{0} is there already")]
    Occupied(String),
    #[error("cancelled")]
    Cancelled,
}

impl SnapshotError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "snapshot-io",
            Self::Unknown(_) => "snapshot-unknown",
            Self::Ambiguous { .. } => "snapshot-ambiguous",
            Self::BadName { .. } => "snapshot-bad-name",
            Self::Damaged { .. } => "snapshot-damaged",
            Self::Changing(_) => "snapshot-changing",
            Self::TooMuch { .. } => "snapshot-too-much",
            Self::BadImport(_) => "snapshot-bad-import",
            Self::Busy(_) => "snapshot-busy",
            Self::NoRoot(_) => "snapshot-no-root",
            Self::Occupied(_) => "snapshot-occupied",
            Self::Cancelled => "snapshot-cancelled",
        }
    }

    /// What a person can do next.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Io { .. } => "look at the rights and the free space there, then try again",
            Self::Unknown(_) => "list the snapshots, and give an id, the beginning of one, or a name",
            Self::Ambiguous { .. } => "give more of the id",
            Self::BadName { .. } => "choose another name",
            Self::Damaged { .. } => "verify all snapshots to see which are whole, and remove this one",
            Self::Changing(_) => "pause the session, or stop the program that writes there, then try again",
            Self::TooMuch { .. } => "remove what is not needed from the tree, or raise the limit",
            Self::BadImport(_) => "export the snapshot again, and compare the files",
            Self::Busy(_) => "try again when that is done",
            Self::NoRoot(_) => "list the snapshot to see which directories it has",
            Self::Occupied(_) => "name a path where nothing is yet",
            Self::Cancelled => "nothing was changed; start again when you like",
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, SnapshotError>;

/// What was being done, and with what, when a system call failed.
pub(super) trait During<T> {
    fn during(self, step: &'static str, subject: impl Into<String>) -> Result<T>;
    fn at(self, step: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> During<T> for std::result::Result<T, E> {
    fn during(self, step: &'static str, subject: impl Into<String>) -> Result<T> {
        self.map_err(|error| SnapshotError::Io { step, subject: subject.into(), source: error.into() })
    }

    fn at(self, step: &'static str, path: &Path) -> Result<T> {
        self.map_err(|error| SnapshotError::Io {
            step,
            subject: path.display().to_string(),
            source: error.into(),
        })
    }
}
