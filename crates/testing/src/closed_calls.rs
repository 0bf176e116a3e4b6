//! The system calls that the reviewed table closes, with their numbers on this machine.

use ringfence_linux::seccomp::{Arch, Verdict, entries};

/// A closed call.
#[derive(Clone, Copy, Debug)]
pub struct ClosedCall {
    pub name: &'static str,
    pub number: u32,
    pub reason: &'static str,
}

/// Every closed call of this architecture.
#[must_use]
pub fn closed_calls() -> Vec<ClosedCall> {
    entries()
        .filter(|entry| entry.verdict == Verdict::Closed)
        .filter_map(|entry| {
            let number = entry.number(Arch::NATIVE)?;
            Some(ClosedCall { name: entry.name, number, reason: entry.reason })
        })
        .collect()
}
