//! Where a need was read, and what is said about one that is not taken.

use std::fmt;

use serde::Serialize;

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "in")]
pub enum Origin {
    /// A key of the manifest's frontmatter: `metadata.openclaw.requires.bins`.
    Manifest { key: String },
    /// A line of a file of the skill, from 1.
    File { file: String, line: u32 },
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest { key } => write!(formatter, "SKILL.md, {key}"),
            Self::File { file, line } => write!(formatter, "{file}:{line}"),
        }
    }
}

/// Something that was declared and is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// As written, cut short where it is long.
    pub what: String,
    /// For people; lower case, no full stop.
    pub why: String,
    pub origin: Origin,
}
