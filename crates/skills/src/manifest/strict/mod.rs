//! The verdict of the reference validator, `skills-ref` 0.1.1, which reads with `strictyaml`.
//!
//! That reader has its own idea of YAML, older than version 1.2 and with accidents of its own, and which manifests are
//! valid follows from it. No other parser draws the same line, so this one is written to: `reader` → `tokens` and
//! `scalars` → `nodes` → `rules`. A test runs the reference beside it on thousands of manifests.

mod nodes;
mod reader;
mod rules;
mod scalars;
mod tokens;

use super::Problem;
use super::frontmatter::{cut_strictly, text};
pub(super) use rules::name_problems;

/// Nothing means valid.
pub(super) fn validate(bytes: &[u8], directory: &str) -> Vec<Problem> {
    let text = match text(bytes) {
        Ok(text) => text,
        Err(problem) => return vec![problem],
    };
    let cut = match cut_strictly(&text) {
        Ok(cut) => cut,
        Err(problem) => return vec![problem],
    };
    match nodes::document(cut.yaml).and_then(rules::fields) {
        Ok(fields) => rules::judge(&fields, directory),
        Err(fault) => vec![Problem::error(fault.code, fault.message, Some(fault.line + cut.first_line))],
    }
}

/// Why a frontmatter is not the YAML that the reference takes.
#[derive(Debug)]
struct Fault {
    code: &'static str,
    message: String,
    /// Of the frontmatter, from 0.
    line: u32,
}

impl Fault {
    fn new(code: &'static str, message: &str, line: u32) -> Self {
        Self { code, message: message.to_owned(), line }
    }
}
