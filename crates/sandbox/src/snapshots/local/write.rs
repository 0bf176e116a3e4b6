//! New files and links come beside the old ones and take their place with one rename.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, Mode, OFlags, fchmod, futimens, mkdirat, openat, renameat, symlinkat, unlinkat, utimensat,
};

use super::{LocalTree, open_one};
use crate::snapshots::path::TreePath;
use crate::snapshots::sparse::write_sparse;
use crate::snapshots::temporary::random_name;
use crate::snapshots::tree::{Attributes, EntryTime, TreeWriter};

impl TreeWriter for LocalTree {
    fn make_directory(&self, path: &TreePath) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(mkdirat(&*parent, name, Mode::RWXU)?)
    }

    fn write_file(&self, path: &TreePath, content: &mut dyn Read, attributes: Attributes) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        in_place_of(parent.as_fd(), name, |beside| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = File::from(openat(&*parent, beside, flags, Mode::RUSR | Mode::WUSR)?);
            write_sparse(content, &file)?;
            set(file.as_fd(), attributes)
        })
    }

    fn write_link(&self, path: &TreePath, target: &[u8], modified: EntryTime) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        in_place_of(parent.as_fd(), name, |beside| {
            symlinkat(OsStr::from_bytes(target), &*parent, beside)?;
            set_link_time(parent.as_fd(), beside, modified)
        })
    }

    fn remove(&self, path: &TreePath) -> io::Result<()> {
        self.forget_last();
        let (parent, name) = self.parent(path)?;
        super::remove::remove_all(parent.as_fd(), name)
    }

    fn set_attributes(&self, path: &TreePath, attributes: Attributes) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        match open_one(parent.as_fd(), name.as_bytes(), OFlags::RDONLY) {
            Ok(opened) => set(opened.as_fd(), attributes),
            // Its owner may change what it may not read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                make_accessible(parent.as_fd(), name)?;
                set(open_one(parent.as_fd(), name.as_bytes(), OFlags::RDONLY)?.as_fd(), attributes)
            }
            Err(error) => Err(error),
        }
    }

    fn set_link_time(&self, path: &TreePath, modified: EntryTime) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        set_link_time(parent.as_fd(), name, modified)
    }
}

/// Give the owner all rights to a file or directory, and never to what a link leads to.
pub(super) fn make_accessible(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let reached = open_one(parent, name.as_bytes(), OFlags::PATH)?;
    let path = format!("/proc/self/fd/{}", reached.as_raw_fd());
    Ok(rustix::fs::chmod(path, Mode::RWXU)?)
}

fn in_place_of(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    make: impl FnOnce(&OsStr) -> io::Result<()>,
) -> io::Result<()> {
    let beside = random_name()?;
    let beside = OsStr::new(&beside);
    let made = make(beside).and_then(|()| Ok(renameat(parent, beside, parent, name)?));
    if made.is_err() {
        let _ = unlinkat(parent, beside, AtFlags::empty());
    }
    made
}

fn set(fd: BorrowedFd<'_>, attributes: Attributes) -> io::Result<()> {
    fchmod(fd, Mode::from_raw_mode(attributes.mode))?;
    Ok(futimens(fd, &attributes.modified.alone())?)
}

fn set_link_time(parent: BorrowedFd<'_>, name: &OsStr, modified: EntryTime) -> io::Result<()> {
    Ok(utimensat(parent, name, &modified.alone(), AtFlags::SYMLINK_NOFOLLOW)?)
}
