//! Two trees side by side, each a manifest or a live one. Content is read only where size and times leave it open.

use super::error::{During, Result};
use super::hash::ObjectHash;
use super::manifest::{Entry, LinkTarget, Node};
use super::path::TreePath;
use super::reading::{Reading, hash_of, steadily};
use super::save::kept;
use super::stat_cache::StatCache;
use super::tree::{Attributes, EntryTime, Tree};
use super::walk::{Budget, Found, FoundContent, walk};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: TreePath,
    pub(super) what: What,
    /// Of a link only the time counts.
    pub(super) attributes: Attributes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Directory,
    /// `None`: not read yet.
    File(u64, Option<ObjectHash>),
    Link(LinkTarget),
    Skipped,
}

pub(super) fn of_entries(entries: &[Entry]) -> Vec<Item> {
    entries.iter().map(of_entry).collect()
}

fn of_entry(entry: &Entry) -> Item {
    let nothing = Attributes { mode: 0, modified: EntryTime::default() };
    let (what, attributes) = match &entry.node {
        Node::Directory { mode, modified } => {
            (What::Directory, Attributes { mode: *mode, modified: *modified })
        }
        Node::File { mode, modified, size, object } => {
            (What::File(*size, Some(*object)), Attributes { mode: *mode, modified: *modified })
        }
        Node::Link { target, modified } => {
            (What::Link(target.clone()), Attributes { modified: *modified, ..nothing })
        }
        Node::Skipped { .. } => (What::Skipped, nothing),
    };
    Item { path: entry.path.clone(), what, attributes }
}

pub(super) fn of_tree(tree: &dyn Tree, known: &StatCache, budget: &mut Budget) -> Result<Vec<Item>> {
    let of_found = |Found { path, stat, content }| {
        let what = match content {
            FoundContent::Directory => What::Directory,
            FoundContent::File => What::File(stat.size, known.get(&stat).filter(|_| tree.times_tell())),
            FoundContent::Link(target) => What::Link(target),
            FoundContent::Skipped(_) => What::Skipped,
        };
        Item { path, what, attributes: kept(&stat) }
    };
    Ok(walk(tree, budget)?.into_iter().map(of_found).collect())
}

/// Every path of either side once, in order.
pub(super) fn pair(left: Vec<Item>, right: Vec<Item>) -> Vec<(Option<Item>, Option<Item>)> {
    let mut pairs = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.path.cmp(&b.path),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return pairs,
        };
        pairs.push((
            if order.is_le() { left.next() } else { None },
            if order.is_ge() { right.next() } else { None },
        ));
    }
}

/// The hash of a live file; `None`: it is gone, or may not be read.
pub(super) fn hash_live(tree: &dyn Tree, path: &TreePath) -> Result<Option<ObjectHash>> {
    let read = steadily(tree, path, |content, _| hash_of(content).during("read", path.to_string()))?;
    Ok(match read {
        Reading::Read(hash, _) => Some(hash),
        Reading::Gone | Reading::Unreadable => None,
    })
}
