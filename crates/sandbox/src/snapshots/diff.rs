//! What differs between two snapshots, or a snapshot and a live tree.

use super::compare::{Item, What, hash_live, of_entries, of_tree, pair};
use super::error::Result;
use super::hash::ObjectHash;
use super::manifest::{LinkTarget, Manifest};
use super::path::TreePath;
use super::stat_cache::StatCache;
use super::store::SnapshotStore;
use super::tree::{EntryKind, RootTree, Tree};
use super::walk::Budget;

/// One of the two things that are compared.
#[derive(Clone, Copy)]
pub enum DiffSide<'a> {
    Snapshot(&'a Manifest),
    /// `session` is the one whose files these are: unchanged ones are then not read.
    Live {
        roots: &'a [RootTree<'a>],
        session: Option<&'a str>,
    },
}

/// How much is shown of what differs.
#[derive(Clone, Copy, Debug)]
pub struct DiffLimits {
    /// A larger file is only named.
    pub file_bytes: u64,
    /// From here on files are only named.
    pub output_bytes: u64,
}

impl Default for DiffLimits {
    fn default() -> Self {
        Self { file_bytes: 1 << 20, output_bytes: 16 << 20 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    Added,
    Removed,
    /// The content of a file, or where a link leads; perhaps its mode too.
    Content,
    Mode,
    /// A file where a directory was, for example.
    Kind,
}

/// What is, or was, at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
    pub(super) object: Option<ObjectHash>,
    pub(super) target: Option<LinkTarget>,
}

impl Seen {
    /// Of a live side, where its content is read when it is shown.
    pub fn live(kind: EntryKind, mode: u32, size: u64) -> Self {
        Self { kind, mode, size, object: None, target: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub root: String,
    pub path: TreePath,
    pub what: Changed,
    pub before: Option<Seen>,
    pub after: Option<Seen>,
}

/// Times are not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Those that were compared.
    pub roots: Vec<String>,
    pub changes: Vec<Change>,
}

impl SnapshotStore {
    /// Over all roots that both have; a root that one side lacks is not compared.
    pub fn diff(&self, base: DiffSide<'_>, other: DiffSide<'_>) -> Result<Diff> {
        let _lock = self.shared()?;
        let mut diff = Diff::default();
        let base = self.side(base)?;
        let other = self.side(other)?;
        for (label, before, before_tree) in base {
            let Some((_, after, after_tree)) = other.iter().find(|(other, ..)| *other == label) else {
                continue;
            };
            for (before, after) in pair(before, after.clone()) {
                let what = compare((before.as_ref(), before_tree), (after.as_ref(), *after_tree))?;
                let Some(path) = before.as_ref().or(after.as_ref()).map(|item| item.path.clone()) else {
                    continue;
                };
                let (before, after) = (before.map(Seen::from), after.map(Seen::from));
                let change = |what| Change { root: label.clone(), path, what, before, after };
                diff.changes.extend(what.map(change));
            }
            diff.roots.push(label);
        }
        Ok(diff)
    }

    fn side<'a>(&self, side: DiffSide<'a>) -> Result<Vec<Root<'a>>> {
        match side {
            DiffSide::Snapshot(manifest) => {
                let roots = manifest.roots.iter();
                Ok(roots.map(|root| (root.label.clone(), of_entries(&root.entries), None)).collect())
            }
            DiffSide::Live { roots, session } => {
                let known = match session {
                    Some(session) => StatCache::read(&self.cache_path(session)?),
                    None => StatCache::default(),
                };
                let mut budget = Budget::new(self.limits);
                let root = |root: &RootTree<'a>| {
                    let items = of_tree(root.tree, &known, &mut budget)?;
                    Ok((root.label.to_owned(), items, Some(root.tree)))
                };
                roots.iter().map(root).collect()
            }
        }
    }
}

type Root<'a> = (String, Vec<Item>, Option<&'a dyn Tree>);

impl From<Item> for Seen {
    fn from(item: Item) -> Self {
        let mode = item.attributes.mode;
        let of = |kind, mode, size| Self { kind, mode, size, object: None, target: None };
        match item.what {
            What::Directory => of(EntryKind::Directory, mode, 0),
            What::File(size, object) => Self { object, ..of(EntryKind::File, mode, size) },
            What::Link(target) => {
                let size = target.as_bytes().len() as u64;
                Self { target: Some(target), ..of(EntryKind::Link, 0, size) }
            }
            What::Skipped => of(EntryKind::Special, 0, 0),
        }
    }
}

/// An entry of one side, and where to read it if it is live.
type Sided<'a> = (Option<&'a Item>, Option<&'a dyn Tree>);

fn compare(before: Sided<'_>, after: Sided<'_>) -> Result<Option<Changed>> {
    let (Some(old), Some(new)) = (before.0, after.0) else {
        return Ok(Some(if before.0.is_none() { Changed::Added } else { Changed::Removed }));
    };
    let modes = || (old.attributes.mode != new.attributes.mode).then_some(Changed::Mode);
    Ok(match (&old.what, &new.what) {
        (What::Directory, What::Directory) => modes(),
        (What::Skipped, What::Skipped) => None,
        (What::Link(a), What::Link(b)) => (a != b).then_some(Changed::Content),
        (What::File(a, _), What::File(b, _)) if a != b => Some(Changed::Content),
        (What::File(..), What::File(..)) => {
            let same = hash(old, before.1)? == hash(new, after.1)?;
            if same { modes() } else { Some(Changed::Content) }
        }
        _ => Some(Changed::Kind),
    })
}

fn hash(item: &Item, tree: Option<&dyn Tree>) -> Result<Option<ObjectHash>> {
    match (&item.what, tree) {
        (What::File(_, None), Some(tree)) => hash_live(tree, &item.path),
        (What::File(_, hash), _) => Ok(*hash),
        _ => Ok(None),
    }
}
