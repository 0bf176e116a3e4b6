//! The library: where skills live, as folders that people read and edit, with every published version behind them.
//!
//! The folder is the working copy. Versions are whole trees under their digest. A change is made ready beside, on the
//! same filesystem, and put in place by one rename under a lock; readers take no lock. Whatever is killed whenever, a
//! skill is what it was or what it was to be.

mod add;
mod beneath;
mod change;
mod clear;
mod copy;
mod discover;
mod error;
mod exclusive;
mod history;
mod list;
mod lockfile;
mod name;
mod open;
mod origin;
mod outdated;
mod revise;
mod staging;
mod status;
mod steps;
mod template;
mod verify;
mod versions;
mod watch;

pub use add::{Add, Added, Replace};
pub use change::Edits;
pub use clear::remove_tree;
pub use discover::{Found, PLACES, Place, Scope, discover};
pub use error::{LibraryError, Unreadable};
pub use history::{Action, Record};
pub use list::{Listing, Stray};
pub use lockfile::{LockFile, Mismatch, Pin};
pub use name::{DEFAULT_DOMAIN, Domain, Reference, SkillName, Wanted};
pub use open::{Create, Library};
pub use origin::SkillOrigin;
pub use outdated::{Outdated, digest_of};
pub use status::Status;
pub use template::{Language, TemplateFile, template};
pub use verify::{Cleared, Trouble, Verified};
pub use watch::{Changes, Depth, Fingerprint, Stamp};
