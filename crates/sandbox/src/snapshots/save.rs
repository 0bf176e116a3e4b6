//! Taking a snapshot: read what changed, keep its content, then write the manifest. Until the manifest has its name
//! there is no snapshot.

use std::ops::ControlFlow;

use super::error::{Result, SnapshotError};
use super::hash::SnapshotId;
use super::manifest::{
    Entry, KEPT_MODE, Manifest, Node, RootEntries, Skipped, SnapshotFacts, check_label, check_name,
};
use super::objects::{Batch, Source};
use super::path::TreePath;
use super::reading::{Reading, steadily};
use super::stat_cache::StatCache;
use super::store::SnapshotStore;
use super::tree::{Attributes, EntryKind, EntryStat, EntryTime, RootTree, Tree};
use super::walk::{Budget, Found, FoundContent, walk};

/// How an unchanged file is told from a changed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recognise {
    /// By device, inode, size and times, where these tell.
    #[default]
    ByTimes,
    /// Not at all: every file is read.
    ByContent,
}

/// What is kept of modes and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepAttributes {
    #[default]
    AsTheyAre,
    /// May it be executed, and nothing else: the same names and contents have the same id, whoever saves them and when.
    Executable,
}

#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// For people; need not be the only one of that name.
    pub name: String,
    pub session: String,
    pub parent: Option<SnapshotId>,
    pub recognise: Recognise,
    pub attributes: KeepAttributes,
}

/// How far a save is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveProgress {
    pub entries: u64,
    pub all_entries: u64,
    pub bytes_read: u64,
}

#[derive(Clone, Debug)]
pub struct Saved {
    pub id: SnapshotId,
    pub facts: SnapshotFacts,
    /// Files whose content had to be read.
    pub files_read: u64,
    pub bytes_read: u64,
    /// Contents that were not in the store before.
    pub new_objects: u64,
    /// What is in the snapshot by name only: its root, its path, and why.
    pub skipped: Vec<(String, TreePath, Skipped)>,
}

impl SnapshotStore {
    /// Trees may change meanwhile, and then show a mix of before and after: stop what writes to them first. `progress`
    /// may break the save off.
    pub fn save(
        &self,
        roots: &[RootTree<'_>],
        options: &SaveOptions,
        progress: &mut dyn FnMut(&SaveProgress) -> ControlFlow<()>,
    ) -> Result<Saved> {
        check_name(&options.name)?;
        check_roots(roots)?;
        let cache_path = self.cache_path(&options.session)?;
        let _lock = self.shared()?;
        let started = EntryTime::now();
        let mut budget = Budget::new(self.limits);
        let found = roots.iter().map(|root| walk(root.tree, &mut budget)).collect::<Result<Vec<_>>>()?;
        let known = match options.recognise {
            Recognise::ByTimes => StatCache::read(&cache_path),
            Recognise::ByContent => StatCache::default(),
        };
        let mut save = Save {
            store: self,
            batch: self.objects.batch(),
            budget,
            known,
            seen: StatCache::default(),
            attributes: options.attributes,
            started,
            state: SaveProgress {
                all_entries: found.iter().map(|found| found.len() as u64).sum(),
                ..Default::default()
            },
            progress,
            counts: Counts::default(),
        };
        let mut kept = Vec::with_capacity(roots.len());
        for (root, found) in roots.iter().zip(found) {
            kept.push(RootEntries { label: root.label.to_owned(), entries: save.entries(root.tree, found)? });
        }
        let Save { batch, seen, state, counts, .. } = save;
        let created = match options.attributes {
            KeepAttributes::AsTheyAre => started,
            KeepAttributes::Executable => EntryTime::default(),
        };
        let manifest = manifest(options, kept, created);
        let id = self.commit(batch, &manifest)?;
        // A hint that can't be written costs time later, not the snapshot.
        let _ = self.objects.temporary().and_then(|beside| seen.write(&cache_path, beside.path()));
        Ok(Saved {
            id,
            files_read: counts.files_read,
            bytes_read: state.bytes_read,
            new_objects: counts.new_objects,
            skipped: skipped(&manifest),
            facts: manifest.facts,
        })
    }
}

fn check_roots(roots: &[RootTree<'_>]) -> Result<()> {
    for (index, root) in roots.iter().enumerate() {
        check_label("the root", root.label)?;
        if roots[..index].iter().any(|other| other.label == root.label) {
            let given = root.label.to_owned();
            return Err(SnapshotError::BadName { what: "the root", given, why: "it is given twice" });
        }
    }
    Ok(())
}

fn manifest(options: &SaveOptions, roots: Vec<RootEntries>, created: EntryTime) -> Manifest {
    let facts = SnapshotFacts {
        name: options.name.clone(),
        session: options.session.clone(),
        created,
        parent: options.parent,
        entries: roots.iter().map(|root| root.entries.len() as u64).sum(),
        bytes: 0,
    };
    let mut manifest = Manifest { facts, roots };
    manifest.facts.bytes = manifest.objects().map(|(_, size)| size).sum();
    manifest
}

fn skipped(manifest: &Manifest) -> Vec<(String, TreePath, Skipped)> {
    let of_root = |root: &RootEntries| {
        let label = root.label.clone();
        let skipped = root.entries.iter().filter_map(|entry| match entry.node {
            Node::Skipped { why } => Some((entry.path.clone(), why)),
            _ => None,
        });
        skipped.map(|(path, why)| (label.clone(), path, why)).collect::<Vec<_>>()
    };
    manifest.roots.iter().flat_map(of_root).collect()
}

#[derive(Default)]
struct Counts {
    files_read: u64,
    new_objects: u64,
}

struct Save<'a> {
    store: &'a SnapshotStore,
    batch: Batch<'a>,
    budget: Budget,
    known: StatCache,
    seen: StatCache,
    attributes: KeepAttributes,
    started: EntryTime,
    state: SaveProgress,
    progress: &'a mut dyn FnMut(&SaveProgress) -> ControlFlow<()>,
    counts: Counts,
}

impl KeepAttributes {
    fn of(self, stat: &EntryStat) -> Attributes {
        match (self, stat.kind) {
            (Self::AsTheyAre, _) => kept(stat),
            (Self::Executable, EntryKind::File) if stat.mode & 0o111 == 0 => {
                Attributes { mode: 0o644, modified: EntryTime::default() }
            }
            (Self::Executable, _) => Attributes { mode: 0o755, modified: EntryTime::default() },
        }
    }
}

impl Save<'_> {
    fn kept(&self, stat: &EntryStat) -> Attributes {
        self.attributes.of(stat)
    }

