//! Signals as data: blocked, and read from a descriptor in the one loop that a process has.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigemptyset fills the set it is given; sigaddset only fails for a bad number, which leaves the set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

fn change_mask(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is a live sigset and the old mask is not asked for.
    if unsafe { libc::sigprocmask(how, set, std::ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Give every signal its default action, but leave a broken pipe ignored: also those of the C library, which its own
/// `sigaction` refuses. A process with one thread that makes no more of them.
pub fn reset_signal_actions() -> io::Result<()> {
    const SIGNALS: i32 = 64;
    const SET_BYTES: usize = 8;
    // As the kernel has it: handler, flags, restorer and mask. All zero is the default action.
    let default = [0_u64; 4];
    let fixed = [libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE];
    for signal in (1..=SIGNALS).filter(|signal| !fixed.contains(signal)) {
        // SAFETY: the kernel reads a struct that is no larger than `default`, and writes nothing.
        let done = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<libc::c_void>(),
                SET_BYTES,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Block `signals` in this (single) thread.
fn block_signals(signals: &[i32]) -> io::Result<()> {
    change_mask(libc::SIG_BLOCK, &set_of(signals))
}

/// Block nothing any more.
pub fn unblock_all() -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &set_of(&[]))
}

/// A closed pipe ends a program, as programs expect: this one's runtime ignores that signal, and a command would inherit
/// it. What the caller ignores (`nohup`) stays ignored.
pub fn restore_pipe_signal() {
    // SAFETY: SIG_DFL is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Stop this process, as the terminal's suspend key would.
pub fn stop_self() {
    // SAFETY: raise touches no memory.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Blocked signals, to be read.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Block `signals` and make them readable.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        block_signals(signals)?;
        let set = set_of(signals);
        // SAFETY: `set` is a live sigset; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal, if one is waiting.
    pub fn next(&self) -> io::Result<Option<i32>> {
        // SAFETY: an all-zero signalfd_siginfo is a valid value of that plain struct.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is live and `size` is its size.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        if read == size as isize {
            return Ok(Some(info.ssi_signo as i32));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
