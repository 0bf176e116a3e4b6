//! `sandbox_file_*`: files of a session, with the rights of its commands.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_sandbox::{FileKind, Files, Links, ListLimit, Sandbox};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Call, parsed};
use crate::blocking;
use crate::error::{Answer, ApiError};
use crate::http::inside;
use crate::mcp::answer::told;
use crate::mcp::client::AnswerLimit;
use crate::mcp::cut::head_and_tail;
use crate::mcp::host::FileDraft;

/// A file that is read or edited.
const MOST_BYTES: u64 = 16 << 20;
const MOST_ENTRIES: u64 = 10_000;
const MOST_LISTED: usize = 500;
const MODE: u32 = 0o644;

async fn with_files<T: Send + 'static>(
    call: &Call,
    session: Option<&str>,
    path: &str,
    work: impl FnOnce(&mut Files, &Path) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let path = inside(path)?;
    let (_, sandbox) = call.sandbox(session).await?;
    blocking(move || work(&mut sandbox.files()?, &path)).await
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadInput {
    /// Absolute, or below the workspace.
    path: String,
    session: Option<String>,
    /// The first line to read, from 1.
    #[schemars(range(min = 1))]
    offset: Option<usize>,
    /// How many lines.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReadOutput {
    /// What was asked for; of what is too long head and tail.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Of a file that is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_base64: Option<String>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<usize>,
    /// Ask for the rest with `offset` and `limit`.
    truncated: bool,
}

pub(super) async fn read(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: ReadInput = parsed(arguments)?;
    let bytes = with_files(call, input.session.as_deref(), &input.path, whole).await?;
    told(&cut_out(bytes, input.offset, input.limit, call.limit))
}

fn whole(files: &mut Files, path: &Path) -> Answer<Vec<u8>> {
    let file = files.open_read(path, Links::Follow)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| {
        ApiError::bad(format!("the file can't be read: {error}"), "see with sandbox_file_list what it is")
    })?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ApiError::bad(
            format!("the file is larger than {MOST_BYTES} bytes"),
            "look at parts of it with sandbox_run, such as `head`, `tail` or `grep`",
        ));
    }
    Ok(bytes)
}

