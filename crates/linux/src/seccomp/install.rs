//! Puts a program on the calling thread. Everything the thread starts afterwards inherits it, for good.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::assemble::{Insn, Program};

/// Whether the filter has a listener, which notified calls go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    Yes,
    No,
}

const _: () = assert!(
    size_of::<Insn>() == size_of::<libc::sock_filter>()
        && align_of::<Insn>() == align_of::<libc::sock_filter>()
);

/// Installs a filter on the calling thread, which has set `no_new_privs` or is privileged; returns the listener.
/// The listener's descriptor is close-on-exec.
pub fn install(program: &Program, listen: Listen) -> io::Result<Option<OwnedFd>> {
    match listen {
        Listen::No => set_filter(program, 0).map(|_| None),
        Listen::Yes => {
            let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            // Once the listener has a call, only a deadly signal takes it back: no call is reported twice
            // because a SIGCHLD came in between. Kernels before 5.19 do not know the flag.
            let fd = set_filter(program, listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).or_else(
                |error| match error.raw_os_error() {
                    Some(libc::EINVAL) => set_filter(program, listener),
                    _ => Err(error),
                },
            )?;
            // SAFETY: with NEW_LISTENER the call returns a new descriptor that nothing else owns.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
        }
    }
}

fn set_filter(program: &Program, flags: libc::c_ulong) -> io::Result<RawFd> {
    let instructions = program.instructions();
    let len = u16::try_from(instructions.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: instructions.as_ptr().cast_mut().cast() };
    // SAFETY: `program` points at `len` instructions laid out as `sock_filter` (asserted above), alive for the
    // call; the kernel copies and checks them and writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}
