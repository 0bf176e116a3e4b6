//! A directory of this host as a tree, reached beneath its descriptor and through no link.

mod read;
mod remove;
mod write;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat2};

use super::path::TreePath;

/// A path that the kernel takes in one call is shorter than 4096 bytes.
const MOST_STEP: usize = 4000;
const TMPFS: i64 = 0x0102_1994;

#[derive(Debug)]
pub struct LocalTree {
    root: Rc<OwnedFd>,
    /// The last directory that was opened: most entries come from it or from one in it.
    last: RefCell<Option<(TreePath, Rc<OwnedFd>)>>,
    times_tell: bool,
}

impl LocalTree {
    /// The path itself may be or go through a link: it is the caller's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::of(rustix::fs::open(path, flags, Mode::empty())?)
    }

    pub fn of(root: OwnedFd) -> io::Result<Self> {
        let times_tell = fstatfs(&root)?.f_type != TMPFS;
        Ok(Self { root: Rc::new(root), last: RefCell::new(None), times_tell })
    }

    pub(super) fn directory(&self, path: &TreePath) -> io::Result<Rc<OwnedFd>> {
        if path.is_top() {
            return Ok(Rc::clone(&self.root));
        }
        let (from, rest) = self.nearest(path);
        if rest.is_empty() {
            return Ok(from);
        }
        let opened = Rc::new(open_below(from.as_fd(), &rest)?);
        *self.last.borrow_mut() = Some((path.clone(), Rc::clone(&opened)));
        Ok(opened)
    }

    /// The directory of an entry, and its name there.
    pub(super) fn parent<'a>(&self, path: &'a TreePath) -> io::Result<(Rc<OwnedFd>, &'a OsStr)> {
        let (parent, name) = path.split().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.directory(&parent)?, OsStr::from_bytes(name)))
    }

    /// An open directory on the way to `path`, and the rest of the way.
    fn nearest(&self, path: &TreePath) -> (Rc<OwnedFd>, Vec<u8>) {
        match &*self.last.borrow() {
            Some((last, fd)) if last == path => (Rc::clone(fd), Vec::new()),
            Some((last, fd)) if path.below(last).is_some() => {
                (Rc::clone(fd), path.below(last).unwrap_or_default().to_vec())
            }
            _ => (Rc::clone(&self.root), path.as_bytes().to_vec()),
        }
    }

    fn forget_last(&self) {
        *self.last.borrow_mut() = None;
    }
}

/// In as many steps as the kernel's limit on paths asks for.
fn open_below(from: BorrowedFd<'_>, mut rest: &[u8]) -> io::Result<OwnedFd> {
    let mut opened: Option<OwnedFd> = None;
    while !rest.is_empty() {
        let end = if rest.len() <= MOST_STEP {
            rest.len()
        } else {
            rest[..MOST_STEP].iter().rposition(|&byte| byte == b'/').ok_or(io::ErrorKind::InvalidInput)?
        };
        let at = opened.as_ref().map_or(from, AsFd::as_fd);
        opened = Some(open_one(at, &rest[..end], OFlags::RDONLY | OFlags::DIRECTORY)?);
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    opened.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn open_one(at: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // With O_PATH the kernel takes no others: nothing is opened that could wait.
    let harmless =
        if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
    let flags = flags | harmless | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(at, OsStr::from_bytes(path), flags, Mode::empty(), resolve)?)
}
