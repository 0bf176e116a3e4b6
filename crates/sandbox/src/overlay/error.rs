//! Why an overlay could not be read or committed.

use std::io;
use std::path::PathBuf;

use super::changes::{Conflict, ConflictReason};

/// What happened, why, what to do next.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// Nothing was committed.
    #[error("nothing was committed, because the workspace has changed meanwhile: {}{}", listed(.conflicts), kept_in(.kept))]
    Conflicts {
        conflicts: Vec<Conflict>,
        /// Earlier versions of files that were changed more than once during the commit.
        kept: Vec<PathBuf>,
    },
    #[error("{} is nested too deeply to be committed", .0.display())]
    TooDeep(PathBuf),
    #[error("there are more than {0} changes")]
    TooMany(usize),
    #[error("the session has changed nothing at {}", .0.display())]
    NotAChange(PathBuf),
    /// The session wrote it while it was read.
    #[error("{} changed while it was read", .0.display())]
    Changing(PathBuf),
    /// Nothing was committed.
    #[error("nothing was committed, because what the session changed is no longer what was looked at")]
    Altered,
    #[error("an earlier commit was interrupted")]
    Unfinished,
    #[error("there is no interrupted commit")]
    NothingUnfinished,
    #[error("another commit of this session is under way")]
    Busy,
    #[error("{} is not the directory that the session began with", .0.display())]
    Replaced(PathBuf),
    #[error("this workspace began as a copy of a snapshot, and has no directory to be committed to")]
    NoTarget,
    #[error("cannot {step} {}: {source}", path.display())]
    Failed { step: &'static str, path: PathBuf, source: io::Error },
    /// A test stopped it here, as `kill -9` would.
    #[error("stopped")]
    Stopped,
}

impl OverlayError {
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Conflicts { .. } => "look at those files, and commit the others by naming them with --only",
            Self::TooDeep(_) | Self::TooMany(_) => {
                "remove what is not wanted inside the session, or commit parts with --only"
            }
            Self::NotAChange(_) => "name a path of the list of changes, relative to the workspace",
            Self::Changing(_) => "stop what writes there in the session, and commit again",
            Self::Altered => "look at the changes again, and commit those",
            Self::Unfinished => "finish it or undo it first",
            Self::NothingUnfinished => "commit the session's changes, if there are any",
            Self::Busy => "wait for it to end",
            Self::Replaced(_) => "put the directory back in its place",
            Self::NoTarget => "copy what you need out of the session, or take a snapshot of it",
            Self::Failed { .. } => {
                "remove the cause and commit again; if that says that a commit was interrupted, finish or undo it first"
            }
            Self::Stopped => "finish it or undo it",
        }
    }

    pub(super) fn conflict(path: impl Into<PathBuf>, reason: ConflictReason) -> Self {
        Self::Conflicts { conflicts: vec![Conflict { path: path.into(), reason }], kept: Vec::new() }
    }

    pub(super) fn failed(step: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Failed { step, path: path.into(), source: source.into() }
    }
}

/// How many are named; the rest is a number.
const NAMED: usize = 5;

fn listed(conflicts: &[Conflict]) -> String {
    let mut named: Vec<String> = conflicts.iter().take(NAMED).map(ToString::to_string).collect();
    if conflicts.len() > NAMED {
        named.push(format!("and {} more", conflicts.len() - NAMED));
    }
    named.join("; ")
}

fn kept_in(kept: &[PathBuf]) -> String {
    let paths: Vec<String> = kept.iter().map(|path| path.display().to_string()).collect();
    if paths.is_empty() {
        String::new()
    } else {
        format!("; earlier versions are kept at {}", paths.join(", "))
    }
}
