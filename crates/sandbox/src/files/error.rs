//! Why a file operation did not succeed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_guard::FileKind;

/// What happened to which path, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {problem}", path.display())]
pub struct FileError {
    pub operation: &'static str,
    pub path: PathBuf,
    #[source]
    pub problem: FileProblem,
}

#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// The kernel refused it inside.
    #[error("{}", io::Error::from_raw_os_error(*errno))]
    Refused { errno: i32 },
    /// The kernel refused it outside.
    #[error("{0}")]
    Local(io::Error),
    #[error("it is {}, and only regular files are opened", kind_name(*.0))]
    NotRegular(FileKind),
    #[error("{0} can't be copied")]
    NotCopied(&'static str),
    #[error("the sandbox sent a name that is not one: {0:?}")]
    BadName(std::ffi::OsString),
    #[error("the sandbox listed {0:?} twice in one directory")]
    SameName(std::ffi::OsString),
    #[error("there is more than the limit of {limit} {unit}")]
    TooMuch { limit: u64, unit: &'static str },
    #[error("no answer from the sandbox within {} s", .0.as_secs_f32())]
    NoAnswer(Duration),
    #[error("the session's file worker is gone")]
    Gone,
    #[error("the session's file worker broke its protocol: {0}")]
    Broken(&'static str),
    #[error("the session speaks version {theirs} of the file protocol, this command version {ours}")]
    Version { ours: u32, theirs: u32 },
}

impl FileError {
    /// What a person can do next.
    pub fn fix(&self) -> &'static str {
        match self.problem {
            FileProblem::Refused { .. } => {
                "check the path inside the session and what its policy lets it write"
            }
            FileProblem::Local(_) => "check the path on this machine and its permissions",
            FileProblem::NotRegular(_) | FileProblem::NotCopied(_) => {
                "name a regular file, a directory or a symbolic link; leave sockets, FIFOs and devices out"
            }
            FileProblem::BadName(_) | FileProblem::SameName(_) | FileProblem::Broken(_) => {
                "do not trust what this session holds: end it with `ringfence session stop`"
            }
            FileProblem::TooMuch { .. } => "copy a part of it, or raise the limit",
            FileProblem::NoAnswer(_) => "continue the session if it is stopped, then try again",
            FileProblem::Gone => {
                "see with `ringfence session ls` whether the session still runs, then try again"
            }
            FileProblem::Version { .. } => "make the session again with this version of ringfence",
        }
    }

    /// What the kernel said, if it was the kernel.
    pub fn errno(&self) -> Option<i32> {
        match &self.problem {
            FileProblem::Refused { errno } => Some(*errno),
            FileProblem::Local(error) => error.raw_os_error(),
            _ => None,
        }
    }
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        Self::Local(error)
    }
}

impl From<rustix::io::Errno> for FileProblem {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Local(errno.into())
    }
}

/// Says which operation on which path had a problem.
pub(super) fn failed(operation: &'static str, path: &Path) -> impl FnOnce(FileProblem) -> FileError {
    let path = path.to_path_buf();
    move |problem| FileError { operation, path, problem }
}

pub(super) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "a regular file",
        FileKind::Directory => "a directory",
        FileKind::Symlink => "a symbolic link",
        FileKind::Fifo => "a FIFO",
        FileKind::Socket => "a socket",
        FileKind::CharacterDevice => "a character device",
        FileKind::BlockDevice => "a block device",
        FileKind::Unknown => "a file of unknown kind",
    }
}
