//! Names of a directory that hostile programs write, reached without following a symlink anywhere on the way: the owner
//! of a sandbox may be root, and must not be led elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2};

/// The workspace, as a descriptor.
pub(super) fn open_workspace(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// The directory that holds `name`, and its last part.
pub(super) fn parent(workspace: impl AsFd, name: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let last = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = name.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        openat2(workspace, above, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)?;
    Ok((directory, last))
}

/// At most `most` bytes of a regular file. Anything else is an error, and nothing waits: a pipe would, for ever.
pub(super) fn read_file(workspace: impl AsFd, name: &Path, most: u64) -> io::Result<(Vec<u8>, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = openat2(workspace, name, flags, Mode::empty(), resolve)?;
    let facts = fstat(&file)?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::from(file).take(most).read_to_end(&mut bytes)?;
    Ok((bytes, facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn neither_a_link_on_the_way_nor_a_pipe_is_read() {
        let root = std::env::temp_dir().join(format!("ringfence-beneath-{}", std::process::id()));
        fs::create_dir_all(root.join("real")).unwrap();
        fs::write(root.join("real/file"), "text").unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let workspace = open_workspace(&root).unwrap();
        let read = |name: &str, most| read_file(&workspace, Path::new(name), most).map(|(bytes, _)| bytes);
        assert_eq!(read("real/file", 2).unwrap(), b"te");
        assert!(read("link/file", 9).is_err());
        assert!(read("pipe", 9).is_err());
        assert!(parent(&workspace, Path::new("link/file")).is_err());
        assert!(parent(&workspace, Path::new("../x")).is_err());
        fs::remove_dir_all(root).unwrap();
    }
}
