//! What a snapshot is taken of, and what it is brought back to: a directory of this host, or one inside a sandbox.

use std::fs::File;
use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat, Timespec, Timestamps, UTIME_OMIT};
use serde::{Deserialize, Serialize};

use super::path::TreePath;

/// Since 1970, as the kernel keeps it: seconds, and nanoseconds that count up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(i64, u32)", into = "(i64, u32)")]
pub struct EntryTime {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl EntryTime {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() }
    }

    /// To set the time of the last change, and leave that of the last access.
    pub(super) fn alone(self) -> Timestamps {
        Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: self.seconds, tv_nsec: self.nanoseconds.into() },
        }
    }
}

impl TryFrom<(i64, u32)> for EntryTime {
    type Error = &'static str;

    /// Larger ones mean "now" and "leave it" to the kernel.
    fn try_from((seconds, nanoseconds): (i64, u32)) -> Result<Self, Self::Error> {
        let right = nanoseconds < 1_000_000_000;
        right.then_some(Self { seconds, nanoseconds }).ok_or("a time that is no time")
    }
}

impl From<EntryTime> for (i64, u32) {
    fn from(time: EntryTime) -> Self {
        (time.seconds, time.nanoseconds)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Link,
    /// A socket, a pipe or a device.
    Special,
}

/// What a tree says of an entry, its links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryStat {
    pub kind: EntryKind,
    /// All twelve bits.
    pub mode: u32,
    pub size: u64,
    pub modified: EntryTime,
    pub changed: EntryTime,
    pub device: u64,
    pub inode: u64,
}

impl From<Stat> for EntryStat {
    fn from(stat: Stat) -> Self {
        let time = |seconds, nanoseconds: u64| EntryTime { seconds, nanoseconds: nanoseconds as u32 };
        Self {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Directory,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Special,
            },
            mode: stat.st_mode & 0o7777,
            size: stat.st_size.cast_unsigned(),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    pub name: Vec<u8>,
    pub stat: EntryStat,
    /// Where it leads, if it is a link.
    pub target: Option<Vec<u8>>,
}

/// Reading. No operation follows a link, at the end of a path or on the way.
pub trait Tree {
    /// Entries of a directory in any order, without `.` and `..`; no more than `most`.
    fn list(&self, directory: &TreePath, most: usize) -> io::Result<Vec<Listed>>;
    /// A regular file, for reading. Nothing waits: a pipe would, for ever.
    fn open(&self, file: &TreePath) -> io::Result<File>;
    /// Whether every write shows in a file's times. It does not where a mapped file is written in memory only.
    fn times_tell(&self) -> bool;
}

/// What an entry is given beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub mode: u32,
    pub modified: EntryTime,
}

/// Writing. Nothing is written through a link, and a file is replaced whole or not at all.
pub trait TreeWriter: Tree {
    /// With mode 0700, until its attributes are set.
    fn make_directory(&self, path: &TreePath) -> io::Result<()>;
    /// A new file in the place of a file, a link or nothing. An error of `content` leaves what was there.
    fn write_file(&self, path: &TreePath, content: &mut dyn Read, attributes: Attributes) -> io::Result<()>;
    /// A new link in the place of a file, a link or nothing.
    fn write_link(&self, path: &TreePath, target: &[u8], modified: EntryTime) -> io::Result<()>;
    /// With all that is in it.
    fn remove(&self, path: &TreePath) -> io::Result<()>;
    /// Of a file or directory.
    fn set_attributes(&self, path: &TreePath, attributes: Attributes) -> io::Result<()>;
    /// Of a link.
    fn set_link_time(&self, path: &TreePath, modified: EntryTime) -> io::Result<()>;
}

/// A tree and what it is called in a snapshot: `workspace`, `home`.
#[derive(Clone, Copy)]
pub struct RootTree<'a> {
    pub label: &'a str,
    pub tree: &'a dyn Tree,
}

#[derive(Clone, Copy)]
pub struct RootWriter<'a> {
    pub label: &'a str,
    pub tree: &'a dyn TreeWriter,
}
