//! What both directions of a copy share.

use std::path::Path;

use ringfence_guard::FileKind;

use super::error::{FileProblem, kind_name};

/// Read, write and execute; setuid, setgid and sticky bits do not cross.
pub(super) const KEPT_MODE: u32 = 0o777;
/// What a directory needs while it is being filled.
pub(super) const OWNER: u32 = 0o700;

/// Where a copy is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// Of all files together; holes count.
    pub bytes: u64,
    pub entries: u64,
    pub depth: u64,
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: 1_000_000, depth: 256 }
    }
}

/// What has been copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub entries: u64,
    pub bytes: u64,
}

/// Told after each entry, and in the middle of one that is large.
#[derive(Clone, Copy, Debug)]
pub struct CopyProgress<'a> {
    pub path: &'a Path,
    pub copied: Copied,
}

/// Counts what is copied, and says when it is too much.
pub(super) struct Tally<'a> {
    pub(super) limits: &'a CopyLimits,
    pub(super) copied: Copied,
    progress: &'a mut dyn FnMut(CopyProgress<'_>),
}

impl<'a> Tally<'a> {
    pub(super) fn new(limits: &'a CopyLimits, progress: &'a mut dyn FnMut(CopyProgress<'_>)) -> Self {
        Self { limits, copied: Copied::default(), progress }
    }

    pub(super) fn bytes_left(&self) -> u64 {
        self.limits.bytes - self.copied.bytes
    }

    pub(super) fn entries_left(&self) -> u64 {
        self.limits.entries - self.copied.entries
    }

    /// Before an entry at `relative` is made.
    pub(super) fn admit(&self, relative: &Path) -> Result<(), FileProblem> {
        let depth = relative.components().count() as u64;
        if depth > self.limits.depth {
            return Err(FileProblem::TooMuch { limit: self.limits.depth, unit: "levels of directories" });
        }
        if self.entries_left() == 0 {
            return Err(FileProblem::TooMuch { limit: self.limits.entries, unit: "entries" });
        }
        Ok(())
    }

    /// While it is made: so many bytes of it are there.
    pub(super) fn note(&mut self, path: &Path, bytes: u64) {
        let copied = Copied { bytes: self.copied.bytes + bytes, ..self.copied };
        (self.progress)(CopyProgress { path, copied });
    }

    /// After it is made.
    pub(super) fn add(&mut self, path: &Path, bytes: u64) {
        self.copied.entries += 1;
        self.copied.bytes += bytes;
        (self.progress)(CopyProgress { path, copied: self.copied });
    }
}

/// Only these are copied.
pub(super) fn must_be_copied(kind: FileKind) -> Result<(), FileProblem> {
    match kind {
        FileKind::Regular | FileKind::Directory | FileKind::Symlink => Ok(()),
        other => Err(FileProblem::NotCopied(kind_name(other))),
    }
}
