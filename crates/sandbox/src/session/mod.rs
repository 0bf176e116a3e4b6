//! Sessions: sandboxes that stay, each owned by a keeper, a small process of its own that clients talk to.

mod asynchronous;
mod attend;
mod client;
mod dial;
mod force;
mod fork;
mod forward;
mod keeper;
mod killed;
mod link;
mod log;
mod over_time;
mod place;
mod wire;

pub use asynchronous::{AsyncFiles, AsyncProcess, AsyncSandbox};
pub use attend::{Attending, attend};
pub use client::{Exec, ExecStdio, Exposed, Held, Process, Sandbox, SessionError};
pub use fork::ForkError;
pub use forward::{forward, into_background};
pub use keeper::{Claim, SessionSpec};
pub(crate) use link::{Link, in_memory};
pub use log::{LOG_BYTES, LogReader, LogStream};
pub use over_time::{HOME_ROOT, OverTimeError, SessionTrees, WORKSPACE_ROOT};
pub use place::{
    Asked, BootId, EndReason, Pillars, Place, ProcessId, SessionEnd, SessionFacts, WorkspaceKind, places,
};
pub use wire::{
    ProcessEnd, ProcessInfo, ProcessResult, SessionStats, SessionStatus, Stage, Text, call_again,
};
