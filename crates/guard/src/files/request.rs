//! What a client asks for: one request a datagram.

use std::path::PathBuf;

use super::codec::{Reader, Writer};
use super::stat::Timestamp;

/// A choice of two that is one byte on the wire.
macro_rules! choice {
    ($(#[$about:meta])* $name:ident { $(#[$a:meta])* $zero:ident, $(#[$b:meta])* $one:ident }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[$a])*
            $zero,
            $(#[$b])*
            $one,
        }

        impl $name {
            fn read(from: &mut Reader<'_>) -> Option<Self> {
                match from.u8()? {
                    0 => Some(Self::$zero),
                    1 => Some(Self::$one),
                    _ => None,
                }
            }
        }
    };
}

choice! {
    /// What happens with a symbolic link at the end of a path.
    Links { Keep, Follow }
}
choice! {
    /// What happens with a file that has the name already.
    Existing { Refuse, Replace }
}
choice! {
    /// Whether a finished file is on disk before the reply.
    Durability { Later, Now }
}
choice! {
    /// Directories above the one that is made.
    Parents {
        /// They exist, and the directory itself does not.
        Exist,
        /// They are made where they are missing; a directory that is there is good.
        Make
    }
}
choice! {
    /// One file or directory, or all beneath it too.
    Reach { One, Tree }
}

/// Paths are absolute and bytes, as the sandbox sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRequest {
    /// The first on a channel.
    Hello {
        version: u32,
    },
    Stat {
        path: PathBuf,
        links: Links,
    },
    List {
        path: PathBuf,
    },
    OpenRead {
        path: PathBuf,
        links: Links,
    },
    /// A new file beside `path`, which gets that name when it is finished.
    Create {
        path: PathBuf,
        mode: u32,
        links: Links,
    },
    Finish {
        draft: u32,
        existing: Existing,
        durability: Durability,
    },
    Abandon {
        draft: u32,
    },
    MakeDirectory {
        path: PathBuf,
        mode: u32,
        parents: Parents,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        existing: Existing,
    },
    Remove {
        path: PathBuf,
        reach: Reach,
    },
    Symlink {
        target: PathBuf,
        path: PathBuf,
    },
    SetMode {
        path: PathBuf,
        mode: u32,
    },
    SetModified {
        path: PathBuf,
        time: Timestamp,
    },
    Truncate {
        path: PathBuf,
        size: u64,
    },
    /// The last on a channel: only events follow.
    Watch {
        path: PathBuf,
        reach: Reach,
    },
}

impl FileRequest {
    pub fn encode(&self) -> Vec<u8> {
        let with_path = |tag, path: &PathBuf| Writer::tagged(tag).text(path.as_os_str());
        match self {
            Self::Hello { version } => Writer::tagged(b'h').u32(*version),
            Self::Stat { path, links } => with_path(b's', path).u8(*links as u8),
            Self::List { path } => with_path(b'l', path),
            Self::OpenRead { path, links } => with_path(b'o', path).u8(*links as u8),
            Self::Create { path, mode, links } => with_path(b'c', path).u32(*mode).u8(*links as u8),
            Self::Finish { draft, existing, durability } => {
                Writer::tagged(b'f').u32(*draft).u8(*existing as u8).u8(*durability as u8)
            }
            Self::Abandon { draft } => Writer::tagged(b'a').u32(*draft),
            Self::MakeDirectory { path, mode, parents } => {
                with_path(b'd', path).u32(*mode).u8(*parents as u8)
            }
            Self::Rename { from, to, existing } => {
                with_path(b'r', from).text(to.as_os_str()).u8(*existing as u8)
            }
            Self::Remove { path, reach } => with_path(b'u', path).u8(*reach as u8),
            Self::Symlink { target, path } => with_path(b'y', target).text(path.as_os_str()),
            Self::SetMode { path, mode } => with_path(b'm', path).u32(*mode),
            Self::SetModified { path, time } => time.write(with_path(b't', path)),
            Self::Truncate { path, size } => with_path(b'z', path).u64(*size),
            Self::Watch { path, reach } => with_path(b'w', path).u8(*reach as u8),
        }
        .done()
    }

    /// `None`: not a request, or more than one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let from = &mut Reader(bytes);
        let request = Self::read(from)?;
        from.is_empty().then_some(request)
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let path = |from: &mut Reader<'_>| from.text().map(PathBuf::from);
        Some(match from.u8()? {
            b'h' => Self::Hello { version: from.u32()? },
            b's' => Self::Stat { path: path(from)?, links: Links::read(from)? },
            b'l' => Self::List { path: path(from)? },
            b'o' => Self::OpenRead { path: path(from)?, links: Links::read(from)? },
            b'c' => Self::Create { path: path(from)?, mode: from.u32()?, links: Links::read(from)? },
            b'f' => Self::Finish {
                draft: from.u32()?,
                existing: Existing::read(from)?,
                durability: Durability::read(from)?,
            },
            b'a' => Self::Abandon { draft: from.u32()? },
            b'd' => {
                Self::MakeDirectory { path: path(from)?, mode: from.u32()?, parents: Parents::read(from)? }
            }
            b'r' => Self::Rename { from: path(from)?, to: path(from)?, existing: Existing::read(from)? },
            b'u' => Self::Remove { path: path(from)?, reach: Reach::read(from)? },
            b'y' => Self::Symlink { target: path(from)?, path: path(from)? },
            b'm' => Self::SetMode { path: path(from)?, mode: from.u32()? },
            b't' => Self::SetModified { path: path(from)?, time: Timestamp::read(from)? },
            b'z' => Self::Truncate { path: path(from)?, size: from.u64()? },
            b'w' => Self::Watch { path: path(from)?, reach: Reach::read(from)? },
            _ => return None,
        })
    }
}
