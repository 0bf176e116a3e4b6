//! Descriptors that a command gets, and those that it must not get.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fcntl_getfl, fstat, open, seek};

/// Why a descriptor can't be a command's stdin, stdout or stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdioProblem {
    Directory,
    PathOnly,
    BlockDevice,
}

/// Look at a descriptor of the caller's before it is handed in. `Ok(None)`: it is closed.
pub fn check_stdio(fd: BorrowedFd<'_>) -> io::Result<Option<StdioProblem>> {
    let flags = fcntl_getfl(fd)?;
    if flags.contains(OFlags::PATH) {
        return Ok(Some(StdioProblem::PathOnly));
    }
    Ok(match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::Directory => Some(StdioProblem::Directory),
        FileType::BlockDevice => Some(StdioProblem::BlockDevice),
        _ => None,
    })
}

fn is_wide_regular_file(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let wide = fcntl_getfl(fd)? & OFlags::ACCMODE == OFlags::RDWR;
    Ok(wide && FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::RegularFile)
}

fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
    let keep = fcntl_getfl(fd)? & OFlags::APPEND;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let new = open(path, access | keep | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
    seek(&new, SeekFrom::Current(0)).and_then(|_| {
        let at = seek(fd, SeekFrom::Current(0))?;
        seek(&new, SeekFrom::Start(at))
    })?;
    Ok(new)
}

/// A regular file that is open for reading *and* writing, again for reading only; `None`: nothing to narrow.
pub fn reopen_read_only(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    if is_wide_regular_file(fd)? { reopen(fd, OFlags::RDONLY).map(Some) } else { Ok(None) }
}

/// The same for writing only.
pub fn reopen_write_only(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    if is_wide_regular_file(fd)? { reopen(fd, OFlags::WRONLY).map(Some) } else { Ok(None) }
}

fn close_range(first: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: closing or marking descriptors touches no memory; callers use no descriptor in the range any more
    // (`close_except`) or keep using them (`cloexec_from`).
    if unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Mark every descriptor from `first` on to close on exec.
pub fn cloexec_from(first: RawFd) -> io::Result<()> {
    close_range(first, libc::CLOSE_RANGE_CLOEXEC)
}

/// Put `from` at the number `to`, open across exec.
pub fn move_fd(from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    // dup2 of a descriptor onto itself would leave close-on-exec set.
    let done = if from.as_raw_fd() == to {
        // SAFETY: F_SETFD takes a number.
        unsafe { libc::fcntl(to, libc::F_SETFD, 0) }
    } else {
        // SAFETY: dup2 replaces the descriptor `to`; callers use it for 0, 1 and 2, or just before an exec, for numbers that
        // nothing uses any more.
        unsafe { libc::dup2(from.as_raw_fd(), to) }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Take a descriptor that this program was started with, by its number. Once only for each: it is the caller's from then on.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes no argument.
    if number <= 2 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is open, and nothing in this program has made or closed it: it comes from whoever started the program.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Close every descriptor above 2 but `keep`, whoever made it. Only for a process that uses no others any more.
pub fn close_except(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).filter(|&fd| fd > 2).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        if fd > first {
            // SAFETY: as for `close_range`: nothing in the range is used afterwards.
            if unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        first = fd + 1;
    }
    close_range(first, 0)
}
