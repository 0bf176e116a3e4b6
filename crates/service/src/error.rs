//! The one error type of the services: a stable code for programs, a sentence and a next step for people.

use std::io;
use std::path::Path;

use ringfence_sandbox::overlay::OverlayError;
use ringfence_sandbox::snapshots::SnapshotError;
use ringfence_sandbox::{FileError, OverTimeError, Refusal};
use serde::{Deserialize, Serialize};

/// What kind of failure it was. The names are stable: programs match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// A policy or config file can't be read or is wrong.
    BadPolicy,
    /// A project's file loosens the policy and its user has not trusted it.
    Untrusted,
    /// The request itself is wrong.
    BadRequest,
    /// Somebody asked for more than the policy of whoever they act for allows.
    BeyondCeiling,
    /// This host can't enforce a clause.
    NotEnforceable,
    /// A step of making the sandbox failed.
    SandboxFailed,
    /// The state directory can't be used.
    State,
    /// A skill can't be found, read or run as it is.
    BadSkill,
    /// A program, variable, secret or interpreter that a skill needs is not there.
    Missing,
    /// Dependencies could not be installed.
    BuildFailed,
    /// A skill could not be fetched from where it is.
    FetchFailed,
    /// Lint found something in a skill that nobody has accepted.
    Findings,
    /// A skill is not the version that a lock file pins.
    Frozen,
    /// There is no session of that name.
    NoSession,
    /// The session has ended.
    SessionEnded,
    /// The session has as many clients as it takes.
    SessionBusy,
    /// The session's keeper lives and does not answer.
    SessionSilent,
    /// Something about a snapshot.
    Snapshot,
    /// Something about an image: it is not there, not whole, or can't be made.
    Image,
    /// What a session wrote can't be committed.
    Commit,
    CommandNotFound,
    CommandNotExecutable,
    BadDirectory,
}

/// Why a use case was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ServiceError {
    pub code: ErrorCode,
    pub message: String,
    /// What to do next.
    pub hint: String,
    /// Paths of a workspace that it is about, where a program would want them one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

impl ServiceError {
    pub fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into(), paths: Vec::new() }
    }

    pub(crate) fn state(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(
            ErrorCode::State,
            format!("cannot {doing} {}: {error}", path.display()),
            "make it writable for this user, or set RINGFENCE_STATE_DIR to a directory that is",
        )
    }
}

impl From<SnapshotError> for ServiceError {
    fn from(error: SnapshotError) -> Self {
        Self::new(ErrorCode::Snapshot, error.to_string(), error.fix())
    }
}

impl From<OverTimeError> for ServiceError {
    fn from(error: OverTimeError) -> Self {
        match error {
            OverTimeError::Session(error) => error.into(),
            OverTimeError::Snapshot(error) => error.into(),
        }
    }
}

impl From<OverlayError> for ServiceError {
    fn from(error: OverlayError) -> Self {
        let mut told = Self::new(ErrorCode::Commit, error.to_string(), error.fix());
        if let OverlayError::Conflicts { conflicts, .. } = &error {
            told.paths = conflicts.iter().map(|one| one.path.display().to_string()).collect();
        }
        told
    }
}

impl From<FileError> for ServiceError {
    fn from(error: FileError) -> Self {
        Self::new(ErrorCode::BadRequest, error.to_string(), error.fix())
    }
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NotEnforceable { .. } => ErrorCode::NotEnforceable,
            Refusal::BadRequest { .. } => ErrorCode::BadRequest,
            Refusal::Failed { .. } => ErrorCode::SandboxFailed,
        };
        Self::new(code, refusal.to_string(), refusal.fix())
    }
}
