//! Where a need was read, and what is said about one that is not taken.

use std::fmt;

use serde::Serialize;

use super::text::shown;

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

/// What is said while reading, within bounds: a skill can't fill a screen.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    pub(super) refused: Vec<Refused>,
    pub(super) notes: Vec<String>,
}

const MOST_REMARKS: usize = 200;

impl Remarks {
    pub(super) fn refuse(&mut self, what: &str, why: impl ToString, origin: Origin) {
        let one = Refused { what: shown(what), why: why.to_string(), origin };
        if self.refused.len() < MOST_REMARKS && !self.refused.contains(&one) {
            self.refused.push(one);
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if self.notes.len() < MOST_REMARKS && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
