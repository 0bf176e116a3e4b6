//! The native provider: our own code on the kernel's mechanisms, with nothing installed.

mod child;
mod connect;
mod egress;
mod faults;
mod identity;
mod launch;
mod relay;
mod setup;
mod stdio;
mod supervise;
mod syscalls;
mod trace;

pub(crate) use faults::Steps;
pub(crate) use launch::run;
pub(crate) use setup::Failure;
