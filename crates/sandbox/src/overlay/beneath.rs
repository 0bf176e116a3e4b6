//! Names beneath a directory, reached without a link and without leaving its filesystem.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, lgetxattr, open, openat2, readlinkat};
use rustix::io::Errno;

fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV
}

/// The top of a tree.
pub(super) fn open_top(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// A directory to look names up in. The empty path is `top` itself.
pub(super) fn open_directory(top: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(top, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve())
}

/// The directory that holds `path`, and its last part.
pub(super) fn open_parent(top: impl AsFd, path: &Path) -> Result<(OwnedFd, &OsStr), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Ok((open_directory(top, path.parent().unwrap_or(Path::new("")))?, name))
}

/// What is at `path`, to look at but not to read.
pub(super) fn open_any(top: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    openat2(top, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve())
}

/// A regular file for reading. Anything else is an error, and nothing waits: a pipe would, for ever.
pub(super) fn open_file(top: impl AsFd, path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(top, path, flags, Mode::empty(), resolve())?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(Errno::INVAL),
    }
}

/// The names in a directory, sorted; at most `most` of them, or `None`.
pub(super) fn list(directory: impl AsFd, most: usize) -> Result<Option<Vec<OsString>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = openat2(directory, ".", flags, Mode::empty(), resolve())?;
    let mut names = Vec::new();
    for entry in Dir::new(readable)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if names.len() == most {
            return Ok(None);
        }
        names.push(OsStr::from_bytes(name).to_owned());
    }
    names.sort();
    Ok(Some(names))
}

pub(super) fn read_link(directory: impl AsFd, name: impl AsRef<Path>) -> Result<PathBuf, Errno> {
    let target = readlinkat(directory, name.as_ref(), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// One of the overlay's own attributes of a name: those of an ordinary user's overlay, then those of root's.
pub(super) fn overlay_attribute(directory: impl AsFd, name: &OsStr, which: &str) -> Option<Vec<u8>> {
    // A way that follows no link at its end, which a descriptor that is good for looking only has not.
    let path = Path::new("/proc/self/fd").join(directory.as_fd().as_raw_fd().to_string()).join(name);
    ["user", "trusted"].into_iter().find_map(|space| {
        let mut value = [0u8; 256];
        let read = lgetxattr(&path, format!("{space}.overlay.{which}"), &mut value);
        match read {
            Ok(length) => Some(value[..length].to_vec()),
            // Longer than any that matters, but there.
            Err(Errno::RANGE) => Some(Vec::new()),
            Err(_) => None,
        }
    })
}

/// Something open as a path that can be opened or changed once more.
pub(super) fn magic_link(file: impl AsFd) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_fd().as_raw_fd().to_string())
}
