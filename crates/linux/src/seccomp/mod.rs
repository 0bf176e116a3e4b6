//! The seccomp filter: reviewed data on every system call, a compiler from it to a short classic-BPF tree,
//! installation, and the listener that reports closed calls.
//!
//! Invariant: a filter is compiled from the table and the caller's [`Rules`] only, and looks at nothing but
//! register values, so no memory that a program can change under our hands decides anything.

mod args;
mod assemble;
mod compile;
mod conditions;
mod data;
mod install;
mod notify;
mod rules;
mod table;
mod tree;

#[cfg(test)]
mod emulate;

pub use assemble::{Insn, Program};
pub use compile::{CompileError, compile};
pub use conditions::{CallRule, Condition, UnixSockets};
pub use install::{Listen, install};
pub use notify::{Listener, Notification};
pub use rules::{ClosedAction, Decision, Rules};
pub use table::{Arch, ArgRule, Entry, Verdict, entries, entry, entry_of, name_of, reason_of};
