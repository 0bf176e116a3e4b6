//! The verdict of the reference validator, `skills-ref` 0.1.1, which reads with `strictyaml`.
//!
//! That reader has its own idea of YAML, older than version 1.2 and with accidents of its own, and which manifests are
//! valid follows from it. No other parser draws the same line, so this one is written to: `reader` → `tokens` and
//! `scalars` → `nodes` → `rules`. A test runs the reference beside it on thousands of manifests.

mod nodes;
mod reader;
mod rules;
mod scalars;
mod token;
mod tokens;

use std::rc::Rc;

use super::frontmatter::{cut_strictly, text};
use super::{Problem, yaml};
pub(super) use rules::{COMPATIBILITY_CHARACTERS, DESCRIPTION_CHARACTERS, FIELDS, name_problems, too_long};

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

/// A document with the values that the reference would read, if it would read it at all. `first_line` is that of the
/// frontmatter in its file.
pub(super) fn read(yaml: &str, first_line: u32) -> Option<Option<Rc<yaml::Node>>> {
    let document = nodes::document(yaml).ok()?;
    if let Some(document) = &document {
        rules::check(document).ok()?;
    }
    Some(document.map(|node| Rc::new(convert(node, first_line))))
}

fn convert(node: nodes::Node, first_line: u32) -> yaml::Node {
    let line = node.line.saturating_add(first_line);
    let plain = matches!(&node.content, nodes::Content::Text { plain: true, .. });
    let content = match node.content {
        nodes::Content::Text { text, .. } => yaml::Content::Text(text),
        nodes::Content::Sequence(entries) => yaml::Content::Sequence(
            entries.into_iter().map(|entry| Rc::new(convert(entry, first_line))).collect(),
        ),
        nodes::Content::Mapping(entries) => {
            let entry = |(key, value): (nodes::Node, nodes::Node)| {
                let line = key.line.saturating_add(first_line);
                let nodes::Content::Text { text, .. } = key.content else { return None };
                Some((yaml::Key { text, line }, Rc::new(convert(value, first_line))))
            };
            yaml::Content::Mapping(entries.into_iter().filter_map(entry).collect())
        }
    };
    yaml::Node { content, line, plain }
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
