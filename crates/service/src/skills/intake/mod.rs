//! Bringing skills into the library: from a directory, an archive or a git repository, looked at before they are taken.

mod add;
mod fetch;
mod git;
mod judge;
mod source;

pub(super) use add::name_of_added;
pub use add::{AddReport, AddSpec, AddedSkill, add_skills};
pub use source::SourceSpec;

pub(super) use add::take;
pub(super) use fetch::{Fetched, fetch_origin};
pub(super) use judge::{accept, judge};
pub(super) use source::subdirectory;
