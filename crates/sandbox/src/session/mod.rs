//! Sessions: sandboxes that stay, each owned by a keeper, a small process of its own that clients talk to.

mod asynchronous;
mod attend;
mod client;
mod forward;
mod keeper;
mod link;
mod log;
mod place;
mod wire;

pub use asynchronous::AsyncProcess;
pub use attend::{Attending, attend};
pub use client::{Exec, ExecStdio, Exposed, Held, Process, Sandbox, SessionError};
pub use forward::{forward, into_background};
pub use keeper::{Claim, SessionSpec};
pub(crate) use link::Link;
pub use log::{LOG_BYTES, LogReader, LogStream};
pub use place::{Asked, EndReason, Place, SessionEnd, SessionFacts, WorkspaceKind, places};
pub use wire::{ProcessEnd, ProcessInfo, ProcessResult, SessionStats, SessionStatus, Stage, Text};
