//! Root filesystem images: what a sandbox can show in place of the host's system directories.
//!
//! Invariant: what is read here is hostile, or the host's own programs; nothing of either is executed, and no link of either is
//! followed without a look at what is there. A name from an archive is a key of a map until it is a checked [`TreePath`], and
//! reaches a disk only beneath a directory of our own. It knows no policy.
//!
//! [`TreePath`]: ringfence_sandbox::snapshots::TreePath

mod archive;
mod build;
mod directory;
mod docker;
mod draft;
mod error;
mod host;
mod layer;
mod layout;
mod pack;
mod spool;
mod store;

#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod layer_tests;

pub use build::{Built, ImageSource, build};
pub use error::ImageError;
pub use pack::{PackedImage, PackedSkill, pack_image};
pub use store::{FoundImage, ImageRecord, ImageStore, find_image};
