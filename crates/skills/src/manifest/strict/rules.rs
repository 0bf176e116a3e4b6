//! What a manifest must say.

use std::collections::HashSet;

use super::Fault;
use super::nodes::{Content, Node};
use crate::manifest::characters::{is_alphanumeric, nfkc, quoted, strip};
use crate::manifest::{Level, Problem};

pub(in crate::manifest) const NAME_CHARACTERS: usize = 64;
pub(in crate::manifest) const DESCRIPTION_CHARACTERS: usize = 1024;
pub(in crate::manifest) const COMPATIBILITY_CHARACTERS: usize = 500;
pub(in crate::manifest) const FIELDS: [&str; 6] =
    ["allowed-tools", "compatibility", "description", "license", "metadata", "name"];

/// A key at the top, and its text if that is what it has.
pub(super) struct Field {
    key: String,
    text: Option<String>,
    /// Of the file, from 1.
    line: u32,
}

/// The keys at the top, if the document is a mapping that the reference takes.
pub(super) fn fields(document: Option<Node>) -> Result<Vec<Field>, Fault> {
    let line = document.as_ref().map_or(0, |node| node.line);
    let Some(Node { content: Content::Mapping(entries), .. }) = document else {
        let message = "the frontmatter must have keys and values: `name: …`, `description: …`";
        return Err(Fault::new("frontmatter-not-a-mapping", message, line));
    };
    check_mapping(&entries)?;
    let entries = entries.into_iter().filter(|(key, _)| !is_merge(key));
    Ok(entries
        .filter_map(|(key, value)| {
            Some(Field {
                line: key.line + 1,
                key: text_of(key)?,
                text: if is_lone_equals(&value) { None } else { text_of(value) },
            })
        })
        .collect())
}

pub(super) fn judge(fields: &[Field], directory: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for field in fields.iter().filter(|field| !FIELDS.contains(&field.key.as_str())) {
        let message =
            format!("{} is not a field of the specification ({})", quoted(&field.key), FIELDS.join(", "));
        problems.push(Problem::error("unknown-field", message, Some(field.line)));
    }
    match fields.iter().find(|field| field.key == "name") {
        None => problems.push(missing("name")),
        Some(Field { text: Some(name), line, .. }) if !strip(name).is_empty() => {
            problems.extend(name_problems(name, directory, Level::Error, Some(*line)));
        }
        Some(field) => {
            problems.push(Problem::error("name-empty", "`name` has no text".into(), Some(field.line)))
        }
    }
    match fields.iter().find(|field| field.key == "description") {
        None => problems.push(missing("description")),
        Some(Field { text: Some(text), line, .. }) if !strip(text).is_empty() => {
            problems.extend(too_long("description", text, DESCRIPTION_CHARACTERS, Level::Error, Some(*line)));
        }
        Some(field) => {
            let message = "`description` has no text".to_owned();
            problems.push(Problem::error("description-empty", message, Some(field.line)));
        }
    }
    match fields.iter().find(|field| field.key == "compatibility") {
        None => {}
        Some(Field { text: Some(text), line, .. }) => {
            problems.extend(too_long(
                "compatibility",
                text,
                COMPATIBILITY_CHARACTERS,
                Level::Error,
                Some(*line),
            ));
        }
        Some(field) => {
            let message = "`compatibility` must be text".to_owned();
            problems.push(Problem::error("compatibility-not-text", message, Some(field.line)));
        }
    }
    problems
}

/// What is wrong with a name that is not empty.
pub(in crate::manifest) fn name_problems(
    name: &str,
    directory: &str,
    level: Level,
    line: Option<u32>,
) -> Vec<Problem> {
    let name = nfkc(strip(name));
    let mut problems = Vec::new();
    let mut problem = |code, message| problems.push(Problem { code, level, message, line });
    let shown = quoted(&name);
    let length = name.chars().count();
    if length > NAME_CHARACTERS {
        problem("name-too-long", format!("the name has {length} characters; the most is {NAME_CHARACTERS}"));
    }
    if *name != name.to_lowercase() {
        problem("name-not-lower-case", format!("the name {shown} is not in lower case"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        problem("name-hyphen-at-end", format!("the name {shown} starts or ends with a hyphen"));
    }
    if name.contains("--") {
        problem("name-double-hyphen", format!("the name {shown} has two hyphens in a row"));
    }
    if !name.chars().all(|character| character == '-' || is_alphanumeric(character)) {
        let message = format!("the name {shown} has characters other than letters, digits and hyphens");
        problem("name-characters", message);
    }
    if nfkc(directory) != name {
        problem(
            "name-not-directory",
            format!("the name {shown} is not that of the directory, {}", quoted(directory)),
        );
    }
    problems
}

/// Counted in characters, white space around it included.
pub(in crate::manifest) fn too_long(
    field: &'static str,
    text: &str,
    most: usize,
    level: Level,
    line: Option<u32>,
) -> Option<Problem> {
    let length = text.chars().count();
    let code = if field == "description" { "description-too-long" } else { "compatibility-too-long" };
    let message = || format!("`{field}` has {length} characters; the most is {most}");
    (length > most).then(|| Problem { code, level, message: message(), line })
}

fn missing(field: &str) -> Problem {
    let code = if field == "name" { "name-missing" } else { "description-missing" };
    Problem::error(code, format!("the field `{field}` is missing"), Some(1))
}

/// Is every mapping in it one that the reference takes?
pub(super) fn check(node: &Node) -> Result<(), Fault> {
    match &node.content {
        Content::Text { .. } => Ok(()),
        Content::Sequence(entries) => entries.iter().try_for_each(check),
        Content::Mapping(entries) => check_mapping(entries),
    }
}

fn check_mapping(entries: &[(Node, Node)]) -> Result<(), Fault> {
    let mut keys = HashSet::new();
    let mut merged = false;
    let mut indentation = None;
    for (key, value) in entries {
        let merge = is_merge(key);
        check(value)?;
        if merge {
            let mappings = match &value.content {
                Content::Mapping(_) => true,
                Content::Sequence(entries) => {
                    entries.iter().all(|entry| matches!(entry.content, Content::Mapping(_)))
                }
                Content::Text { .. } => false,
            };
            if !mappings || std::mem::replace(&mut merged, true) {
                return Err(Fault::new(
                    "yaml-invalid",
                    "`<<` merges mappings, once; quote it as a key",
                    key.line,
                ));
            }
            continue;
        }
        match &key.content {
            Content::Text { text, .. } => {
                if !keys.insert(text.as_str()) {
                    return Err(Fault::new(
                        "yaml-duplicate-key",
                        &format!("the key {} is there twice", quoted(text)),
                        key.line,
                    ));
                }
            }
            _ => return Err(Fault::new("yaml-invalid", "a key must be text", key.line)),
        }
        if matches!(value.content, Content::Mapping(_))
            && *indentation.get_or_insert(value.column) != value.column
        {
            let message = "nested keys must have the same indentation as those of the field before";
            return Err(Fault::new("yaml-indentation", message, value.line));
        }
    }
    Ok(())
}

/// `<<` without quotes merges.
fn is_merge(key: &Node) -> bool {
    matches!(&key.content, Content::Text { text, plain: true } if text == "<<")
}

/// `=` without quotes is a type of its own, not text.
fn is_lone_equals(value: &Node) -> bool {
    matches!(&value.content, Content::Text { text, plain: true } if text == "=")
}

fn text_of(node: Node) -> Option<String> {
    match node.content {
        Content::Text { text, .. } => Some(text),
        _ => None,
    }
}
