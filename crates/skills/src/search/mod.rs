//! Search: ranked full text over names, tags, descriptions and bodies, in an SQLite FTS5 index.
//!
//! The index is a cache: it lies in a directory that the caller gives, never in a library, follows what changed, and is
//! made anew when it is missing, damaged or of another format. What a user types never reaches the query language of
//! FTS5 but as quoted words.

mod catalogue;
mod find;
mod index;
mod query;
mod snippet;
mod sync;
mod text;
mod words;

pub use catalogue::Searched;
pub use find::{Hit, Matched};
pub use index::{SearchError, SearchIndex};
pub use snippet::Snippet;
pub use sync::Synced;
pub use text::SkillText;
