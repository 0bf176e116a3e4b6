//! Why something was not done with an image: a stable code for programs, a sentence and a next step for people.

use std::io;
use std::path::Path;

use ringfence_sandbox::snapshots::SnapshotError;
use ringfence_skills::ArchiveError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImageError {
    /// Stable.
    pub code: &'static str,
    pub message: String,
    /// What to do next.
    pub fix: String,
}

pub(crate) type Result<T> = std::result::Result<T, ImageError>;

impl ImageError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { code, message: message.into(), fix: fix.into() }
    }

    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(
            "image-io",
            format!("cannot {doing} {}: {error}", path.display()),
            "look at the rights and the free space there, then try again",
        )
    }

    /// An archive, or an entry of it, that is not taken.
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, message, "nothing was kept; make the archive again, without what is named here")
    }
}

impl From<SnapshotError> for ImageError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Busy(_) => {
                Self::new("image-busy", "the store of images is in use", "try again when that is done")
            }
            error => Self::new(error.code(), error.to_string(), error.fix()),
        }
    }
}

impl From<ArchiveError> for ImageError {
    fn from(error: ArchiveError) -> Self {
        Self::refused("image-bad-archive", format!("the archive is not taken: {error}"))
    }
}

/// What was being done, and with what, when a system call failed.
pub(crate) trait During<T> {
    fn at(self, doing: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> During<T> for std::result::Result<T, E> {
    fn at(self, doing: &str, path: &Path) -> Result<T> {
        self.map_err(|error| ImageError::io(doing, path, &error.into()))
    }
}
