//! Programs and variables of the surrounding system.

pub(super) mod programs;
pub(super) mod variables;

use serde::Serialize;

use super::origin::Origin;

/// A program that must be found in PATH.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededBinary {
    /// One of these is enough; never empty. Bare names, with no `/`.
    pub any_of: Vec<String>,
    pub certainty: Certainty,
    /// How the skill says it can be had: `brew: ffmpeg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub origin: Origin,
}

/// How sure it is that something is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The manifest or a shebang says so.
    Declared,
    /// A script calls it.
    Inferred,
    /// A script calls it, and asks first whether it is there.
    Optional,
}

/// An environment variable that a script reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededVariable {
    pub name: String,
    pub presence: Presence,
    /// Its name is that of a secret: pass it with `--secret`, not with `--env`.
    pub secret: bool,
    pub origin: Origin,
}

/// What happens when a variable is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It is declared, or the script fails without it.
    Required,
    /// The script reads it and has no other value; what it then does is not known.
    Expected,
    /// The script has a value of its own.
    Optional,
}
