//! Reading and changing a settings file of another program: a value at a place, everything else as it was.
//!
//! A file is replaced whole, with the mode it had, and only where it is a regular file of the directory that was meant: a
//! link, at the file or at its directory, is not followed to somewhere else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table};

use super::gate::is_hook;
use super::link::LINK_BEGINS;
use super::{FileChange, json_text};
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::state::replace_file;

/// One thing that a settings file is to say.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// This value; another value of the user's at the same place is refused, not replaced.
    Json {
        path: &'static [&'static str],
        value: Value,
    },
    /// This value among those of a list; an older one of ours goes.
    JsonItem {
        path: &'static [&'static str],
        item: Value,
    },
    Toml {
        path: &'static [&'static str],
        value: Value,
    },
    /// All of the file.
    Whole {
        text: &'static str,
    },
}

impl Edit {
    /// Where in its file; nothing for a whole file.
    pub(super) fn place(&self) -> &'static [&'static str] {
        match self {
            Self::Json { path, .. } | Self::JsonItem { path, .. } | Self::Toml { path, .. } => path,
            Self::Whole { .. } => &[],
        }
    }

    pub(super) fn apply(&self, file: &Path, text: &str) -> Result<String, ServiceError> {
        let broken = |error: String| unreadable(file, &error);
        match self {
            Edit::Json { path, value } => {
                let had = json_text::get(text, path).map_err(|error| broken(error.to_string()))?;
                match had {
                    Some(had) if had == *value => Ok(text.to_owned()),
                    Some(had) if !is_ours(&had) => Err(taken(file, path)),
                    _ => json_text::set(text, path, value).map_err(|error| broken(error.to_string())),
                }
            }
            Edit::JsonItem { path, item } => {
                let had = json_text::get(text, path).map_err(|error| broken(error.to_string()))?;
                let mut list = match had {
                    None => Vec::new(),
                    Some(Value::Array(list)) => list,
                    Some(_) => return Err(taken(file, path)),
                };
                if list.contains(item) {
                    return Ok(text.to_owned());
                }
                list.retain(|had| !is_hook(had));
                list.push(item.clone());
                json_text::set(text, path, &Value::Array(list)).map_err(|error| broken(error.to_string()))
            }
            Edit::Whole { text: ours } => match text.is_empty() || is_ours_whole(text) {
                true => Ok((*ours).to_owned()),
                false => Err(unreadable(file, "it is a file of your own")),
            },
            Edit::Toml { path, value } => {
                let mut document: DocumentMut = text.parse().map_err(|error| broken(format!("{error}")))?;
                let (last, tables) = path.split_last().expect("a place has a name");
                let table = tables.iter().try_fold(document.as_table_mut(), |table, key| {
                    let entry = table.entry(key).or_insert_with(|| {
                        let mut table = Table::new();
                        table.set_implicit(true);
                        Item::Table(table)
                    });
                    entry.as_table_mut()
                });
                let table = table.ok_or_else(|| taken(file, path))?;
                let wanted = toml_value(value);
                match table.get(last).and_then(Item::as_value) {
                    Some(had) if had.to_string().trim() == wanted.to_string().trim() => {
                        return Ok(text.to_owned());
                    }
                    Some(had) if !is_ours_text(&had.to_string()) && !had.is_bool() => {
                        return Err(taken(file, path));
                    }
                    _ => {}
                }
                table.insert(last, Item::Value(wanted));
                Ok(document.to_string())
            }
        }
    }

    /// The text without it, where it is still ours.
    pub(super) fn revert(&self, file: &Path, text: &str) -> Result<String, ServiceError> {
        let broken = |error: String| unreadable(file, &error);
        match self {
            Edit::Json { path, value } => {
                let had = json_text::get(text, path).map_err(|error| broken(error.to_string()))?;
                match had {
                    Some(had) if had == *value || is_ours(&had) => {
                        json_text::remove(text, path).map_err(|error| broken(error.to_string()))
                    }
                    _ => Ok(text.to_owned()),
                }
            }
            Edit::JsonItem { path, item } => {
                let had = json_text::get(text, path).map_err(|error| broken(error.to_string()))?;
                let Some(Value::Array(mut list)) = had else { return Ok(text.to_owned()) };
                list.retain(|had| had != item && !is_hook(had));
                let changed = match list.is_empty() {
                    true => json_text::remove(text, path),
                    false => json_text::set(text, path, &Value::Array(list)),
                };
                changed.map_err(|error| broken(error.to_string()))
            }
            Edit::Whole { .. } => Ok(if is_ours_whole(text) { String::new() } else { text.to_owned() }),
            Edit::Toml { path, value } => {
                let mut document: DocumentMut = text.parse().map_err(|error| broken(format!("{error}")))?;
                let (last, tables) = path.split_last().expect("a place has a name");
                let table = tables
                    .iter()
                    .try_fold(document.as_table_mut(), |table, key| table.get_mut(key)?.as_table_mut());
                let Some(table) = table else { return Ok(text.to_owned()) };
                let is_same = |had: &toml_edit::Value| {
                    had.to_string().trim() == toml_value(value).to_string().trim()
                        || is_ours_text(&had.to_string())
                };
                if table.get(last).and_then(Item::as_value).is_some_and(is_same) {
                    table.remove(last);
                }
                for length in (1..=tables.len()).rev() {
                    let (name, above) = tables[..length].split_last().expect("at least one");
                    let parent = above
                        .iter()
                        .try_fold(document.as_table_mut(), |table, key| table.get_mut(key)?.as_table_mut());
                    let Some(parent) = parent else { break };
                    if parent.get(name).and_then(Item::as_table).is_some_and(Table::is_empty) {
                        parent.remove(name);
                    }
                }
                Ok(document.to_string())
            }
        }
    }
}

