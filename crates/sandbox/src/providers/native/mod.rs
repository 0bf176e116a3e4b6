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
mod warden;

pub(crate) use child::{DISK_FULL, TMP_FULL};
pub(crate) use faults::Steps;
pub(crate) use launch::{Held, failed_inside, launch, run};
pub(crate) use relay::Relay;
pub(crate) use setup::Failure;
pub(crate) use supervise::{limit_denial, strange};
pub(crate) use warden::{Call, Warden};
