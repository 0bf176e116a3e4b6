//! What a snapshot consists of. Content is by hash; a manifest has names, kinds, modes and times.

use serde::{Deserialize, Serialize};

use super::error::{Result, SnapshotError};
use super::hash::{ObjectHash, SnapshotId};
use super::path::{TreePath, escape, unescape};
use super::tree::{Attributes, EntryTime};

/// Setuid and setgid are not kept: a snapshot may be brought back by another user than it was taken by.
pub(super) const KEPT_MODE: u32 = 0o1777;

/// Why an entry is in a manifest by its name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skipped {
    /// A socket, a pipe or a device.
    Special,
    /// The sandbox's own user may not read it.
    Unreadable,
    /// A directory that has entries whose path is longer than a manifest takes.
    TooDeep,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Node {
    Directory { mode: u32, modified: EntryTime },
    File { mode: u32, modified: EntryTime, size: u64, object: ObjectHash },
    Link { target: LinkTarget, modified: EntryTime },
    Skipped { why: Skipped },
}

impl Node {
    pub(super) fn attributes(&self) -> Option<Attributes> {
        match *self {
            Self::Directory { mode, modified } | Self::File { mode, modified, .. } => {
                Some(Attributes { mode, modified })
            }
            Self::Link { .. } | Self::Skipped { .. } => None,
        }
    }
}

/// Bytes, never interpreted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkTarget(Vec<u8>);

impl LinkTarget {
    pub(super) fn new(bytes: Vec<u8>) -> std::result::Result<Self, &'static str> {
        const MOST_TARGET: usize = 4095;
        let right = !bytes.is_empty() && bytes.len() <= MOST_TARGET && !bytes.contains(&0);
        right.then_some(Self(bytes)).ok_or("gives a target that a link can't have")
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<LinkTarget> for String {
    fn from(target: LinkTarget) -> Self {
        escape(&target.0).into_owned()
    }
}

impl TryFrom<String> for LinkTarget {
    type Error = &'static str;

    fn try_from(text: String) -> std::result::Result<Self, Self::Error> {
        Self::new(unescape(&text).ok_or("has a link with a wrong escape")?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub path: TreePath,
    #[serde(flatten)]
    pub node: Node,
}

/// One directory that was kept, by what it is called. Its own mode and time are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootEntries {
    pub label: String,
    /// In the order of their paths; a directory comes before what is in it.
    pub entries: Vec<Entry>,
}

/// What is known of a snapshot as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotFacts {
    pub name: String,
    pub session: String,
    pub created: EntryTime,
    pub parent: Option<SnapshotId>,
    /// Of all roots.
    pub entries: u64,
    /// Of all files.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub facts: SnapshotFacts,
    pub roots: Vec<RootEntries>,
}

impl Manifest {
    pub fn root(&self, label: &str) -> Result<&RootEntries> {
        let found = self.roots.iter().find(|root| root.label == label);
        found.ok_or_else(|| SnapshotError::NoRoot(label.to_owned()))
    }

    /// Every file's content and size; one content may come more than once.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectHash, u64)> {
        self.roots.iter().flat_map(|root| &root.entries).filter_map(|entry| match entry.node {
            Node::File { object, size, .. } => Some((object, size)),
            _ => None,
        })
    }
}

/// The name of a snapshot, for people: one line.
pub(super) fn check_name(name: &str) -> Result<()> {
    const MOST: usize = 128;
    let why = if name.chars().any(char::is_control) {
        "it has a control character"
    } else if name.len() > MOST {
        "it is longer than 128 bytes"
    } else {
        return Ok(());
    };
    Err(SnapshotError::BadName { what: "the name", given: name.to_owned(), why })
}

/// Sessions and roots: these become names of files.
pub(super) fn check_label(what: &'static str, label: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let right = !label.is_empty() && label.len() <= 64 && !label.starts_with('.') && label.bytes().all(plain);
    let why = "1 to 64 letters, digits, `-`, `_` and `.`, and no `.` at the beginning";
    if right { Ok(()) } else { Err(SnapshotError::BadName { what, given: label.to_owned(), why }) }
}
