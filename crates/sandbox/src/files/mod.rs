//! Files inside a session, from outside: the client of a file worker.
//!
//! Invariant: what the worker says is hostile. Every message has a largest size, every wait an end, every name and
//! descriptor is checked before it is used, and nothing is written outside the directory that a caller named.

mod beneath;
mod channel;
mod content;
mod copy;
mod copy_in;
mod copy_out;
mod draft;
mod error;
mod operations;
mod tree;
mod watch;

pub use channel::FileTimeouts;
pub use copy::{Copied, CopyLimits, CopyProgress};
pub use draft::Draft;
pub use error::{FileError, FileProblem};
pub use operations::{Files, ListLimit};
pub use tree::SessionTree;
pub use watch::Watch;
