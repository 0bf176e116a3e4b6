//! Policies in other tools' words: srt, Claude Code, Codex and Gemini CLI settings, read and turned into a layer.
//!
//! Invariant: pure, and a layer never gives more than the settings it came from. What can't be said exactly is said
//! tighter; each setting has a row that tells which of the two it was, or why it has no counterpart at all.

mod claude;
mod codex;
mod draft;
mod extends;
mod gemini;
mod json;
mod place;
mod srt;

pub(crate) use codex::PROTECTED as CODEX_PROTECTED;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use crate::layer::Layer;
use crate::nearest::nearest;
use crate::units::shown;

/// Whose settings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportFrom {
    Srt,
    ClaudeCode,
    Codex,
    Gemini,
}

/// Where the settings were read, and by whom: what their paths are relative to.
#[derive(Clone, Debug)]
pub struct ImportPlaces {
    pub home: PathBuf,
    /// The directory that commands are to run in.
    pub current: PathBuf,
    /// The settings file.
    pub file: PathBuf,
}

/// What became of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// The policy says the same.
    CarriedOver,
    /// The policy allows less.
    Tightened,
    /// The policy has no word for it, and grants nothing in its place.
    NotExpressible,
    /// Another file of the same tool's, whose settings are not in the policy.
    NotRead,
}

/// One setting and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportRow {
    /// As the tool names it, with its value.
    pub setting: String,
    pub became: Became,
    /// What the policy has for it; empty where it needs nothing.
    pub policy: String,
    pub why: String,
}

/// A layer, and the account of how it came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Imported {
    pub from: ImportFrom,
    pub layer: Layer,
    pub rows: Vec<ImportRow>,
}

/// Settings that give no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("the settings can't be read: {0}")]
    Unreadable(String),
    #[error("`{setting}` has a value that is not understood: {why}")]
    BadValue { setting: String, why: String },
    #[error("`{setting}` hides {path}, without which no program runs in a sandbox")]
    HidesSystem { setting: String, path: String },
}

impl ImportFrom {
    pub const ALL: [ImportFrom; 4] = [Self::Srt, Self::ClaudeCode, Self::Codex, Self::Gemini];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Srt => "srt",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }
}

impl fmt::Display for ImportFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ImportFrom {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|from| from.as_str() == name).ok_or_else(|| {
            let near = nearest(name, Self::ALL.iter().map(|from| from.as_str()));
            let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            format!("`{}` is none of srt, claude-code, codex and gemini{hint}", shown(name))
        })
    }
}

impl fmt::Display for Became {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::CarriedOver => "carried over",
            Self::Tightened => "tightened",
            Self::NotExpressible => "not expressible",
            Self::NotRead => "not read",
        })
    }
}

/// The policy that says what these settings say, or less.
pub fn import(from: ImportFrom, text: &str, places: &ImportPlaces) -> Result<Imported, ImportError> {
    let draft = match from {
        ImportFrom::Srt => srt::read(text, places)?,
        ImportFrom::ClaudeCode => claude::read(text, places)?,
        ImportFrom::Codex => codex::read(text, places)?,
        ImportFrom::Gemini => gemini::read(text, places)?,
    };
    let (layer, rows) = draft.finish()?;
    Ok(Imported { from, layer, rows })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
