//! What is known of one file.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::fs::{FileType, Stat};

use super::codec::{Reader, Writer};

const PERMISSIONS: u32 = 0o7777;
const NANOSECONDS: u32 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
    Unknown,
}

const KINDS: [FileKind; 8] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
    FileKind::Unknown,
];

impl FileKind {
    pub(super) fn write(self, to: Writer) -> Writer {
        to.u8(self as u8)
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        KINDS.get(usize::from(from.u8()?)).copied()
    }
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => Self::Unknown,
        }
    }
}

/// Seconds since 1970, and nanoseconds below one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Timestamp {
    pub(super) fn write(self, to: Writer) -> Writer {
        to.i64(self.seconds).u32(self.nanoseconds)
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (seconds, nanoseconds) = (from.i64()?, from.u32()?);
        (nanoseconds < NANOSECONDS).then_some(Self { seconds, nanoseconds })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub kind: FileKind,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    pub size: u64,
    pub modified: Timestamp,
    /// When its content or its metadata last changed.
    pub changed: Timestamp,
    pub device: u64,
    pub inode: u64,
    pub links: u64,
}

impl FileStat {
    pub(super) fn write(&self, to: Writer) -> Writer {
        let to = self.kind.write(to).u32(self.mode).u64(self.size);
        let to = self.changed.write(self.modified.write(to));
        to.u64(self.device).u64(self.inode).u64(self.links)
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (kind, mode, size) = (FileKind::read(from)?, from.u32()?, from.u64()?);
        let (modified, changed) = (Timestamp::read(from)?, Timestamp::read(from)?);
        let (device, inode, links) = (from.u64()?, from.u64()?, from.u64()?);
        (mode & !PERMISSIONS == 0).then_some(Self {
            kind,
            mode,
            size,
            modified,
            changed,
            device,
            inode,
            links,
        })
    }
}

impl From<Stat> for FileStat {
    fn from(stat: Stat) -> Self {
        let time = |seconds, nanoseconds: u64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
        #[allow(clippy::unnecessary_cast, reason = "32 bits on aarch64")]
        let links = stat.st_nlink as u64;
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            mode: stat.st_mode & PERMISSIONS,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            device: stat.st_dev,
            inode: stat.st_ino,
            links,
        }
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub name: OsString,
    pub stat: FileStat,
    /// Where a symbolic link leads, as it is written.
    pub target: Option<PathBuf>,
}

impl FileEntry {
    pub(super) fn write(&self, to: Writer) -> Writer {
        let to = self.stat.write(to.text(&self.name));
        match &self.target {
            None => to.u8(0),
            Some(target) => to.u8(1).text(target.as_os_str()),
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (name, stat) = (from.text()?, FileStat::read(from)?);
        let target = match from.u8()? {
            0 => None,
            1 => Some(from.text()?.into()),
            _ => return None,
        };
        Some(Self { name, stat, target })
    }
}
