//! The listener's end of a filter: takes notified calls and answers them. A call waits until it is answered;
//! when the last descriptor of the listener closes, waiting and later calls fail with ENOSYS.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
const SYNC_WAKE_UP: u64 = 1;

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Names this call in the answer.
    pub id: u64,
    /// The calling thread, as seen from the listener's PID namespace; 0 if it can't be seen from there.
    pub pid: u32,
    /// The `AUDIT_ARCH_*` value of the entry that was used.
    pub arch: u32,
    pub nr: u32,
    pub args: [u64; 6],
}

/// Answers the calls of one filter. Poll its descriptor: readable means that a call waits, hung up that no
/// process is left under the filter.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

// The kernel's first layout of both structs, which the ioctl numbers carry: a kernel with a longer one has to
// keep serving these.
const _: () = assert!(size_of::<libc::seccomp_notif>() == 80 && size_of::<libc::seccomp_notif_resp>() == 24);

impl Listener {
    pub fn new(fd: OwnedFd) -> Self {
        // A caller that waits anyway leaves its processor to who answers it. Linux 6.6; elsewhere it is only slower.
        // SAFETY: the descriptor is open; this call takes a number.
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        Listener { fd }
    }

    /// Takes the next call. `None` when the one that made the descriptor readable is gone (its process was
    /// killed). Blocks when no call waits, so poll first.
    pub fn recv(&self) -> io::Result<Option<Notification>> {
        loop {
            // SAFETY: an all-zero `seccomp_notif` is valid, and the kernel demands one.
            let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the descriptor is open; the kernel writes one `seccomp_notif` to `raw`.
            let result =
                unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
            if result == 0 {
                let data = raw.data;
                return Ok(Some(Notification {
                    id: raw.id,
                    pid: raw.pid,
                    arch: data.arch,
                    nr: data.nr as u32,
                    args: data.args,
                }));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENOENT) => return Ok(None),
                Some(libc::EINTR) => {}
                _ => return Err(error),
            }
        }
    }

    /// Fails the call with an errno.
    pub fn deny(&self, id: u64, errno: i32) -> io::Result<()> {
        self.answer(libc::seccomp_notif_resp { id, val: 0, error: -errno.abs(), flags: 0 })
    }

    /// Lets the kernel carry the call out. Only sound for a decision that rests on registers: memory that
    /// arguments point at can change between the look and the call.
    pub fn continue_call(&self, id: u64) -> io::Result<()> {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.answer(libc::seccomp_notif_resp { id, val: 0, error: 0, flags })
    }

    /// Makes the call return a value without being carried out.
    pub fn return_value(&self, id: u64, value: i64) -> io::Result<()> {
        self.answer(libc::seccomp_notif_resp { id, val: value, error: 0, flags: 0 })
    }

    /// Whether the call still waits. Ask after reading the caller's memory or `/proc` entry: if it still
    /// waits, the pid was not reused in between.
    pub fn is_alive(&self, id: u64) -> bool {
        // SAFETY: the descriptor is open; the kernel reads one `u64`.
        let result =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) };
        result == 0
    }

    /// A caller that is gone needs no answer, so ENOENT is no error.
    fn answer(&self, mut response: libc::seccomp_notif_resp) -> io::Result<()> {
        // SAFETY: the descriptor is open; the kernel reads one `seccomp_notif_resp`.
        let result =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> OwnedFd {
        listener.fd
    }
}

#[cfg(test)]
#[path = "notify_tests.rs"]
mod tests;
