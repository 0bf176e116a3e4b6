//! Writing beneath one directory, and taking everything back if it can't be finished.
//!
//! Invariant: nothing is opened, made or removed but beneath the directory, through no link, and only what is new.

use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, fchmod, mkdirat, openat2, symlinkat, unlinkat};
use rustix::io::Errno;

use super::error::ArchiveError;

pub(super) struct Place<'a> {
    root: BorrowedFd<'a>,
    made: Vec<(String, AtFlags)>,
}

impl<'a> Place<'a> {
    /// The directory must be empty.
    pub(super) fn new(root: BorrowedFd<'a>) -> Result<Self, ArchiveError> {
        let failed = |errno: Errno| ArchiveError::io("the directory to unpack into", errno);
        // A descriptor of our own: reading moves the offset, and theirs may be good for walking only.
        let own = openat2(
            root,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            beneath(),
        )
        .map_err(failed)?;
        for entry in Dir::new(own).map_err(failed)? {
            if !matches!(entry.map_err(failed)?.file_name().to_bytes(), b"." | b"..") {
                return Err(ArchiveError::NotEmpty);
            }
        }
        Ok(Self { root, made: Vec::new() })
    }

    pub(super) fn directory(&mut self, path: &str) -> Result<(), ArchiveError> {
        let failed = |errno: Errno| ArchiveError::io(path, errno);
        let (parent, name) = self.parent(path).map_err(failed)?;
        mkdirat(&parent, name, Mode::from_raw_mode(0o755)).map_err(failed)?;
        self.made.push((path.to_owned(), AtFlags::REMOVEDIR));
        // The umask had its say in mkdir.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat2(&parent, name, flags, Mode::empty(), beneath()).map_err(failed)?;
        fchmod(&made, Mode::from_raw_mode(0o755)).map_err(failed)
    }

    pub(super) fn file(&mut self, path: &str, executable: bool) -> Result<File, ArchiveError> {
        let failed = |errno: Errno| ArchiveError::io(path, errno);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat2(self.root, path, flags, Mode::from_raw_mode(0o600), beneath()).map_err(failed)?;
        self.made.push((path.to_owned(), AtFlags::empty()));
        let mode = if executable { 0o755 } else { 0o644 };
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(failed)?;
        Ok(File::from(file))
    }

    pub(super) fn link(&mut self, path: &str, to: &str) -> Result<(), ArchiveError> {
        let failed = |errno: Errno| ArchiveError::io(path, errno);
        let (parent, name) = self.parent(path).map_err(failed)?;
        symlinkat(to, &parent, name).map_err(failed)?;
        self.made.push((path.to_owned(), AtFlags::empty()));
        Ok(())
    }

    /// What was made stays.
    pub(super) fn keep(mut self) {
        self.made.clear();
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), Errno> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok((openat2(self.root, parent, flags, Mode::empty(), beneath())?, name))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        while let Some((path, flags)) = self.made.pop() {
            // What can't be removed was changed by someone else: it is theirs now.
            if let Ok((parent, name)) = self.parent(&path) {
                let _ = unlinkat(&parent, name, flags);
            }
        }
    }
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_not_kept_is_gone_and_only_that() {
        let directory = tempfile::tempdir().unwrap();
        let root = File::open(directory.path()).unwrap();
        let mut place = Place::new(root.as_fd()).unwrap();
        place.directory("a").unwrap();
        place.directory("a/b").unwrap();
        place.file("a/b/c", true).unwrap();
        place.link("a/l", "b/c").unwrap();
        std::fs::write(directory.path().join("theirs"), "").unwrap();
        drop(place);
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["theirs"]);
        assert!(matches!(Place::new(root.as_fd()), Err(ArchiveError::NotEmpty)));
    }

    #[test]
    fn nothing_goes_through_a_link_or_out() {
        let outside = tempfile::tempdir().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let root = File::open(directory.path()).unwrap();
        let mut place = Place::new(root.as_fd()).unwrap();
        place.link("out", outside.path().to_str().unwrap()).unwrap();
        place.link("dangling", "new").unwrap();
        assert!(place.file("out/x", false).is_err());
        assert!(place.directory("out/x").is_err());
        assert!(place.link("out/x", "y").is_err());
        assert!(place.file("../x", false).is_err());
        assert!(place.file("dangling", false).is_err());
        place.file("same", false).unwrap();
        assert!(place.file("same", false).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