fn cut_out(bytes: Vec<u8>, offset: Option<usize>, limit: Option<usize>, most: AnswerLimit) -> ReadOutput {
    let size = bytes.len() as u64;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let mut bytes = error.into_bytes();
            let fits = most.bytes / 2;
            let truncated = bytes.len() > fits;
            bytes.truncate(fits);
            let content_base64 = Some(STANDARD.encode(bytes));
            return ReadOutput { content: None, content_base64, size, lines: None, truncated };
        }
    };
    let lines = text.lines().count();
    let from = offset.unwrap_or(1).max(1) - 1;
    let wanted: String = match (offset, limit) {
        (None, None) => text,
        _ => text.split_inclusive('\n').skip(from).take(limit.unwrap_or(usize::MAX)).collect(),
    };
    let most = AnswerLimit { bytes: most.bytes - most.bytes / 16, ..most };
    let (content, truncated) = head_and_tail(&wanted, most);
    ReadOutput { content: Some(content), content_base64: None, size, lines: Some(lines), truncated }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteInput {
    path: String,
    content: String,
    session: Option<String>,
    /// The content is base64, of something that is no text.
    #[serde(default)]
    base64: bool,
    /// Let it be executed.
    #[serde(default)]
    executable: bool,
    /// Of this same call, once approved.
    action: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WriteOutput {
    path: String,
    bytes: u64,
}

pub(super) async fn write(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: WriteInput = parsed(arguments)?;
    call.host.may_change()?;
    let bytes = match input.base64 {
        false => input.content.into_bytes(),
        true => STANDARD
            .decode(&input.content)
            .map_err(|error| ApiError::bad(format!("the content is not base64: {error}"), "code it again"))?,
    };
    let size = bytes.len() as u64;
    let mode = if input.executable { 0o755 } else { MODE };
    let draft = FileDraft { path: input.path.clone(), bytes, mode, action: input.action };
    call.write(input.session.as_deref(), draft).await?;
    told(&WriteOutput { path: input.path, bytes: size })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditInput {
    path: String,
    /// What is there now, exactly.
    old: String,
    new: String,
    /// Replace it wherever it is.
    #[serde(default)]
    all: bool,
    session: Option<String>,
    /// Of this same call, once approved.
    action: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EditOutput {
    path: String,
    replaced: usize,
}

pub(super) async fn edit(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let EditInput { path, old, new, all, session, action } = parsed(arguments)?;
    call.host.may_change()?;
    let (text, replaced, mode) = with_files(call, session.as_deref(), &path, move |files, path| {
        let (stat, _) = files.stat(path, Links::Follow)?;
        let text = String::from_utf8(whole(files, path)?).map_err(|_| {
            ApiError::bad("the file is no text", "change it with a command, or write it anew")
        })?;
        let (text, replaced) = replaced(&text, &old, &new, all)?;
        Ok((text, replaced, stat.mode & 0o777))
    })
    .await?;
    let draft = FileDraft { path: path.clone(), bytes: text.into_bytes(), mode, action };
    call.write(session.as_deref(), draft).await?;
    told(&EditOutput { path, replaced })
}

fn replaced(text: &str, old: &str, new: &str, all: bool) -> Answer<(String, usize)> {
    if old.is_empty() {
        return Err(ApiError::bad(
            "`old` is empty",
            "give the text to replace; write new files with sandbox_file_write",
        ));
    }
    match text.matches(old).count() {
        0 => Err(ApiError::bad(
            "`old` is not in the file",
            "read the file again: it must be there exactly, white space included",
        )),
        found if found > 1 && !all => Err(ApiError::bad(
            format!("`old` is in the file {found} times"),
            "give more of the text around it, or `all: true`",
        )),
        found => Ok((text.replace(old, new), found)),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListInput {
    /// The workspace by default.
    path: Option<String>,
    session: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListOutput {
    entries: Vec<Entry>,
    /// There are more.
    truncated: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    name: String,
    /// file, directory, symlink or other
    kind: &'static str,
    size: u64,
}

pub(super) async fn list(call: &Call, arguments: Value) -> Answer<CallToolResult> {
    let input: ListInput = parsed(arguments)?;
    let path = input.path.unwrap_or_else(|| ".".into());
    let entries = with_files(call, input.session.as_deref(), &path, |files, path| {
        Ok(files.list(path, ListLimit(MOST_ENTRIES))?)
    })
    .await?;
    let mut entries: Vec<Entry> = entries
        .into_iter()
        .map(|entry| Entry {
            name: entry.name.to_string_lossy().into_owned(),
            kind: match entry.stat.kind {
                FileKind::Regular => "file",
                FileKind::Directory => "directory",
                FileKind::Symlink => "symlink",
                _ => "other",
            },
            size: entry.stat.size,
        })
        .collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    // Some 60 bytes each.
    let fits = MOST_LISTED.min(call.limit.bytes / 80);
    let truncated = entries.len() > fits;
    entries.truncate(fits);
    told(&ListOutput { entries, truncated })
}

/// The bytes of a file of a session, for other tools.
pub(super) async fn bytes_of(sandbox: Sandbox, path: PathBuf) -> Answer<Vec<u8>> {
    blocking(move || whole(&mut sandbox.files()?, &path)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: AnswerLimit = AnswerLimit { bytes: 1_000, lines: 100 };

    #[test]
    fn an_edit_is_exact() {
        assert_eq!(replaced("a b a", "b", "c", false).unwrap(), ("a c a".into(), 1));
        assert_eq!(replaced("a b a", "a", "c", true).unwrap(), ("c b c".into(), 2));
        for (old, all) in [("a", false), ("x", true), ("", true)] {
            assert!(replaced("a b a", old, "c", all).is_err(), "{old}");
        }
    }

    #[test]
    fn some_lines_of_a_file() {
        let read = cut_out(b"one\ntwo\nthree\n".to_vec(), Some(2), Some(1), LIMIT);
        assert_eq!((read.content.as_deref(), read.lines, read.truncated), (Some("two\n"), Some(3), false));
        let read = cut_out(b"one\ntwo".to_vec(), Some(9), None, LIMIT);
        assert_eq!(read.content.as_deref(), Some(""));
        let read = cut_out(vec![0xff; 2_000], None, None, LIMIT);
        assert!(read.truncated && read.content.is_none() && read.content_base64.unwrap().len() <= 1_000);
        let read = cut_out(vec![b'x'; 2_000], None, None, LIMIT);
        assert!(read.truncated && read.content.unwrap().len() < 1_000);
    }
}
