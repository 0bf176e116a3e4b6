//! Control groups, v1 and v2: find where one may be made, make it, enter it on the start path, read it, remove it.
//!
//! A group is made beneath the caller's own (v1) or beside it (v2, where a group with processes has no
//! controllers to give), so that limits which already hold for the caller go on holding.

mod find;
mod group;
mod sweep;

pub use find::{Controller, Hierarchy};
pub use group::{Cgroup, CgroupCounts, CgroupError, CgroupLimits};
pub use sweep::sweep;