    fn entries(&mut self, tree: &dyn Tree, found: Vec<Found>) -> Result<Vec<Entry>> {
        let mut entries = Vec::with_capacity(found.len());
        for Found { path, stat, content } in found {
            let Attributes { mode, modified } = self.kept(&stat);
            let node = match content {
                FoundContent::Directory => Some(Node::Directory { mode, modified }),
                FoundContent::Link(target) => Some(Node::Link { target, modified }),
                FoundContent::Skipped(why) => Some(Node::Skipped { why }),
                FoundContent::File => self.file(tree, &path, &stat)?,
            };
            entries.extend(node.map(|node| Entry { path, node }));
            self.state.entries += 1;
            if (self.progress)(&self.state).is_break() {
                return Err(SnapshotError::Cancelled);
            }
        }
        Ok(entries)
    }

    /// `None`: it is gone.
    fn file(&mut self, tree: &dyn Tree, path: &TreePath, stat: &EntryStat) -> Result<Option<Node>> {
        let unchanged =
            self.known.get(stat).filter(|hash| tree.times_tell() && self.store.objects.has(hash, stat.size));
        if let Some(object) = unchanged {
            self.budget.take_bytes(stat.size)?;
            self.batch.count_on(&object);
            self.seen.add(stat, object, self.started);
            let Attributes { mode, modified } = self.kept(stat);
            return Ok(Some(Node::File { mode, modified, size: stat.size, object }));
        }
        self.read(tree, path)
    }

    fn read(&mut self, tree: &dyn Tree, path: &TreePath) -> Result<Option<Node>> {
        let (batch, budget, attributes) = (&self.batch, &self.budget, self.attributes);
        let read = steadily(tree, path, |content, stat| {
            budget.check_bytes(stat.size)?;
            batch.stage(content, &Source { name: path, size: stat.size, attributes: attributes.of(stat) })
        })?;
        let (staged, stat) = match read {
            Reading::Read(staged, stat) => (staged, stat),
            Reading::Gone => return Ok(None),
            Reading::Unreadable => return Ok(Some(Node::Skipped { why: Skipped::Unreadable })),
        };
        self.budget.take_bytes(stat.size)?;
        self.state.bytes_read += stat.size;
        self.counts.files_read += 1;
        let object = staged.hash;
        self.counts.new_objects += u64::from(self.batch.keep(staged));
        self.seen.add(&stat, object, self.started);
        let Attributes { mode, modified } = self.kept(&stat);
        Ok(Some(Node::File { mode, modified, size: stat.size, object }))
    }
}

pub(super) fn kept(stat: &EntryStat) -> Attributes {
    Attributes { mode: stat.mode & KEPT_MODE, modified: stat.modified }
}
