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
    /// This value; another value of the user's at the same place is refused, not replaced, but for true and false.
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

/// What a file held before the first change of ours, and after the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) before: &'a str,
    pub(super) after: &'a str,
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
                    Some(had) if !(is_ours(&had) || had.is_boolean() && value.is_boolean()) => {
                        Err(taken(file, path))
                    }
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
            // Also with a comment beside it.
            Edit::Toml { value, .. } if self.value(file, text)?.as_ref() == Some(value) => {
                Ok(text.to_owned())
            }
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
                    Some(had) if !(is_ours_text(&had.to_string()) || had.is_bool() && wanted.is_bool()) => {
                        return Err(taken(file, path));
                    }
                    _ => {}
                }
                table.insert(last, Item::Value(wanted));
                Ok(document.to_string())
            }
        }
    }

    /// What `text` has at its place: all of it where the file is whole, the item where it is one of a list.
    pub(super) fn value(&self, file: &Path, text: &str) -> Result<Option<Value>, ServiceError> {
        let broken = |error: String| unreadable(file, &error);
        let json = |path| json_text::get(text, path).map_err(|error| broken(error.to_string()));
        Ok(match self {
            Self::Json { path, .. } => json(path)?,
            Self::JsonItem { path, item } => json(path)?
                .filter(|had| had.as_array().is_some_and(|list| list.contains(item)))
                .map(|_| item.clone()),
            Self::Toml { path, .. } => {
                let all: toml::Table = toml::from_str(text).map_err(|error| broken(error.to_string()))?;
                let all = serde_json::to_value(all).map_err(|error| broken(error.to_string()))?;
                path.iter().try_fold(&all, |at, key| at.get(key)).cloned()
            }
            Self::Whole { .. } => Some(text).filter(|text| !text.is_empty()).map(Value::from),
        })
    }

    /// What of the user's own it would replace in `text`.
    pub(super) fn replaces(&self, file: &Path, text: &str) -> Result<Option<Value>, ServiceError> {
        Ok(match self {
            Self::Json { value, .. } | Self::Toml { value, .. } => {
                self.value(file, text)?.filter(|had| had != value && !is_written(had))
            }
            Self::JsonItem { .. } | Self::Whole { .. } => None,
        })
    }

    /// Is it in `text`, and nobody can say that a `ringfence setup` put it there?
    pub(super) fn is_anybodys(&self, file: &Path, text: &str) -> Result<bool, ServiceError> {
        Ok(match self {
            Self::Json { value, .. } => {
                self.value(file, text)?.is_some_and(|had| had == *value && !is_written(&had))
            }
            Self::Toml { value, .. } => value.is_boolean() && self.value(file, text)?.as_ref() == Some(value),
            Self::JsonItem { item, .. } => !is_hook(item) && self.value(file, text)?.is_some(),
            Self::Whole { .. } => false,
        })
    }

    /// The text with what the user had at its place, where it is still ours: what nobody but a `ringfence setup` writes, or
    /// what the last one wrote and the user did not have before.
    pub(super) fn revert(
        &self,
        file: &Path,
        text: &str,
        known: Option<Known>,
    ) -> Result<String, ServiceError> {
        let broken = |error: String| unreadable(file, &error);
        let (had, was) = match known {
            Some(known) => (self.value(file, known.before)?, self.value(file, known.after)?),
            None => (None, None),
        };
        let now = self.value(file, text)?;
        // The user's own, before as after.
        let is_last = now == was && was != had;
        let is_ours =
            now.as_ref().is_some_and(|now| is_last || (is_written(now) && had.as_ref() != Some(now)));
        match self {
            Self::Json { path, .. } if is_ours => match had {
                Some(had) => json_text::set(text, path, &had),
                None => json_text::remove(text, path),
            }
            .map_err(|error| broken(error.to_string())),
            Self::JsonItem { path, item } => {
                let list = json_text::get(text, path).map_err(|error| broken(error.to_string()))?;
                let Some(Value::Array(list)) = list else { return Ok(text.to_owned()) };
                let kept: Vec<Value> =
                    list.iter().filter(|one| !(is_hook(one) || is_ours && *one == item)).cloned().collect();
                let changed = match (kept.len() == list.len(), kept.is_empty()) {
                    (true, _) => return Ok(text.to_owned()),
                    (_, true) => json_text::remove(text, path),
                    (_, false) => json_text::set(text, path, &Value::Array(kept)),
                };
                changed.map_err(|error| broken(error.to_string()))
            }
            Self::Toml { path, .. }
                if is_ours || known.is_none() && is_beside_our_command(path, file, text)? =>
            {
                let parse =
                    |text: &str| text.parse::<DocumentMut>().map_err(|error| broken(error.to_string()));
                let mut document = parse(text)?;
                let before = known.map(|known| parse(known.before)).transpose()?;
                revert_toml(&mut document, path, before.as_ref());
                Ok(document.to_string())
            }
            Self::Whole { .. } if is_ours_whole(text) => Ok(String::new()),
            Self::Json { .. } | Self::Toml { .. } | Self::Whole { .. } => Ok(text.to_owned()),
        }
    }
}

/// What stands beside the command that starts our server, where nobody knows any more what was there before.
fn is_beside_our_command(
    path: &'static [&'static str],
    file: &Path,
    text: &str,
) -> Result<bool, ServiceError> {
    const COMMAND: &[&str] = &["mcp_servers", "ringfence", "command"];
    let command = Edit::Toml { path: COMMAND, value: Value::Null }.value(file, text)?;
    Ok(path.starts_with(&COMMAND[..2]) && command.is_some_and(|command| is_written(&command)))
}

/// The item that `before` has at `path`, or none; tables that are empty then go.
fn revert_toml(document: &mut DocumentMut, path: &[&str], before: Option<&DocumentMut>) {
    let (last, tables) = path.split_last().expect("a place has a name");
    let had = before.and_then(|before| {
        let table = tables.iter().try_fold(before.as_table(), |table, key| table.get(key)?.as_table())?;
        table.get(last).cloned()
    });
    let table =
        tables.iter().try_fold(document.as_table_mut(), |table, key| table.get_mut(key)?.as_table_mut());
    let Some(table) = table else { return };
    match had {
        Some(had) => {
            table.insert(last, had);
        }
        None => {
            table.remove(last);
        }
    }
    for length in (1..=tables.len()).rev() {
        let (name, above) = tables[..length].split_last().expect("at least one");
        let parent =
            above.iter().try_fold(document.as_table_mut(), |table, key| table.get_mut(key)?.as_table_mut());
        let Some(parent) = parent else { break };
        if parent.get(name).and_then(Item::as_table).is_some_and(Table::is_empty) {
            parent.remove(name);
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

/// Only `ringfence setup` writes it: the whole path of a program with these arguments, or a hook of ours.
fn is_written(value: &Value) -> bool {
    let is_path = |command: Option<&Value>| {
        command.and_then(Value::as_str).is_some_and(|text| text.starts_with('/') && is_ours_text(text))
    };
    let arguments = |words: &[Value]| match words {
        [mcp] => mcp == "mcp",
        [mcp, rules, _] => mcp == "mcp" && rules == "--rules-of",
        _ => false,
    };
    match value {
        Value::String(_) => is_path(Some(value)),
        Value::Object(_) if is_hook(value) => true,
        Value::Object(server) => match server.get("command") {
            Some(Value::Array(words)) => is_path(words.first()) && arguments(&words[1..]),
            command => {
                is_path(command)
                    && server.get("args").and_then(Value::as_array).is_some_and(|words| arguments(words))
            }
        },
        _ => false,
    }
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
