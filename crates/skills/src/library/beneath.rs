//! Files and directories beneath a descriptor, through no link: others may write to a shared library too.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, fsync, mkdirat, openat2, statat,
};
use rustix::io::Errno;

const NO_LINKS: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// More in one directory is not a library.
const MOST_ENTRIES: usize = 1 << 17;

pub(super) fn open_directory(at: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    open(at, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), NO_LINKS)
}

/// A regular file, and nothing else: a pipe that somebody put there does not block.
pub(super) fn open_file(at: BorrowedFd<'_>, path: &str) -> io::Result<File> {
    regular(open(at, path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty(), NO_LINKS)?)
}

/// The same, also through links that stay beneath `at`.
pub(super) fn open_file_through_inner_links(at: BorrowedFd<'_>, path: &str) -> io::Result<File> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    regular(open(at, path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty(), resolve)?)
}

/// A whole file; one that is longer than `most` is an error.
pub(super) fn read_file(at: BorrowedFd<'_>, path: &str, most: u64) -> io::Result<Vec<u8>> {
    read_whole(open_file(at, path)?, most)
}

pub(super) fn read_whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {most} bytes")));
    }
    Ok(bytes)
}

/// A file that did not exist before, whatever the umask says about its mode.
pub(super) fn create_file(at: BorrowedFd<'_>, path: &str, mode: u32) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = File::from(open(at, path, flags, Mode::from_raw_mode(0o600), NO_LINKS)?);
    fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(file)
}

/// Content that is on disk when this returns. The name is, once its directory is synced.
pub(super) fn write_file(at: BorrowedFd<'_>, path: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = create_file(at, path, mode)?;
    file.write_all(content)?;
    fsync(&file)?;
    Ok(())
}

/// A file to take locks on, made if it is not there. Writable, because an exclusive lock over NFS asks for that.
pub(super) fn open_lock_file(at: BorrowedFd<'_>, path: &str, mode: u32) -> io::Result<File> {
    loop {
        if let Some(file) = open_lock_file_if_there(at, path)? {
            return Ok(file);
        }
        match create_file(at, path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
}

/// The same file, never made.
pub(super) fn open_lock_file_if_there(at: BorrowedFd<'_>, path: &str) -> io::Result<Option<File>> {
    match open(at, path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty(), NO_LINKS) {
        Ok(fd) => regular(fd).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A directory, made if it is not there. Its name is on disk once `at` is synced.
pub(super) fn ensure_directory(at: BorrowedFd<'_>, name: &str, mode: u32) -> io::Result<OwnedFd> {
    match mkdirat(at, name, Mode::from_raw_mode(0o700)) {
        Ok(()) => {
            let made = open_directory(at, name)?;
            fchmod(&made, Mode::from_raw_mode(mode))?;
            Ok(made)
        }
        Err(Errno::EXIST) => open_directory(at, name),
        Err(error) => Err(error.into()),
    }
}

/// Facts about a name itself; none if there is nothing.
pub(super) fn facts(at: BorrowedFd<'_>, name: &str) -> io::Result<Option<Stat>> {
    match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => Ok(Some(facts)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Is this descriptor what the name leads to now?
pub(super) fn is_still(open: BorrowedFd<'_>, at: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    let held = fstat(open)?;
    Ok(facts(at, name)?.is_some_and(|now| (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)))
}

/// What is in a directory, sorted; names that are not UTF-8 come with replacement characters and type `Unknown`.
pub(super) fn entries(directory: BorrowedFd<'_>) -> io::Result<Vec<(String, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let raw = entry.file_name();
        if matches!(raw.to_bytes(), b"." | b"..") {
            continue;
        }
        if found.len() >= MOST_ENTRIES {
            return Err(io::Error::other(format!("more than {MOST_ENTRIES} names in one directory")));
        }
        let Ok(name) = raw.to_str() else {
            found.push((raw.to_string_lossy().into_owned(), FileType::Unknown));
            continue;
        };
        // Some filesystems do not say the type here.
        let kind = match entry.file_type() {
            FileType::Unknown => match facts(directory, name)? {
                Some(facts) => FileType::from_raw_mode(facts.st_mode),
                None => continue,
            },
            known => known,
        };
        found.push((name.to_owned(), kind));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

fn regular(fd: OwnedFd) -> io::Result<File> {
    match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
        FileType::RegularFile => Ok(File::from(fd)),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

fn open(
    at: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    let mut tries = 0;
    loop {
        match openat2(at.as_fd(), path, flags | OFlags::CLOEXEC, mode, resolve) {
            // The kernel's answers where a rename happened beside the lookup, or took what was found away from beneath.
            Err(Errno::AGAIN | Errno::XDEV) if tries < 64 => tries += 1,
            Err(Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
