//! Pseudo-terminals.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{grantpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetwinsize, tcsetwinsize};

/// Both ends of a new pseudo-terminal.
#[derive(Debug)]
pub struct Pty {
    pub master: OwnedFd,
    pub slave: OwnedFd,
}

/// A new pseudo-terminal of the devpts that `ptmx` belongs to.
pub fn open_pty(ptmx: &Path, size: Winsize) -> io::Result<Pty> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = open(ptmx, flags, Mode::empty())?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = open(name.as_c_str(), flags, Mode::empty())?;
    tcsetwinsize(&master, size)?;
    Ok(Pty { master, slave })
}

/// Make `terminal` the controlling terminal of this session.
pub fn make_controlling(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes a number.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The size of a terminal, or a common one where it isn't known.
pub fn window_size(terminal: impl AsFd) -> Winsize {
    tcgetwinsize(terminal).unwrap_or(Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
}
