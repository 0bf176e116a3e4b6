//! Bringing a tree back to a snapshot. What is to be done is found out first, so that little is done where little
//! changed, and nothing where an object is missing.

use std::collections::BTreeSet;

use super::compare::{Item, What, hash_live, of_entries, of_tree, pair};
use super::error::{During, Result, SnapshotError};
use super::hash::SnapshotId;
use super::path::TreePath;
use super::stat_cache::StatCache;
use super::store::SnapshotStore;
use super::tree::{Attributes, RootWriter, Tree, TreeWriter};
use super::walk::Budget;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    pub written: u64,
    pub bytes_written: u64,
    pub removed: u64,
    /// Those whose mode or time alone was wrong.
    pub attributes_set: u64,
    pub unchanged: u64,
    /// What the snapshot has by name only is left as it is: its root and path.
    pub left_alone: Vec<(String, TreePath)>,
}

impl SnapshotStore {
    /// These roots of the snapshot. `session` is the one whose files these are: unchanged ones are then not read.
    pub fn restore(
        &self,
        id: SnapshotId,
        roots: &[RootWriter<'_>],
        session: Option<&str>,
    ) -> Result<Restored> {
        let _lock = self.shared()?;
        let manifest = self.load(id)?;
        let known = match session {
            Some(session) => StatCache::read(&self.cache_path(session)?),
            None => StatCache::default(),
        };
        let mut restored = Restored::default();
        let mut plans = Vec::new();
        for root in roots {
            let saved = of_entries(&manifest.root(root.label)?.entries);
            let live = of_tree(root.tree, &known, &mut Budget::new(self.limits))?;
            plans.push(Plan::new(root, pair(live, saved), &mut restored)?);
        }
        plans.iter().try_for_each(|plan| self.check_objects(id, plan))?;
        for (root, plan) in roots.iter().zip(&plans) {
            self.carry_out(root.tree, plan, &mut restored)?;
        }
        Ok(restored)
    }

    fn check_objects(&self, id: SnapshotId, plan: &Plan) -> Result<()> {
        for item in &plan.write {
            if let What::File(size, Some(object)) = &item.what
                && !self.objects.has(object, *size)
            {
                let why = format!("the content of {} (object {object}) is missing or cut", item.path);
                return Err(SnapshotError::Damaged { id: id.short(), why });
            }
        }
        Ok(())
    }

    fn carry_out(&self, tree: &dyn TreeWriter, plan: &Plan, restored: &mut Restored) -> Result<()> {
        for (path, attributes) in &plan.open {
            tree.set_attributes(path, *attributes).during("open for writing", path.to_string())?;
        }
        for path in &plan.remove {
            tree.remove(path).during("remove", path.to_string())?;
            restored.removed += 1;
        }
        for item in &plan.write {
            self.write(tree, item, restored)?;
            restored.written += 1;
        }
        for item in plan.attributes.iter().rev() {
            set_attributes(tree, item)?;
        }
        Ok(())
    }

    fn write(&self, tree: &dyn TreeWriter, item: &Item, restored: &mut Restored) -> Result<()> {
        let path = &item.path;
        match &item.what {
            What::Directory => tree.make_directory(path),
            What::Link(target) => tree.write_link(path, target.as_bytes(), item.attributes.modified),
            What::File(size, Some(object)) => {
                restored.bytes_written += size;
                tree.write_file(path, &mut self.objects.open(object, *size)?, item.attributes)
            }
            What::File(_, None) | What::Skipped => Ok(()),
        }
        .during("write", path.to_string())
    }
}

fn set_attributes(tree: &dyn TreeWriter, item: &Item) -> Result<()> {
    match item.what {
        What::Link(_) => tree.set_link_time(&item.path, item.attributes.modified),
        _ => tree.set_attributes(&item.path, item.attributes),
    }
    .during("set the mode and time of", item.path.to_string())
}

/// What is to be done, in this order.
#[derive(Default)]
struct Plan {
    /// Directories that their owner can't write to, and something in them changes.
    open: Vec<(TreePath, Attributes)>,
    remove: Vec<TreePath>,
    /// In the order of their paths.
    write: Vec<Item>,
    /// From the last to the first: setting what is in a directory comes before the directory.
    attributes: Vec<Item>,
}

impl Plan {
    fn new(
        root: &RootWriter<'_>,
        pairs: Vec<(Option<Item>, Option<Item>)>,
        restored: &mut Restored,
    ) -> Result<Self> {
        let mut plan = Self::default();
        let mut directories = Vec::new();
        let mut left_alone: Option<TreePath> = None;
        for (live, saved) in pairs {
            let path = saved.as_ref().or(live.as_ref()).map(|item| &item.path);
            if left_alone.as_ref().zip(path).is_some_and(|(above, path)| path.below(above).is_some()) {
                continue;
            }
            match (live, saved) {
                (_, Some(saved)) if saved.what == What::Skipped => {
                    restored.left_alone.push((root.label.to_owned(), saved.path.clone()));
                    left_alone = Some(saved.path);
                }
                (Some(live), None) => plan.remove(live.path),
                (None, Some(saved)) => plan.create(saved, &mut directories),
                (Some(live), Some(saved)) => plan.compare(root, live, saved, &mut directories, restored)?,
                (None, None) => {}
            }
        }
        plan.finish(directories);
        Ok(plan)
    }

