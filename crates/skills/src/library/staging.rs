//! Where a change is made ready: a directory of its own for each, in the library, on the same filesystem.
//!
//! Its owner holds a lock on a file in it, which ends with the process on whichever machine that is: staging without
//! a live owner is rubbish, and whoever takes the library's lock next removes it. It is made under that lock too, so
//! that nobody sees one before its owner has locked it.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::beneath;
use super::clear::clear;
use super::exclusive::{Exclusive, try_lock};

const OWNER: &str = "owner";

#[derive(Debug)]
pub(super) struct Staging {
    parent: OwnedFd,
    name: String,
    directory: OwnedFd,
    _owner: File,
}

impl Staging {
    /// `all` is the directory of all staging.
    pub(super) fn new(all: BorrowedFd<'_>, _proof: &Exclusive) -> io::Result<Self> {
        let name = random_name()?;
        // Others who may write to the library have no business in here.
        let directory = beneath::ensure_directory(all, &name, 0o700)?;
        let owner = beneath::open_lock_file(directory.as_fd(), OWNER, 0o600)?;
        if !try_lock(&owner)? {
            return Err(io::Error::other("new staging is locked by another"));
        }
        Ok(Self { parent: all.try_clone_to_owned()?, name, directory, _owner: owner })
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// An empty directory in it.
    pub(super) fn make(&self, name: &str) -> io::Result<OwnedFd> {
        beneath::ensure_directory(self.directory(), name, 0o700)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What can't be removed now is found by the next writer.
        let _ = clear(self.parent.as_fd(), &self.name);
    }
}

/// Staging whose owner is gone, by name.
pub(super) fn orphans(all: BorrowedFd<'_>, _proof: &Exclusive) -> io::Result<Vec<String>> {
    let mut orphans = Vec::new();
    for (name, _) in beneath::entries(all)? {
        let owner = beneath::open_directory(all, &name)
            .and_then(|directory| beneath::open_lock_file_if_there(directory.as_fd(), OWNER));
        match owner {
            Ok(Some(owner)) => {
                if try_lock(&owner).unwrap_or(false) {
                    orphans.push(name);
                }
            }
            // Made, never locked: its owner died between the two. Or no staging at all.
            Ok(None) => orphans.push(name),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(_) => orphans.push(name),
        }
    }
    Ok(orphans)
}

/// Unguessable, so that nobody prepares the place.
pub(super) fn random_name() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    }))
}
