//! SKILL.md: its frontmatter and its body.
//!
//! Two levels. *Strict* is the verdict of the public reference validator. *Lenient* is what clients do: warn and load,
//! repair what people commonly get wrong, skip only what has no description or can't be read at all.

mod characters;
mod fields;
mod find;
mod frontmatter;
mod lenient;
mod prompt;
mod properties;
mod repair;
mod strict;
mod tools;
mod types;
mod yaml;

pub use fields::FieldText;
pub use find::{ManifestError, manifest_of, read_manifest};
pub use frontmatter::MANIFEST_BYTES;
pub use prompt::{PromptEntry, prompt_block};
pub use properties::properties;

use serde::Serialize;
use serde_json::{Map, Value};

/// The names that a manifest may have, in the order in which they are looked for.
pub const MANIFEST_NAMES: [&str; 2] = ["SKILL.md", "skill.md"];

/// What a SKILL.md says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// As written; the directory's name where none is given (lenient).
    pub name: String,
    pub description: String,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    /// One entry a tool, whichever way they were written.
    pub allowed_tools: Vec<String>,
    /// Every scalar is text, as everywhere here: `version: 1.10` is `"1.10"`.
    pub metadata: Map<String, Value>,
    /// Keys that the specification does not know; and fields of it, as they were written, that do not have its form (a
    /// list as `license`, commas in `allowed-tools`).
    pub extra: Map<String, Value>,
    /// What follows the frontmatter.
    #[serde(skip)]
    pub body: String,
}

/// How much something matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Warning,
    Error,
}

/// Something that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Stable, for programs: `name-too-long`.
    pub code: &'static str,
    pub level: Level,
    pub message: String,
    /// Of the file, from 1.
    pub line: Option<u32>,
}

impl Problem {
    fn error(code: &'static str, message: String, line: Option<u32>) -> Self {
        Self { code, level: Level::Error, message, line }
    }

    fn warning(code: &'static str, message: String, line: Option<u32>) -> Self {
        Self { code, level: Level::Warning, message, line }
    }
}

/// A manifest that could be read, and what had to be overlooked or repaired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    pub manifest: Manifest,
    pub warnings: Vec<Problem>,
    /// Every key and value of the frontmatter after YAML's escapes: what a client hands to a model.
    #[serde(skip)]
    pub texts: Vec<FieldText>,
    /// Every field as it was written, with the types of YAML: for hosts that compare it with what they read themselves.
    #[serde(skip)]
    pub frontmatter: Map<String, Value>,
}

/// Why a manifest can't be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Unloadable(pub Problem);

/// Read a manifest as clients do.
pub fn load(bytes: &[u8], directory: &str) -> Result<Loaded, Unloadable> {
    lenient::load(bytes, directory).map_err(Unloadable)
}

/// The verdict of the reference validator: nothing means valid.
pub fn validate(bytes: &[u8], directory: &str) -> Vec<Problem> {
    strict::validate(bytes, directory)
}
