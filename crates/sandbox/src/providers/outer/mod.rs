//! Sandboxes whose namespaces another program makes: bubblewrap, or a runtime for OCI bundles. That program starts this one
//! again, inside, with one end of the control channel; what it shows of the host lies in one directory, and guard makes the
//! root of it, closes the walls and serves, by the same code as under `native`.
//!
//! Invariant: the program gets what the plan shows and no more; before guard has said that it waits, nothing has been sent in.

mod bundle;
mod carrier;
mod inside;
mod order;
mod sources;

pub(super) use bundle::{BUNDLE, Bundle, CgroupView, ROOTFS, STATE, Told};
pub(super) use carrier::{Errand, Made, Outer, file_behind, launch};
pub use inside::{serve_anew, serve_in_container, serve_inside};
pub(super) use order::Order;
pub(super) use sources::{CONTROL, EXECUTABLE, Given, Source, sources};

/// The word, as the first argument, that makes this program guard inside a sandbox that another program made.
pub const GUARD_INSIDE: &str = "--guard-inside";
