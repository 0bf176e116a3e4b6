//! A manifest as bytes: lines of JSON. The first has the facts, then each root has a line and one for each entry. The
//! id of a snapshot is the hash of these bytes, so there is one spelling only: what is read must be what would be
//! written.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use super::error::{Result, SnapshotError};
use super::hash::{ObjectHash, SnapshotId};
use super::limits::SnapshotLimits;
use super::manifest::{
    Entry, KEPT_MODE, Manifest, Node, RootEntries, SnapshotFacts, check_label, check_name,
};
use super::path::TreePath;

const FORMAT: &str = "ringfence-snapshot";
const VERSION: u32 = 1;
const MOST_FACTS: u64 = 64 * 1024;
/// It is read into memory. A million entries with paths of 100 bytes need a third of this.
pub(super) const MOST_MANIFEST: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    snapshot: SnapshotFacts,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RootLine {
    root: String,
    entries: u64,
}

pub(super) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256 * (manifest.facts.entries as usize + 2));
    put(&mut bytes, &Header { format: FORMAT.into(), version: VERSION, snapshot: manifest.facts.clone() });
    for root in &manifest.roots {
        put(&mut bytes, &RootLine { root: root.label.clone(), entries: root.entries.len() as u64 });
        root.entries.iter().for_each(|entry| put(&mut bytes, entry));
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *bytes, line).expect("these types are JSON, and a Vec takes all");
    bytes.write_all(b"\n").expect("a Vec takes all");
}

pub(super) fn id_of(bytes: &[u8]) -> SnapshotId {
    SnapshotId(ObjectHash::of(bytes))
}

/// The facts alone, without the check that they belong to the id.
pub(super) fn read_facts(input: impl BufRead) -> std::result::Result<SnapshotFacts, String> {
    let mut line = Vec::new();
    let mut limited = std::io::Read::take(input, MOST_FACTS);
    limited.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
    facts(&line)
}

fn facts(line: &[u8]) -> std::result::Result<SnapshotFacts, String> {
    let header: Header = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if header.format != FORMAT {
        return Err("it is no manifest of a snapshot".into());
    }
    if header.version != VERSION {
        return Err(format!("its format is {}, and this release reads {VERSION}", header.version));
    }
    Ok(header.snapshot)
}

/// The manifest with this id. Everything in it is checked: the bytes may come from anywhere.
pub(super) fn decode(id: SnapshotId, bytes: &[u8], limits: &SnapshotLimits) -> Result<Manifest> {
    if id_of(bytes) != id {
        return Err(damaged(id, "its manifest is not what its id says"));
    }
    let manifest = parse(bytes, limits).map_err(|why| damaged(id, why))?;
    if encode(&manifest) != bytes {
        return Err(damaged(id, "its manifest is not in the canonical form"));
    }
    Ok(manifest)
}

fn damaged(id: SnapshotId, why: impl Into<String>) -> SnapshotError {
    SnapshotError::Damaged { id: id.short(), why: why.into() }
}

fn parse(bytes: &[u8], limits: &SnapshotLimits) -> std::result::Result<Manifest, String> {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let facts = facts(lines.next().unwrap_or_default())?;
    check_name(&facts.name).map_err(|error| error.to_string())?;
    check_label("the session", &facts.session).map_err(|error| error.to_string())?;
    let mut counted = Counted::default();
    let mut roots: Vec<RootEntries> = Vec::new();
    let mut left = 0;
    for line in lines.by_ref().filter(|line| !line.is_empty()) {
        if left == 0 {
            let root = root_line(line, &roots)?;
            left = root.entries;
            roots.push(RootEntries { label: root.root, entries: Vec::new() });
        } else {
            let entry = serde_json::from_slice(line).map_err(|error| error.to_string())?;
            counted.add(&entry, limits)?;
            roots.last_mut().ok_or("an entry without a root")?.entries.push(entry);
            left -= 1;
        }
    }
    if left != 0 || (counted.entries, counted.bytes) != (facts.entries, facts.bytes) {
        return Err("its counts are wrong".into());
    }
    roots.iter().try_for_each(|root| check_order(&root.entries))?;
    Ok(Manifest { facts, roots })
}

fn root_line(line: &[u8], before: &[RootEntries]) -> std::result::Result<RootLine, String> {
    let root: RootLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    check_label("the root", &root.root).map_err(|error| error.to_string())?;
    if before.iter().any(|other| other.label == root.root) {
        return Err(format!("it has the root {:?} twice", root.root));
    }
    Ok(root)
}

/// What a manifest has so far.
#[derive(Default)]
struct Counted {
    entries: u64,
    bytes: u64,
    path_bytes: u64,
}

impl Counted {
    fn add(&mut self, entry: &Entry, limits: &SnapshotLimits) -> std::result::Result<(), String> {
        self.entries += 1;
        self.path_bytes += entry.path.as_bytes().len() as u64;
        if let Node::File { size, .. } = entry.node {
            self.bytes = self.bytes.checked_add(size).ok_or("its sizes are no sizes")?;
        }
        if entry.node.attributes().is_some_and(|attributes| attributes.mode & !KEPT_MODE != 0) {
            return Err(format!("{} has a mode that is never kept", entry.path));
        }
        let over =
            self.entries > limits.entries || self.bytes > limits.bytes || self.path_bytes > limits.path_bytes;
        if over { Err("it is larger than the limits for snapshots".into()) } else { Ok(()) }
    }
}

/// Paths go up, each once, and each directly below a directory that came before.
fn check_order(entries: &[Entry]) -> std::result::Result<(), String> {
    let mut above: Vec<&TreePath> = Vec::new();
    let mut last: Option<&TreePath> = None;
    for entry in entries {
        if last.is_some_and(|last| last >= &entry.path) {
            return Err(format!("{} is out of order", entry.path));
        }
        last = Some(&entry.path);
        while above.last().is_some_and(|directory| entry.path.below(directory).is_none()) {
            above.pop();
        }
        let rest = above.last().map_or(Some(entry.path.as_bytes()), |directory| entry.path.below(directory));
        if rest.is_none_or(|rest| rest.contains(&b'/')) {
            return Err(format!("{} is in no directory", entry.path));
        }
        if matches!(entry.node, Node::Directory { .. }) {
            above.push(&entry.path);
        }
    }
    Ok(())
}
