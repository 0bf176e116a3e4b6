//! Removing a tree that may be hostile: no link is followed, and no depth runs out of stack or descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmod, fchmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::beneath;

/// Deeper directories are moved up and taken on their own.
const DEPTH: usize = 48;

/// Remove what is at a path and all in it. What is deeper than a path can be long is moved up beside it first.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidFilename)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    clear(openat(CWD, parent, flags, Mode::empty())?.as_fd(), name)
}

/// Remove `name` and all in it. That somebody else removes it too is no error.
pub(super) fn clear(at: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut moved_up = Vec::new();
    clear_one(at, at, name, 0, &mut moved_up)?;
    while let Some(next) = moved_up.pop() {
        clear_one(at, at, &next, 0, &mut moved_up)?;
    }
    Ok(())
}

fn clear_one(
    top: BorrowedFd<'_>,
    at: BorrowedFd<'_>,
    name: &str,
    depth: usize,
    moved_up: &mut Vec<String>,
) -> io::Result<()> {
    match unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let directory = match open_up(at, name) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if depth > DEPTH {
        let higher = format!("deep-{}", super::staging::random_name()?);
        match renameat(at, name, top, &*higher) {
            Ok(()) => moved_up.push(higher),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        return Ok(());
    }
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            _ if entry.file_type() == FileType::Directory => {
                // A name that is not UTF-8 can still be that of a directory: give it one that is.
                match entry.file_name().to_str() {
                    Ok(inner) => clear_one(top, directory.as_fd(), inner, depth + 1, moved_up)?,
                    Err(_) => {
                        let plain = super::staging::random_name()?;
                        renameat(&directory, entry.file_name(), &directory, &*plain)?;
                        clear_one(top, directory.as_fd(), &plain, depth + 1, moved_up)?;
                    }
                }
            }
            _ => match unlinkat(&directory, entry.file_name(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => {
                    let inner = entry.file_name().to_str().map_err(io::Error::other)?;
                    clear_one(top, directory.as_fd(), inner, depth + 1, moved_up)?;
                }
                Err(error) => return Err(error.into()),
            },
        }
    }
    match unlinkat(at, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A directory, with its owner's rights: what is in one that was closed can't be removed.
fn open_up(at: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let owner = Mode::RWXU;
    let opened = match beneath::open_directory(at, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let closed = openat(at, name, flags, Mode::empty())?;
            chmod(format!("/proc/self/fd/{}", closed.as_raw_fd()), owner)?;
            beneath::open_directory(at, name)
        }
        opened => opened,
    }?;
    if !Mode::from_raw_mode(fstat(&opened)?.st_mode).contains(owner) {
        fchmod(&opened, owner)?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_link_leads_to_stays() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("kept")).unwrap();
        fs::write(directory.path().join("kept/file"), "x").unwrap();
        fs::create_dir(directory.path().join("tree")).unwrap();
        std::os::unix::fs::symlink("../kept", directory.path().join("tree/link")).unwrap();
        let at = fs::File::open(directory.path()).unwrap();
        clear(at.as_fd(), "tree").unwrap();
        clear(at.as_fd(), "tree").unwrap();
        assert!(directory.path().join("kept/file").exists());
        assert!(!directory.path().join("tree").exists());
    }

    #[test]
    fn a_tree_of_any_depth_goes() {
        let directory = tempfile::tempdir().unwrap();
        let at = fs::File::open(directory.path()).unwrap();
        rustix::fs::mkdirat(&at, "tree", 0o700.into()).unwrap();
        let mut inner = beneath::open_directory(at.as_fd(), "tree").unwrap();
        // Far longer than any path can be.
        for _ in 0..15_000 {
            rustix::fs::mkdirat(&inner, "d", 0o700.into()).unwrap();
            inner = beneath::open_directory(inner.as_fd(), "d").unwrap();
        }
        drop(inner);
        remove_tree(&directory.path().join("tree")).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        remove_tree(&directory.path().join("tree")).unwrap();
    }

    #[test]
    fn directories_that_were_closed_go_too() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("tree/a/b")).unwrap();
        fs::write(at("tree/a/b/file"), "").unwrap();
        for (name, mode) in [("tree/a/b", 0o000), ("tree/a", 0o500), ("tree", 0o555)] {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        remove_tree(&at("tree")).unwrap();
        assert!(!at("tree").exists());
    }
}
