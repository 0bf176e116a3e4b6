//! The reviewed system-call data, one file a topic: every call of kernel 6.18 on x86_64, aarch64 and i386,
//! with the verdict and the reason for it. Change a line here and the filter changes with it.

use super::table::{ArgRule, Entry, Verdict};

mod files;
mod io;
mod memory;
mod network;
mod processes;
mod system;
mod x32;

pub(super) use x32::X32;

/// The topics, each sorted by name.
pub(super) const TOPICS: [&[Entry]; 6] =
    [files::CALLS, io::CALLS, memory::CALLS, network::CALLS, processes::CALLS, system::CALLS];

/// Turns lines of `name x86_64 aarch64 i386 verdict "reason";` into entries.
macro_rules! calls {
    ($($name:ident $x86_64:tt $aarch64:tt $i386:tt $verdict:ident $(($rule:ident))? $reason:literal;)*) => {
        pub(super) const CALLS: &[super::Entry] = &[$(super::Entry {
            name: stringify!($name),
            x86_64: super::number!($x86_64),
            aarch64: super::number!($aarch64),
            i386: super::number!($i386),
            verdict: super::Verdict::$verdict $((super::ArgRule::$rule))?,
            reason: $reason,
        }),*];
    };
}
macro_rules! number {
    (-) => {
        None
    };
    ($number:literal) => {
        Some($number)
    };
}
use calls;
use number;
