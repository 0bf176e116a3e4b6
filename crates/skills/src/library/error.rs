//! What can go wrong in a library.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Serialize;

use crate::{Digest, TreeError};

use super::name::Reference;

#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error("{path}: {step}: {source}")]
    Io { step: &'static str, path: String, source: io::Error },
    #[error("{path}: {source}")]
    Tree { path: String, source: TreeError },
    #[error("{0}: no library there")]
    NoLibrary(String),
    #[error("{path}: not a library that this version can read: {why}")]
    Format { path: String, why: String },
    #[error("`{0}` is no domain: up to 64 of a-z, 0-9 and `-`, not with a hyphen first")]
    Domain(String),
    #[error("`{name}` can't be the name of a skill: {why}")]
    Name { name: String, why: &'static str },
    #[error("no skill `{0}` in the library")]
    NotFound(String),
    #[error("no skill `{wanted}` in what can be read of the library: {}", list(.unreadable))]
    NotSeen { wanted: String, unreadable: Vec<Unreadable> },
    #[error("`{wanted}` is in more than one domain: {}", list(.candidates))]
    Ambiguous { wanted: String, candidates: Vec<Reference> },
    #[error("`{0}` is there already; replace it, or give another name")]
    Exists(Reference),
    #[error("`{wanted}` can't be told from `{there}`, which is there already")]
    Collides { wanted: Reference, there: String },
    #[error("`{0}` was edited by hand since it was published; publish, keep or discard the edit first")]
    Edited(Reference),
    #[error("`{0}` was never published, so there is no digest to pin; publish it first")]
    Unpublished(Reference),
    #[error("{0}: no SKILL.md at its top")]
    NoManifest(String),
    #[error("`{reference}` is {found}, not the {expected} that was asked for")]
    Unexpected { reference: Reference, expected: Digest, found: Digest },
    #[error("`{0}` is not in the lock file")]
    NotLocked(Reference),
    #[error("{} of the lock file differ: {}", .0.len(), list(.0))]
    Frozen(Vec<super::Mismatch>),
    #[error("`{reference}` has no version {digest}")]
    NoVersion { reference: Reference, digest: String },
    #[error("the stored version {digest} is damaged: {why}")]
    Damaged { digest: Digest, why: String },
    #[error("not a lock file: {0}")]
    LockFile(String),
    #[error("another process has held the library's lock for {} s", .0.as_secs())]
    Busy(Duration),
    #[error("`{0}` changed again and again while it was read")]
    Restless(Reference),
    #[error("{path}: {why}")]
    Unfit { path: String, why: String },
    #[error("{0}")]
    Template(String),
}

/// A part of the library that can't be read: another user's, perhaps. What others put there stops nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// In the library.
    pub path: String,
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.why)
    }
}

impl LibraryError {
    /// What is about one skill or domain as a remark on it; what is about the library or the request stays an error.
    pub fn unreadable(self, path: impl ToString) -> Result<Unreadable, Self> {
        let why = match &self {
            Self::Io { step, source, .. } => format!("{step}: {source}"),
            Self::Tree { source, .. } => source.to_string(),
            Self::Unfit { why, .. } => why.clone(),
            Self::Restless(_) => self.to_string(),
            _ => return Err(self),
        };
        Ok(Unreadable { path: path.to_string(), why })
    }

    pub(super) fn io(step: &'static str, path: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { step, path, source }
    }

    pub(super) fn tree(path: impl Into<String>) -> impl FnOnce(TreeError) -> Self {
        let path = path.into();
        move |source| Self::Tree { path, source }
    }
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
