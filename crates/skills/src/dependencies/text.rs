//! Files of a skill as text, within bounds, and pieces of them in messages.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::tree::{Kind, Tree};

/// More of one file is not read: no script that people write is as long.
const MOST_FILE_BYTES: u64 = 2 << 20;
/// Nor more in all: what follows is left alone, with a note.
const MOST_BYTES: u64 = 32 << 20;

/// The plain files of a skill.
pub(super) struct Files<'a> {
    tree: &'a Tree,
    paths: BTreeSet<&'a str>,
    read: Cell<u64>,
}

impl<'a> Files<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        let paths = tree
            .entries()
            .iter()
            .filter(|entry| matches!(entry.kind, Kind::File { .. }))
            .map(|entry| entry.path.as_str())
            .collect();
        Self { tree, paths, read: Cell::new(0) }
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.paths.iter().copied()
    }

    /// Those in a directory and below it.
    pub(super) fn below(&self, directory: &str) -> impl Iterator<Item = &'a str> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let from = self.paths.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.copied().take_while(move |path| path.starts_with(&prefix))
    }

    /// Its text, or why there is none.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        Ok(decoded(&self.bytes(path, MOST_FILE_BYTES)?))
    }

    /// Its content, if that is no more than `most`.
    pub(super) fn bytes(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        if self.read.get() > MOST_BYTES {
            return Err(format!("{path}: not read, as the skill has too many and too large scripts"));
        }
        let bytes = self.tree.read_file(path, most + 1).map_err(|error| error.to_string())?;
        self.read.set(self.read.get() + bytes.len() as u64);
        if bytes.len() as u64 > most {
            return Err(format!("{path}: not read, as it has more than {most} bytes"));
        }
        Ok(bytes)
    }

    /// The nearest file of this name: in the directory of `path`, or in one above it.
    pub(super) fn nearest(&self, path: &str, name: &str) -> Option<String> {
        let mut at = path;
        while !at.is_empty() {
            at = directory(at);
            let candidate = join(at, name);
            if self.contains(&candidate) {
                return Some(candidate);
            }
        }
        None
    }
}

/// UTF-8, or UTF-16 where a mark says so (`pip freeze > requirements.txt` on Windows); what is neither is replaced.
fn decoded(bytes: &[u8]) -> String {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Somebody else's text in a message: bounded, and without what could change how the rest is shown.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 120;
    let mut out: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out.replace("\\'", "'").replace("\\\"", "\"")
}

/// Can it be shown as it is: no control, quote or invisible character?
pub(super) fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.escape_debug().count() == 1)
}

/// The directory of a path in the skill; empty for its top.
pub(super) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// A path below a directory of the skill.
pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// A relative path seen from a directory of the skill; nothing where it leads out of it.
pub(super) fn resolve(directory: &str, relative: &str) -> Option<String> {
    if relative.starts_with('/') || relative.contains('\\') {
        return None;
    }
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
