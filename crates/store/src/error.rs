//! The one error type of the store. Each message says what happened, why, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Level, UnknownWord};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the {what} {name:?} is taken: {why}; choose another")]
    Taken { what: &'static str, name: String, why: &'static str },

    #[error("there is no {what} {name:?}; list what there is, and check the name")]
    NotFound { what: &'static str, name: String },

    /// It was there, but in no state for this: decided by somebody else, ended, expired, not theirs to give.
    #[error("the {what} {name:?} can't be {wanted}: {why}; {next}")]
    Conflict { what: &'static str, name: String, wanted: &'static str, why: String, next: &'static str },

    #[error(
        "the {level} action {id:?} is {user:?}'s own: nobody decides on their own {level} action; ask another approver"
    )]
    OwnAction { id: String, user: String, level: Level },

    #[error(
        "the {level} action {id:?} is {user:?}'s, and {by:?} or the key in use was made by them: \
         that is no second person; ask an approver whom somebody else made"
    )]
    MadeBySubmitter { id: String, user: String, by: String, level: Level },

    #[error("no more than {limit} {what}: the quota is used up; end one, or ask an admin for more")]
    Quota { what: &'static str, limit: u64 },

    #[error("the database {} is of version {found}, and this program knows {known}: a newer ringfence has written it; \
             use that one, or bring back a copy from before the upgrade", path.display())]
    TooNew { path: PathBuf, found: i64, known: i64 },

    #[error("{what} is damaged: {why}; stop, keep a copy, and bring back a whole one")]
    Corrupt { what: String, why: String },

    #[error(
        "the database is locked by another process for longer than we wait; try again, and see who holds it"
    )]
    Busy,

    #[error("{what} {}: {source}; check the disk and who owns the directory", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },

    #[error("the database refused: {0}; try again, and look at the disk if it goes on")]
    Database(#[source] sqlx::Error),
}

/// SQLite's result codes, whose lowest byte is the kind.
const BUSY: i32 = 5;
const CORRUPT: i32 = 11;
const NOT_A_DATABASE: i32 = 26;

impl StoreError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Taken { .. } => "taken",
            Self::NotFound { .. } => "not_found",
            Self::Conflict { .. } => "conflict",
            Self::OwnAction { .. } | Self::MadeBySubmitter { .. } => "own_action",
            Self::Quota { .. } => "quota",
            Self::TooNew { .. } => "too_new",
            Self::Corrupt { .. } => "corrupt",
            Self::Busy => "busy",
            Self::File { .. } => "file",
            Self::Database(_) => "database",
        }
    }

    pub(crate) fn not_found(what: &'static str, name: &str) -> Self {
        Self::NotFound { what, name: name.to_owned() }
    }

    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }

    pub(crate) fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.is_unique_violation())
    }

    pub(crate) fn is_missing_reference(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.is_foreign_key_violation())
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let damage = |why: String| Self::Corrupt { what: "the database".into(), why };
        match &error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => damage(error.to_string()),
            sqlx::Error::Database(database) => {
                match database.code().and_then(|code| code.parse::<i32>().ok()).map(|code| code & 0xff) {
                    Some(BUSY) => Self::Busy,
                    Some(CORRUPT | NOT_A_DATABASE) => damage(database.message().to_owned()),
                    _ => Self::Database(error),
                }
            }
            _ => Self::Database(error),
        }
    }
}

/// A word in a row that no version of ours has written.
impl From<UnknownWord> for StoreError {
    fn from(error: UnknownWord) -> Self {
        Self::Corrupt { what: "the database".into(), why: error.to_string() }
    }
}
