//! Both sides of a changed path, to be compared by whoever prints a difference.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::beneath::{open_any, open_file, read_link};
use super::changes::EntryKind;
use super::error::OverlayError;
use super::identity::Stamp;
use super::start::Overlay;

/// What is at a path of one side.
#[derive(Debug)]
pub enum Content {
    Nothing,
    /// Open for reading; of a file in the session's layer, the session may still be writing to it.
    File(File),
    Link(PathBuf),
    Directory,
    Special,
}

impl Overlay {
    /// What the user's directory has at `path`.
    pub fn old_content(&self, path: &Path) -> Result<Content, OverlayError> {
        content(&self.lower, path)
    }

    /// What the session's layer has at `path`: of a change with a new side, that side.
    pub fn new_content(&self, path: &Path) -> Result<Content, OverlayError> {
        content(&self.upper, path)
    }
}

fn content(top: &OwnedFd, path: &Path) -> Result<Content, OverlayError> {
    let failed = |error: Errno| OverlayError::failed("open", path, error);
    let found = match open_any(top, path) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Content::Nothing),
        Err(error) => return Err(failed(error)),
    };
    Ok(match Stamp::of(&found).map_err(failed)?.kind() {
        EntryKind::File => Content::File(open_file(top, path).map_err(failed)?),
        EntryKind::Link => Content::Link(read_link(&found, "").map_err(failed)?),
        EntryKind::Directory => Content::Directory,
        EntryKind::Special => Content::Special,
    })
}
