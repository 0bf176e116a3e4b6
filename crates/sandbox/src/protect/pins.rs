//! Mounts on names of the workspace, made inside the sandbox's mount namespace. No symlink is followed: the workspace
//! may hold hostile ones, and another sandbox may be writing there right now.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use ringfence_linux::{MountFlags, attach_to, clone_tree, clone_tree_of, restrict_tree};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2, readlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::providers::Failure;
use crate::providers::Steps;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Pin {
    /// Stays writable but can't be renamed or removed.
    InPlace,
    ReadOnly,
    /// Shown as an empty file.
    Covered,
}

/// What to pin, ancestors first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pins(Vec<(PathBuf, Pin)>);

impl Pins {
    pub(super) fn read_only(&mut self, name: PathBuf) {
        self.add(name, Pin::ReadOnly);
    }

    pub(super) fn cover(&mut self, name: PathBuf) {
        self.add(name, Pin::Covered);
    }

    fn add(&mut self, name: PathBuf, pin: Pin) {
        for ancestor in name.ancestors().skip(1).filter(|ancestor| !ancestor.as_os_str().is_empty()) {
            if !self.0.iter().any(|(had, _)| had == ancestor) {
                self.0.push((ancestor.to_path_buf(), Pin::InPlace));
            }
        }
        match self.0.iter_mut().find(|(had, _)| *had == name) {
            Some((_, had)) => *had = pin.max(*had),
            None => self.0.push((name, pin)),
        }
    }

    /// Make the mounts on the workspace at `root`; `empty` has what covered names show.
    pub(crate) fn mount(&self, root: &Path, empty: &Path, steps: &Steps) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut pins: Vec<_> = self.0.iter().collect();
        pins.sort_by_key(|(name, _)| name.components().count());
        let directory = steps.run("open the workspace", root, || {
            Ok(open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
        })?;
        for (name, pin) in pins {
            steps.run("protect", name, || pin_one(&directory, name, *pin, empty))?;
        }
        Ok(())
    }
}

fn pin_one(directory: &OwnedFd, name: &Path, pin: Pin, empty: &Path) -> io::Result<()> {
    let found = open_beneath(directory, name);
    if pin == Pin::Covered && found.is_err() {
        // A socket that went away meanwhile.
        return Ok(());
    }
    let found = found?;
    let tree = match pin {
        Pin::Covered => clone_tree(&empty.join("file"))?,
        Pin::InPlace | Pin::ReadOnly => clone_tree_of(found.as_fd())?,
    };
    if pin == Pin::ReadOnly {
        restrict_tree(tree.as_fd(), MountFlags::READ_ONLY)?;
    }
    attach_to(tree.as_fd(), found.as_fd())
}

fn open_beneath(directory: &OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(directory, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// What is at a name of the workspace.
#[derive(Debug)]
pub(super) enum Found {
    Absent,
    File(u64),
    Directory(u64),
    /// A symlink, which can be pinned itself, and where it leads.
    Link(u64, PathBuf),
    /// Behind a symlink, or out of reach.
    Elsewhere,
}

pub(super) fn find(directory: &OwnedFd, name: &Path) -> Found {
    match open_beneath(directory, name) {
        Ok(found) => match fstat(&found) {
            Ok(facts) => match FileType::from_raw_mode(facts.st_mode) {
                FileType::Directory => Found::Directory(facts.st_ino),
                FileType::Symlink => match readlinkat(&found, "", Vec::new()) {
                    Ok(to) => Found::Link(facts.st_ino, PathBuf::from(OsString::from_vec(to.into_bytes()))),
                    Err(_) => Found::Elsewhere,
                },
                _ => Found::File(facts.st_ino),
            },
            Err(_) => Found::Elsewhere,
        },
        Err(Errno::NOENT) => Found::Absent,
        Err(_) => Found::Elsewhere,
    }
}