    /// Topmost only: what is below goes with it.
    fn remove(&mut self, path: TreePath) {
        if self.remove.last().is_none_or(|above| path.below(above).is_none()) {
            self.remove.push(path);
        }
    }

    fn create(&mut self, saved: Item, directories: &mut Vec<Compared>) {
        if saved.what == What::Directory {
            directories.push(Compared { saved: saved.clone(), live: None });
        }
        self.write.push(saved);
    }

    fn compare(
        &mut self,
        root: &RootWriter<'_>,
        live: Item,
        saved: Item,
        directories: &mut Vec<Compared>,
        restored: &mut Restored,
    ) -> Result<()> {
        if live.what == What::Directory && saved.what == What::Directory {
            directories.push(Compared { saved, live: Some(live.attributes) });
        } else if live.what == What::Directory || live.what == What::Skipped || saved.what == What::Directory
        {
            self.remove(live.path);
            self.create(saved, directories);
        } else if !same_content(root.tree, &live, &saved)? {
            self.write.push(saved);
        } else if live.attributes_differ(&saved) {
            restored.attributes_set += 1;
            self.attributes.push(saved);
        } else {
            restored.unchanged += 1;
        }
        Ok(())
    }

    fn finish(&mut self, directories: Vec<Compared>) {
        let written = self.write.iter().map(|item| &item.path);
        let touched: BTreeSet<TreePath> =
            self.remove.iter().chain(written).filter_map(|path| Some(path.split()?.0)).collect();
        for Compared { saved, live } in directories {
            let is_touched = touched.contains(&saved.path);
            if let Some(live) = live.filter(|live| is_touched && live.mode & 0o700 != 0o700) {
                self.open.push((saved.path.clone(), Attributes { mode: live.mode | 0o700, ..live }));
            }
            if is_touched || live != Some(saved.attributes) {
                self.attributes.push(saved);
            }
        }
    }
}

/// A directory of the snapshot, and what it is like now.
struct Compared {
    saved: Item,
    /// `None`: it is made.
    live: Option<Attributes>,
}

impl Item {
    fn attributes_differ(&self, other: &Self) -> bool {
        let is_link = matches!(self.what, What::Link(_));
        let modes_differ = !is_link && self.attributes.mode != other.attributes.mode;
        modes_differ || self.attributes.modified != other.attributes.modified
    }
}

fn same_content(tree: &dyn Tree, live: &Item, saved: &Item) -> Result<bool> {
    match (&live.what, &saved.what) {
        (What::Link(a), What::Link(b)) => Ok(a == b),
        (What::File(a, hash), What::File(b, Some(wanted))) if a == b => {
            let hash = if hash.is_some() { *hash } else { hash_live(tree, &live.path)? };
            Ok(hash == Some(*wanted))
        }
        _ => Ok(false),
    }
}
