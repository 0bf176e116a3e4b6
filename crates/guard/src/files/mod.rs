//! The file worker: a fork of guard that carries out file operations for a client outside.
//!
//! Invariant: it has the rights of a command inside and no more, so that nothing a client asks for reaches further
//! than a command could. It answers one request at a time on its own channel, opens files and hands the descriptors
//! out (content never passes through it), holds bounded memory, starts no thread, and ends when its channel closes.

mod change;
mod codec;
mod directory;
mod draft;
mod list;
mod look;
mod outcome;
mod paths;
mod remove;
mod reply;
mod request;
mod stat;
mod watch;
mod watches;
mod worker;

#[cfg(test)]
mod wire_tests;

pub use reply::{FileChange, FileEvent, FileReply};
pub use request::{Durability, Existing, FileRequest, Links, Parents, Reach};
pub use stat::{FileEntry, FileKind, FileStat, Timestamp};
pub use worker::serve_files;

/// The first message on a channel says it; both ends must say the same.
pub const FILES_VERSION: u32 = 1;

/// No reply is larger; a longer listing comes in several.
pub const MESSAGE_BYTES: usize = 64 << 10;
