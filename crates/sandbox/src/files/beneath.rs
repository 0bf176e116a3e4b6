//! A local tree that is entered by descriptor: no link in it is followed, and no name leads out of it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, openat2, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// The owner only, while it is being written.
const NEW_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Open `path` under `root` with `flags`; a link anywhere in it is an error.
pub(super) fn open_beneath(root: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // An empty path is no path to the kernel.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), stay)
}

pub(super) fn open_directory(root: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    open_beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Something new under a name of its own, which goes again unless it is put in its place.
#[derive(Debug)]
pub(super) struct Placing<'a> {
    directory: &'a OwnedFd,
    name: String,
}

impl<'a> Placing<'a> {
    pub(super) fn file(directory: &'a OwnedFd) -> Result<(Self, File), Errno> {
        let name = new_name()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, &name, flags, NEW_FILE)?;
        Ok((Self { directory, name }, file.into()))
    }

    pub(super) fn symlink(directory: &'a OwnedFd, target: &Path) -> Result<Self, Errno> {
        let name = new_name()?;
        symlinkat(target, directory, &name)?;
        Ok(Self { directory, name })
    }

    /// Over a file or a link that is there; never over a directory.
    pub(super) fn put(self, name: &OsStr) -> Result<(), Errno> {
        renameat_with(self.directory, &self.name, self.directory, name, RenameFlags::empty())
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        // After `put` there is nothing under this name any more.
        let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}

fn new_name() -> Result<String, Errno> {
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    Ok(format!(".ringfence-{:016x}", u64::from_ne_bytes(random)))
}
