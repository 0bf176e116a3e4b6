//! Scripts and data files that do not parse. Nothing is executed.
//!
//! JSON and TOML are parsed. Python and shell are read token by token: strings, brackets, blocks and indentation. A full
//! Python parser was tried (ruff's): deep nesting, which a hostile file has for nothing, overflows its stack and ends the
//! process. These readers keep their own stack, and say nothing where they are not sure.

mod python;
mod shell;

use super::file::{Class, Language, extension, name};
use super::report::Report;
use super::rules::SYNTAX;

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    line: u32,
    what: String,
}

impl Fault {
    fn at(line: u32, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

pub(super) fn check(report: &mut Report, path: &str, class: Class, source: &str) {
    let source = source.trim_start_matches('\u{feff}');
    let verdict = match class {
        Class::Script(language) => conflict(source).map_or_else(
            || match language {
                Language::Python => python::check(source),
                Language::Shell => shell::check(source),
                Language::Another => Ok(()),
            },
            Err,
        ),
        Class::Data => match extension(path).to_ascii_lowercase().as_str() {
            // Editors read their own files with comments.
            "json" if !may_have_comments(path) => json(source),
            "toml" => toml(source),
            _ => Ok(()),
        },
        _ => Ok(()),
    };
    if let Err(Fault { line, what }) = verdict {
        report.add(&SYNTAX, path, Some(line), &what);
    }
}

fn may_have_comments(path: &str) -> bool {
    let file = name(path);
    path.contains(".vscode/")
        || path.contains(".devcontainer")
        || file.starts_with("tsconfig")
        || file.starts_with("jsconfig")
}

fn json(source: &str) -> Result<(), Fault> {
    if source.trim().is_empty() {
        return Ok(());
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(source) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Fault::at(u32::try_from(error.line()).unwrap_or(u32::MAX).max(1), format!("JSON: {error}")))
        }
    }
}

fn toml(source: &str) -> Result<(), Fault> {
    toml::from_str::<toml::Table>(source).map(drop).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(source.len()));
        let line = source.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        Fault::at(u32::try_from(line).unwrap_or(u32::MAX), format!("TOML: {}", error.message()))
    })
}

/// What git leaves in a file that two changed.
fn conflict(source: &str) -> Option<Fault> {
    let ours = source.lines().position(|line| line.starts_with("<<<<<<< "))?;
    let theirs = source.lines().skip(ours).any(|line| line.starts_with(">>>>>>> "));
    theirs.then(|| {
        Fault::at(u32::try_from(ours + 1).unwrap_or(u32::MAX), "a merge conflict that was not resolved")
    })
}
