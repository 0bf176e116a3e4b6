//! Removing a tree of any depth with one open directory and 16 bytes a level, following no link.
//!
//! The way back up is `..`, which a rename inside can change: each directory is known by device and inode, and another
//! one than was come from ends the removal.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, open, unlinkat};
use rustix::io::Errno;

use super::directory::{self, Then};
use super::outcome::{Answer, Refused};
use super::paths::split;
use super::reply::FileReply;
use super::request::Reach;

type Identity = (u64, u64);

/// `go_on` is asked after every name; false ends it.
pub(super) fn remove(path: &Path, reach: Reach, go_on: &mut dyn FnMut() -> bool) -> Result<Answer, Refused> {
    let (parent, name) = split(path)?;
    let parent = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    match remove_one(&parent, name) {
        Err(Errno::NOTEMPTY | Errno::EXIST) if reach == Reach::Tree => {
            let top = directory::open_at(&parent, name, OFlags::NOFOLLOW)?;
            empty(top, go_on)?;
            remove_one(&parent, name)?;
        }
        removed => removed?,
    }
    Ok(FileReply::Done.into())
}

/// A file, a link or an empty directory.
fn remove_one(parent: &OwnedFd, name: impl rustix::path::Arg + Copy) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => unlinkat(parent, name, AtFlags::REMOVEDIR),
        removed => removed,
    }
}

fn empty(top: OwnedFd, go_on: &mut dyn FnMut() -> bool) -> Result<(), Errno> {
    let mut above: Vec<Identity> = Vec::new();
    let mut here = top;
    loop {
        if let Some(child) = first_that_is_not_empty(&here, go_on)? {
            let below = directory::open_at(&here, child.as_c_str(), OFlags::NOFOLLOW)?;
            above.push(identity(&here)?);
            here = below;
            continue;
        }
        let Some(expected) = above.pop() else { return Ok(()) };
        here = directory::open_at(&here, c"..", OFlags::empty())?;
        if identity(&here)? != expected {
            return Err(Errno::STALE);
        }
    }
}

fn identity(directory: &OwnedFd) -> Result<Identity, Errno> {
    let stat = fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Removes what can be removed at once, up to a directory that has something in it.
fn first_that_is_not_empty(
    here: &OwnedFd,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<CString>, Errno> {
    let mut found = None;
    directory::for_each_name(here, |name: &CStr, _| {
        if !go_on() {
            return Err(Errno::CANCELED);
        }
        match remove_one(here, name) {
            Ok(()) | Err(Errno::NOENT) => Ok(Then::Continue),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                found = Some(name.to_owned());
                Ok(Then::Stop)
            }
            Err(errno) => Err(errno),
        }
    })?;
    Ok(found)
}
