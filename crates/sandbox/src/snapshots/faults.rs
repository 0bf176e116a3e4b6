//! Places where a save or an import can be cut short, so that a test can do it at each of them in turn.

use std::io;

#[cfg(not(test))]
pub(super) fn step() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) use in_tests::{Fault, set, step};

#[cfg(test)]
mod in_tests {
    use super::io;
    use std::cell::Cell;

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(in crate::snapshots) enum Fault {
        /// As when the disk is full.
        Fail,
        /// As when the process is killed: nothing is cleaned up.
        Abort,
    }

    thread_local! {
        static NEXT: Cell<Option<(u32, Fault)>> = const { Cell::new(None) };
    }

    /// The step with this number (from 0) of this thread is the one that fails. Gives what is left of the last one.
    pub(in crate::snapshots) fn set(at: Option<(u32, Fault)>) -> Option<(u32, Fault)> {
        NEXT.replace(at)
    }

    pub(in crate::snapshots) fn step() -> io::Result<()> {
        let Some((left, fault)) = NEXT.get() else { return Ok(()) };
        if left > 0 {
            NEXT.set(Some((left - 1, fault)));
            return Ok(());
        }
        NEXT.set(None);
        match fault {
            Fault::Fail => Err(io::Error::from_raw_os_error(28)),
            Fault::Abort => std::process::abort(),
        }
    }
}