fn toml_value(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Number(value) => value.as_i64().unwrap_or_default().into(),
        Value::Array(list) => list.iter().map(toml_value).collect::<toml_edit::Array>().into(),
        other => other.as_str().unwrap_or_default().into(),
    }
}

/// An earlier `ringfence setup` wrote it: it starts `ringfence`, wherever that was.
fn is_ours(value: &Value) -> bool {
    let text = |value: &Value| value.as_str().is_some_and(is_ours_text);
    match value {
        Value::String(_) => text(value),
        Value::Object(server) => match server.get("command") {
            Some(Value::Array(words)) => words.first().is_some_and(text),
            Some(command) => text(command),
            None => false,
        },
        _ => false,
    }
}

fn is_ours_text(text: &str) -> bool {
    let program = text.trim().trim_matches('"').split(" --wrap=").next().unwrap_or_default();
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| matches!(name, "ringfence" | "ringfence-shell") || name.starts_with(LINK_BEGINS))
}

fn is_ours_whole(text: &str) -> bool {
    text.starts_with("// Written by `ringfence setup ")
}

fn taken(file: &Path, path: &[&str]) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadRequest,
        format!("{} has a `{}` of your own, which is not replaced", file.display(), path.join(".")),
        "take it out first, then run `ringfence setup` again",
    )
}

fn unreadable(file: &Path, why: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadRequest,
        format!("{} can't be changed: {why}", file.display()),
        "correct the file by hand first",
    )
}

/// The text of a settings file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, ServiceError> {
    check(path)?;
    read_if_there(path).map_err(|error| unreadable(path, &error.to_string()))
}

/// A link could make this write into any file of the user's, or of another project.
fn check(path: &Path) -> Result<(), ServiceError> {
    for part in [path, path.parent().unwrap_or(path)] {
        if fs::symlink_metadata(part).is_ok_and(|facts| facts.file_type().is_symlink()) {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!("{} is a symlink, which is not followed", part.display()),
                "change the file that it leads to by hand; `--dry-run` on a copy shows what to write",
            ));
        }
    }
    Ok(())
}

/// Replace, make or remove the file, if it still is what the plan was made for.
pub(super) fn write(change: &FileChange) -> Result<(), ServiceError> {
    let path = &change.path;
    let problem = |error: std::io::Error| unreadable(path, &error.to_string());
    if read(path)? != change.before {
        return Err(unreadable(path, "it was changed meanwhile"));
    }
    let Some(after) = &change.after else { return fs::remove_file(path).map_err(problem) };
    if let Some(directory) = path.parent()
        && !directory.exists()
    {
        fs::create_dir_all(directory).map_err(problem)?;
        let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    }
    let mode = fs::metadata(path).map_or(0o600, |facts| facts.mode() & 0o777);
    replace_file(path, after.as_bytes(), mode).map_err(problem)?;
    // The umask may have taken bits that the file had.
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(problem)
}
