//! PID 1 of every sandbox: it starts the command, passes signals on, reaps what is left, and reports how it ended.
//!
//! Invariant: guard runs in a hostile neighbourhood. Commands have its uid, so it keeps nothing secret, cannot be
//! looked into, takes orders only from its control channel, and ends, with all in its pid namespace, when that
//! channel closes. It does no policy and allocates nothing large.

mod command;
mod files;
mod program;
mod serve;
mod session;
mod shim;
mod tree;
mod wire;

pub use command::{Command, Stdio};
pub use files::{
    Durability, Existing, FILES_VERSION, FileChange, FileEntry, FileEvent, FileKind, FileReply, FileRequest,
    FileStat, Links, MESSAGE_BYTES, Parents, Reach, Timestamp, serve_files,
};
pub use program::{Program, ToShim};
pub use serve::{OomScore, await_command, serve};
pub use session::{SessionGuard, serve_session};
pub use wire::{ExecStage, FromGuard, GUARD_VERSION, News, ToGuard};
