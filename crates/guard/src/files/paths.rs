//! Paths as a client names them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, readlink, statat};
use rustix::io::Errno;

/// With the NUL that ends it, as the kernel counts.
const PATH_MAX: usize = 4096;
/// As many as the kernel follows in one path.
const MAX_LINKS: usize = 40;
/// A setuid file left in a workspace is a trap for others on the host, and the filter closes the call that makes one.
const MODES: u32 = 0o1777;

/// An absolute path that the kernel can be given.
pub(super) fn checked(path: &Path) -> Result<&Path, Errno> {
    let path = checked_target(path)?;
    if path.is_absolute() { Ok(path) } else { Err(Errno::INVAL) }
}

/// Where a symbolic link shall lead: anything that the kernel can be given.
pub(super) fn checked_target(path: &Path) -> Result<&Path, Errno> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= PATH_MAX {
        Err(Errno::NAMETOOLONG)
    } else if bytes.contains(&0) {
        Err(Errno::INVAL)
    } else {
        Ok(path)
    }
}

pub(super) fn checked_mode(mode: u32) -> Result<Mode, Errno> {
    if mode & !MODES == 0 { Ok(Mode::from_raw_mode(mode)) } else { Err(Errno::PERM) }
}

/// The directory that a path is in, and its name there.
pub(super) fn split(path: &Path) -> Result<(&Path, &OsStr), Errno> {
    match (checked(path)?.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(Errno::INVAL),
    }
}

/// Where a path leads when it ends in symbolic links; what is at the end need not exist.
pub(super) fn follow(path: &Path) -> Result<PathBuf, Errno> {
    let mut path = checked(path)?.to_path_buf();
    for _ in 0..MAX_LINKS {
        match statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(path),
            Err(errno) => return Err(errno),
        }
        let target = readlink(&path, Vec::new())?;
        path = path.parent().unwrap_or(Path::new("/")).join(OsStr::from_bytes(target.as_bytes()));
        checked(&path)?;
    }
    Err(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_kernel_would_not_take_is_an_error() {
        let long = "/".to_string() + &"a".repeat(PATH_MAX - 1);
        for (path, errno) in
            [("a", Errno::INVAL), ("", Errno::INVAL), ("/a\0b", Errno::INVAL), (&long, Errno::NAMETOOLONG)]
        {
            assert_eq!(checked(Path::new(path)), Err(errno), "{path:?}");
        }
        assert!(checked(Path::new(&long[..PATH_MAX - 1])).is_ok());
    }

    #[test]
    fn a_path_without_a_name_is_no_place_for_a_file() {
        for path in ["/", "/a/..", "a"] {
            assert_eq!(split(Path::new(path)), Err(Errno::INVAL), "{path:?}");
        }
        assert_eq!(split(Path::new("/a/b/")), Ok((Path::new("/a"), OsStr::new("b"))));
    }

    #[test]
    fn no_mode_has_setuid_or_setgid() {
        assert_eq!(checked_mode(0o4755), Err(Errno::PERM));
        assert_eq!(checked_mode(0o2755), Err(Errno::PERM));
        assert_eq!(checked_mode(0o1777), Ok(Mode::from_raw_mode(0o1777)));
    }
}
