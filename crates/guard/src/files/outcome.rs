//! How one request ends: an answer, or why there is none.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::reply::FileReply;
use super::stat::FileKind;

/// A reply, and the descriptor that goes out with it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) reply: FileReply,
    pub(super) fd: Option<OwnedFd>,
}

impl Answer {
    pub(super) fn with(reply: FileReply, fd: OwnedFd) -> Self {
        Self { reply, fd: Some(fd) }
    }
}

impl From<FileReply> for Answer {
    fn from(reply: FileReply) -> Self {
        Self { reply, fd: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Errno(Errno),
    NotRegular(FileKind),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Errno(errno) => FileReply::Failed { errno: errno.raw_os_error().unsigned_abs() },
            Refused::NotRegular(kind) => FileReply::NotRegular { kind },
        }
        .into()
    }
}
