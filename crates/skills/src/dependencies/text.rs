//! Files of a skill as text, within bounds, and pieces of them in messages.

use std::collections::BTreeSet;

use crate::tree::{Kind, Tree};

/// More of one file is not read: no script that people write is as long.
pub(super) const MOST_FILE_BYTES: u64 = 2 << 20;

/// A text file of the skill, or nothing where it is not there, not a plain file, or too large.
pub(super) fn read(tree: &Tree, path: &str) -> Option<String> {
    let bytes = tree.read_file(path, MOST_FILE_BYTES + 1).ok()?;
    if bytes.len() as u64 > MOST_FILE_BYTES {
        return None;
    }
    Some(decoded(&bytes))
}

/// The paths of all plain files.
pub(super) fn files(tree: &Tree) -> BTreeSet<&str> {
    tree.entries()
        .iter()
        .filter(|entry| matches!(entry.kind, Kind::File { .. }))
        .map(|entry| entry.path.as_str())
        .collect()
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
