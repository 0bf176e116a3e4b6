//! A directory's entries with all that is known of each, in as many messages as it takes.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, statat};
use rustix::io::Errno;

use super::directory::{self, Then};
use super::look::link_target;
use super::outcome::{Answer, Refused};
use super::paths::checked;
use super::reply::FileReply;
use super::stat::{FileEntry, FileKind, FileStat};

/// A name of 255 bytes and a link target of 4,095, with room for the rest.
const LARGEST_ENTRY: usize = 4608;
/// What an entry takes on the wire without its name and its target, with room to spare.
const ENTRY_BYTES: usize = 96;

/// `send` gives false once nobody listens any more.
pub(super) fn list(path: &Path, send: &mut dyn FnMut(FileReply) -> bool) -> Result<Answer, Refused> {
    let directory = directory::open(checked(path)?, OFlags::empty())?;
    let mut batch = Batch::default();
    directory::for_each_name(&directory, |name, _| {
        let Some(entry) = look_at(directory.as_fd(), name)? else { return Ok(Then::Continue) };
        batch.push(entry);
        Ok(if batch.is_full() && !send(batch.take()) { Then::Stop } else { Then::Continue })
    })?;
    if !batch.entries.is_empty() {
        send(batch.take());
    }
    Ok(FileReply::Done.into())
}

#[derive(Default)]
struct Batch {
    entries: Vec<FileEntry>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, entry: FileEntry) {
        let target = entry.target.as_ref().map_or(0, |target| target.as_os_str().len());
        self.bytes += ENTRY_BYTES + entry.name.len() + target;
        self.entries.push(entry);
    }

    fn is_full(&self) -> bool {
        self.bytes + LARGEST_ENTRY > super::MESSAGE_BYTES
    }

    fn take(&mut self) -> FileReply {
        self.bytes = 0;
        FileReply::Entries(std::mem::take(&mut self.entries))
    }
}

/// `None`: gone since its name was read.
fn look_at(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<FileEntry>, Errno> {
    let looked = || {
        let stat = FileStat::from(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?);
        let target = match stat.kind {
            FileKind::Symlink => Some(link_target(directory, name)?),
            _ => None,
        };
        Ok(FileEntry { name: OsStr::from_bytes(name.to_bytes()).to_owned(), stat, target })
    };
    match looked() {
        Ok(entry) => Ok(Some(entry)),
        // A link that became something else between the two looks has no target to read.
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}
