//! Entries of a directory with what is known of each, and files to read.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, OFlags, fstat, readlinkat, statat};
use rustix::io::Errno;

use super::{LocalTree, open_one};
use crate::snapshots::path::TreePath;
use crate::snapshots::tree::{EntryKind, EntryStat, Listed, Tree};

impl Tree for LocalTree {
    fn list(&self, directory: &TreePath, most: usize) -> io::Result<Vec<Listed>> {
        let fd = self.directory(directory)?;
        let mut listed = Vec::new();
        for entry in Dir::read_from(&*fd)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if listed.len() == most {
                break;
            }
            match look_at(fd.as_fd(), name) {
                Ok(entry) => listed.push(entry),
                // Gone, or a link no more.
                Err(Errno::NOENT | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(listed)
    }

    fn open(&self, file: &TreePath) -> io::Result<File> {
        let (directory, name) = self.parent(file)?;
        let opened = open_one(directory.as_fd(), name.as_bytes(), OFlags::RDONLY)?;
        match EntryStat::from(fstat(&opened)?).kind {
            EntryKind::File => Ok(File::from(opened)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        }
    }

    fn times_tell(&self) -> bool {
        self.times_tell
    }
}

fn look_at(directory: BorrowedFd<'_>, name: &CStr) -> Result<Listed, Errno> {
    let stat = EntryStat::from(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?);
    let target = match stat.kind {
        EntryKind::Link => Some(readlinkat(directory, name, Vec::new())?.into_bytes()),
        _ => None,
    };
    Ok(Listed { name: name.to_bytes().to_vec(), stat, target })
}
