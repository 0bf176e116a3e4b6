//! What tells one state of a file from another: who it is, and when it changed.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::changes::EntryKind;

/// A moment on a filesystem's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Moment {
    pub(super) seconds: i64,
    pub(super) nanoseconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) modified: Moment,
    pub(super) changed: Moment,
}

impl Stamp {
    pub(super) fn new(facts: &Stat) -> Self {
        let moment = |seconds, nanoseconds| Moment { seconds, nanoseconds };
        Self {
            device: facts.st_dev,
            inode: facts.st_ino,
            mode: facts.st_mode,
            uid: facts.st_uid,
            gid: facts.st_gid,
            size: facts.st_size.unsigned_abs(),
            modified: moment(facts.st_mtime, facts.st_mtime_nsec),
            changed: moment(facts.st_ctime, facts.st_ctime_nsec),
        }
    }

    /// Of what is open.
    pub(super) fn of(file: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::new(&fstat(file)?))
    }

    /// Of a name in a directory; `None` if there is none. A link is not followed.
    pub(super) fn at(directory: impl AsFd, name: impl AsRef<Path>) -> Result<Option<Self>, Errno> {
        match statat(directory, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(facts) => Ok(Some(Self::new(&facts))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn kind(&self) -> EntryKind {
        match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Special,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind() == EntryKind::Directory
    }

    pub(super) fn permissions(&self) -> u32 {
        self.mode & 0o777
    }

    /// The same file, whatever has been done to it.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// The same file with nothing done to it but a rename, which sets the time of its last change.
    pub(super) fn is_only_moved(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }
}
