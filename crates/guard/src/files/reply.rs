//! What the worker answers, and what a watch tells.

use std::path::PathBuf;

use super::codec::{Reader, Writer};
use super::stat::{FileEntry, FileKind, FileStat};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    Created,
    /// Content is being changed.
    Changed,
    /// A file that was open for writing was closed.
    Written,
    Removed,
    /// The old name of a rename; the new one has the same cookie.
    MovedFrom,
    MovedTo,
    /// Mode, times or owner.
    Metadata,
    /// Events were lost: look at everything again.
    Overflow,
    /// What is beneath this directory is not watched: too many watches, or no right to look.
    Unwatched,
}

const CHANGES: [FileChange; 9] = [
    FileChange::Created,
    FileChange::Changed,
    FileChange::Written,
    FileChange::Removed,
    FileChange::MovedFrom,
    FileChange::MovedTo,
    FileChange::Metadata,
    FileChange::Overflow,
    FileChange::Unwatched,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEvent {
    pub change: FileChange,
    pub path: PathBuf,
    pub directory: bool,
    /// Pairs the two halves of a rename; 0 otherwise.
    pub cookie: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReply {
    Hello {
        version: u32,
    },
    Done,
    Stat {
        stat: FileStat,
        target: Option<PathBuf>,
    },
    /// Part of a listing; `Done` ends it.
    Entries(Vec<FileEntry>),
    /// With the descriptor.
    Opened,
    /// With the descriptor; the number is for `Finish` and `Abandon`.
    Created {
        draft: u32,
    },
    /// Still at it.
    Working,
    Failed {
        errno: u32,
    },
    /// Only regular files are opened.
    NotRegular {
        kind: FileKind,
    },
    Event(FileEvent),
}

impl FileReply {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { version } => Writer::tagged(b'h').u32(*version),
            Self::Done => Writer::tagged(b'd'),
            Self::Stat { stat, target } => {
                let to = stat.write(Writer::tagged(b's'));
                match target {
                    None => to.u8(0),
                    Some(target) => to.u8(1).text(target.as_os_str()),
                }
            }
            Self::Entries(entries) => entries.iter().fold(Writer::tagged(b'l'), |to, entry| entry.write(to)),
            Self::Opened => Writer::tagged(b'o'),
            Self::Created { draft } => Writer::tagged(b'c').u32(*draft),
            Self::Working => Writer::tagged(b'w'),
            Self::Failed { errno } => Writer::tagged(b'f').u32(*errno),
            Self::NotRegular { kind } => kind.write(Writer::tagged(b'n')),
            Self::Event(event) => Writer::tagged(b'e')
                .u8(event.change as u8)
                .text(event.path.as_os_str())
                .u8(event.directory.into())
                .u32(event.cookie),
        }
        .done()
    }

    /// `None`: not a reply, or more than one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let from = &mut Reader(bytes);
        let reply = Self::read(from)?;
        from.is_empty().then_some(reply)
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.u8()? {
            b'h' => Self::Hello { version: from.u32()? },
            b'd' => Self::Done,
            b's' => {
                let stat = FileStat::read(from)?;
                let target = match from.u8()? {
                    0 => None,
                    1 => Some(from.text()?.into()),
                    _ => return None,
                };
                Self::Stat { stat, target }
            }
            b'l' => Self::Entries(read_entries(from)?),
            b'o' => Self::Opened,
            b'c' => Self::Created { draft: from.u32()? },
            b'w' => Self::Working,
            b'f' => Self::Failed { errno: from.u32()? },
            b'n' => Self::NotRegular { kind: FileKind::read(from)? },
            b'e' => Self::Event(read_event(from)?),
            _ => return None,
        })
    }
}

fn read_entries(from: &mut Reader<'_>) -> Option<Vec<FileEntry>> {
    let mut entries = Vec::new();
    while !from.is_empty() {
        entries.push(FileEntry::read(from)?);
    }
    Some(entries)
}

fn read_event(from: &mut Reader<'_>) -> Option<FileEvent> {
    let change = *CHANGES.get(usize::from(from.u8()?))?;
    let path = from.text()?.into();
    let directory = match from.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(FileEvent { change, path, directory, cookie: from.u32()? })
}
