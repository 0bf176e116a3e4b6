//! The native provider: our own code on the kernel's mechanisms, with nothing installed.

mod anew;
mod child;
mod connect;
mod egress;
mod faults;
mod hand_out;
mod identity;
mod launch;
mod ready;
mod relay;
mod root;
mod setup;
mod stdio;
mod supervise;
mod syscalls;
mod trace;
mod warden;
mod written;

pub use anew::GUARD_ANEW;
pub(super) use anew::{Anew, Inherited};
pub(crate) use child::{DISK_FULL, TMP_FULL};
pub(super) use child::{Inheritance, Maker, SOURCES, STDIN_SOURCE, Start, live, live_on, stdin_place};
pub(crate) use faults::Steps;
pub(super) use hand_out::{Handed, Unpacked, as_stdio};
pub(super) use identity::{Wanted, map_from_outside, map_trees};
#[cfg(test)]
pub(crate) use launch::Launched;
pub use launch::Remains;
pub(crate) use launch::{Held, failed_inside, launch, run};
pub(super) use launch::{last_words, namespaces, send_trees};
pub use ready::{Ahead, Ready};
pub(crate) use relay::Relay;
pub(super) use root::is_second_name;
pub(crate) use setup::Failure;
pub(crate) use supervise::{limit_denial, other_version, speaks_the_same, strange};
pub(crate) use warden::{Call, Warden};
