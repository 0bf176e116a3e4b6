//! New processes in new namespaces.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::process::thread_count;

/// libc's constant is an i32, which this does not fit.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which namespaces a child gets of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    pub const USER: Self = Self(libc::CLONE_NEWUSER as u64);
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u64);
    pub const PID: Self = Self(libc::CLONE_NEWPID as u64);
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET as u64);
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u64);
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u64);

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Fork {
    Parent { pid: i32, pidfd: OwnedFd },
    Child,
}

/// Fork without new namespaces, by the call that guard's own filter leaves open: the child's pid, or `None` in it.
pub fn fork() -> io::Result<Option<i32>> {
    if thread_count()? != 1 {
        return Err(io::Error::other("a process with threads may not fork"));
    }
    // SAFETY: the process has one thread, so that the child holds no lock of another.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Fork a child that is the first process of `namespaces`, and, with cgroup v2, already in `cgroup`.
///
/// Refused in a process with more than one thread: the child would hold locks of threads that it does not have.
pub fn fork_into(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    if thread_count()? != 1 {
        return Err(io::Error::other("a process with threads may not fork a sandbox"));
    }
    let mut pidfd: RawFd = -1;
    let mut flags = namespaces.0 | libc::CLONE_PIDFD as u64;
    if cgroup.is_some() {
        flags |= CLONE_INTO_CGROUP;
    }
    let mut args = libc::clone_args {
        flags,
        pidfd: (&raw mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    // SAFETY: without CLONE_VM the child gets a copy of this address space, as fork does; `args` and `pidfd` live
    // across the call, and the process has one thread, so that no lock is left held in the child.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => {
            // SAFETY: CLONE_PIDFD made the kernel store a new descriptor here, which nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Fork::Parent { pid: pid as i32, pidfd })
        }
    }
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: unshare reads no memory; the flags used here do not unshare the descriptor table.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Make the cgroup that this process is in look like the root.
pub fn unshare_cgroup() -> io::Result<()> {
    unshare(libc::CLONE_NEWCGROUP)
}

/// Enter a new, nested user namespace; its id maps are still to be written.
pub fn unshare_user() -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER)
}
