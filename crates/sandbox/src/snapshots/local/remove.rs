//! Removing a directory with all that is in it, however deep: nothing recurses, and three directories are open at most.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, OFlags, renameat, unlinkat};
use rustix::io::Errno;

use super::open_one;
use super::write::make_accessible;
use crate::snapshots::temporary::random_name;

/// A file, a link, or a directory. Directories that are found in it are moved up beside their parent, so that what is
/// to be emptied never gets deeper.
pub(super) fn remove_all(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        done => return Ok(done?),
    }
    let mut waiting: Vec<OsString> = vec![name.to_owned()];
    while let Some(directory) = waiting.pop() {
        empty(parent, &directory, &mut waiting)?;
        unlinkat(parent, &directory, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

fn empty(parent: BorrowedFd<'_>, name: &OsStr, waiting: &mut Vec<OsString>) -> io::Result<()> {
    let directory = open_to_empty(parent, name)?;
    for entry in names(directory.as_fd())? {
        match unlinkat(&directory, &entry, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => {
                let above = OsString::from(random_name()?);
                let found = OsStr::from_bytes(entry.as_bytes());
                make_accessible(directory.as_fd(), found)?;
                renameat(&directory, found, parent, &above)?;
                waiting.push(above);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn open_to_empty(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    make_accessible(parent, name)?;
    open_one(parent, name.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY)
}

fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
