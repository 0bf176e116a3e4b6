//! What a protected file held at the start. A host program that replaces the file detaches the mount on it, and from then
//! on the command may have written it: nobody can tell whose the content is. The old one is put back, the other kept
//! beside it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, fchown, openat, renameat, statat};

use super::beneath::{parent, read_file};

/// Larger files are not kept: the end check then only reports.
const MOST_BYTES: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Kept {
    /// A small regular file; anything else is not kept.
    pub(super) fn read(workspace: impl AsFd, name: &Path) -> Option<Self> {
        let (bytes, facts) = read_file(workspace, name, MOST_BYTES + 1).ok()?;
        let small = bytes.len() as u64 <= MOST_BYTES;
        small.then_some(Self { bytes, mode: facts.st_mode & 0o777, uid: facts.st_uid, gid: facts.st_gid })
    }

    /// Put it back at `name`; the name that the other one has now, or `None` if there was nothing to do.
    pub(super) fn put_back(&self, workspace: impl AsFd, name: &Path) -> io::Result<Option<PathBuf>> {
        let (directory, last) = parent(&workspace, name)?;
        // Gone is harmless, and somebody's wish.
        if statat(&directory, last, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(None);
        }
        if read_file(&workspace, name, MOST_BYTES + 1).is_ok_and(|(now, _)| now == self.bytes) {
            return Ok(None);
        }
        let aside = free_name(&directory, last, "unverified");
        let fresh = self.write_beside(&directory, last)?;
        renameat(&directory, last, &directory, &aside)?;
        renameat(&directory, &fresh, &directory, last)?;
        Ok(Some(name.with_file_name(aside)))
    }

    /// Make it again if it is gone; whether it was.
    pub(super) fn restore_if_gone(&self, workspace: impl AsFd, name: &Path) -> io::Result<bool> {
        let (directory, last) = parent(&workspace, name)?;
        if statat(&directory, last, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(false);
        }
        let fresh = self.write_beside(&directory, last)?;
        renameat(&directory, &fresh, &directory, last)?;
        Ok(true)
    }

    /// The content in a new file beside `last`; its name.
    fn write_beside(&self, directory: &OwnedFd, last: &OsStr) -> io::Result<OsString> {
        let fresh = free_name(directory, last, "restored");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &fresh, flags, Mode::from_raw_mode(self.mode))?;
        let mut left = self.bytes.as_slice();
        while !left.is_empty() {
            left = &left[rustix::io::write(&file, left)?..];
        }
        // For root; an ordinary user's file is the user's anyway.
        let _ = fchown(&file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
        Ok(fresh)
    }
}

/// A free name beside `last`.
fn free_name(directory: &OwnedFd, last: &OsStr, what: &str) -> OsString {
    let name = |number: u32| {
        let mut name = last.to_owned();
        name.push(format!(".{what}-{}-{number}", std::process::id()));
        name
    };
    let is_free = |name: &OsString| statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_err();
    (0..1000).map(name).find(is_free).unwrap_or_else(|| name(1000))
}

#[cfg(test)]
mod tests {
    use super::super::beneath::open_workspace;
    use super::*;
    use std::fs;

    #[test]
    fn a_replaced_file_gets_its_content_back_and_the_other_is_kept() {
        let directory = std::env::temp_dir().join(format!("ringfence-kept-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config");
        fs::write(&path, "old").unwrap();
        let (workspace, name) = (open_workspace(&directory).unwrap(), Path::new("config"));
        let kept = Kept::read(&workspace, name).unwrap();
        assert_eq!(kept.put_back(&workspace, name).unwrap(), None);
        fs::write(&path, "new").unwrap();
        let aside = kept.put_back(&workspace, name).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_to_string(directory.join(aside)).unwrap(), "new");
        fs::remove_dir_all(directory).unwrap();
    }
}
