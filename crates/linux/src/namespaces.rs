//! New processes in new namespaces.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::diag::UnixSockets;
use crate::network::{NetworkShape, Settings, furnish};
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

/// Run `program` in a child that shares this process's memory until it has become another program or left; this process
/// waits meanwhile. Nothing is copied, which is most of what a fork costs. By the call that guard's own filter leaves
/// open.
///
/// `program` execs; if it returns, the child leaves with 127. What it changes in memory is changed here too.
pub fn spawn(program: &dyn Fn()) -> io::Result<i32> {
    /// Room for the path look-up and the formatting that a command's start needs.
    const STACK_BYTES: usize = 256 << 10;

    extern "C" fn start(program: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is to the reference below, which outlives the child's use of it: the parent is held
        // until the child has left this memory.
        let program = unsafe { &*program.cast::<&dyn Fn()>() };
        program();
        crate::process::exit_now(127)
    }

    if thread_count()? != 1 {
        return Err(io::Error::other("a process with threads may not fork"));
    }
    let flags = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
    // SAFETY: a new anonymous mapping touches nothing that is there.
    let stack = unsafe { libc::mmap(std::ptr::null_mut(), STACK_BYTES, flags, kind, -1, 0) };
    if stack == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let argument = (&raw const program).cast_mut().cast::<libc::c_void>();
    // SAFETY: the stack is ours, large enough and 16-byte aligned at its end; `start` does not return to it; the process has
    // one thread and is held (CLONE_VFORK) while the child uses its memory (CLONE_VM).
    let pid = unsafe {
        libc::clone(
            start,
            stack.byte_add(STACK_BYTES),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            argument,
        )
    };
    let result = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) };
    // SAFETY: the child has left this memory, and nothing else knows the mapping.
    unsafe { libc::munmap(stack, STACK_BYTES) };
    result
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

/// Fork a copy of this process, by the call that guard's own filter leaves open. `None` in the child.
pub fn fork_copy() -> io::Result<Option<i32>> {
    if thread_count()? != 1 {
        return Err(io::Error::other("a process with threads may not fork"));
    }
    // SAFETY: the process has one thread, so that no lock is left held in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// A network namespace that can be entered, and asked for its unix sockets.
#[derive(Debug)]
pub struct NewNetwork {
    pub namespace: OwnedFd,
    /// Tells of its unix sockets.
    pub sockets: UnixSockets,
    /// Those of its shape, in order.
    pub served: Vec<OwnedFd>,
}

/// Make a new network namespace with `lo` up in this thread, and give it to whoever can enter it.
pub fn make_network(furniture: Option<(&NetworkShape, &Settings)>) -> io::Result<NewNetwork> {
    unshare(libc::CLONE_NEWNET)?;
    crate::sockets::loopback_up()?;
    let sockets = UnixSockets::here()?;
    let served = match furniture {
        Some((shape, settings)) => furnish(shape, settings)?,
        None => Vec::new(),
    };
    Ok(NewNetwork { namespace: std::fs::File::open("/proc/thread-self/ns/net")?.into(), sockets, served })
}

/// Enter a network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns reads no memory.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: unshare reads no memory; the flags used here do not unshare the descriptor table.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts of this process from now on are its own and its children's, and go with them.
pub fn unshare_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)?;
    crate::mount::make_private()
}

/// Make the cgroup that this process is in look like the root.
pub fn unshare_cgroup() -> io::Result<()> {
    unshare(libc::CLONE_NEWCGROUP)
}

/// Enter a new, nested user namespace; its id maps are still to be written.
pub fn unshare_user() -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER)
}
