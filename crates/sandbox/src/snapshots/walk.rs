//! Everything in a tree, in the order of a manifest, within limits. It may change, and lie, while it is read.

use std::io;

use rustix::io::Errno;

use super::error::{During, Result, SnapshotError};
use super::limits::SnapshotLimits;
use super::manifest::{LinkTarget, Skipped};
use super::path::{TreePath, is_name};
use super::tree::{EntryKind, EntryStat, Listed, Tree};

pub(super) struct Found {
    pub(super) path: TreePath,
    pub(super) stat: EntryStat,
    pub(super) content: FoundContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundContent {
    Directory,
    /// Not read yet.
    File,
    Link(LinkTarget),
    Skipped(Skipped),
}

/// What may still be found, over all trees of a snapshot.
pub(super) struct Budget {
    limits: SnapshotLimits,
    left: SnapshotLimits,
}

impl Budget {
    pub(super) fn new(limits: SnapshotLimits) -> Self {
        Self { limits, left: limits }
    }

    pub(super) fn take_bytes(&mut self, bytes: u64) -> Result<()> {
        take(&mut self.left.bytes, bytes, "the size of all files", self.limits.bytes)
    }

    /// Whether so many could be taken: before they are written to disk.
    pub(super) fn check_bytes(&self, bytes: u64) -> Result<()> {
        take(&mut self.left.bytes.clone(), bytes, "the size of all files", self.limits.bytes)
    }

    fn take_entry(&mut self, path: &TreePath) -> Result<()> {
        take(&mut self.left.entries, 1, "the number of files and directories", self.limits.entries)?;
        let length = path.as_bytes().len() as u64;
        take(&mut self.left.path_bytes, length, "the length of all paths", self.limits.path_bytes)
    }

    /// One more than is left, so that too many are noticed.
    fn most_listed(&self) -> usize {
        usize::try_from(self.left.entries).unwrap_or(usize::MAX).saturating_add(1)
    }
}

fn take(left: &mut u64, amount: u64, what: &'static str, limit: u64) -> Result<()> {
    *left = left.checked_sub(amount).ok_or(SnapshotError::TooMuch { what, limit })?;
    Ok(())
}

pub(super) fn walk(tree: &dyn Tree, budget: &mut Budget) -> Result<Vec<Found>> {
    let mut walk = Walk { tree, budget, found: Vec::new() };
    let top =
        walk.tree.list(&TreePath::top(), walk.budget.most_listed()).during("list", "the top of the tree")?;
    let mut waiting = walk.add(&TreePath::top(), top)?.unwrap_or_default();
    while let Some(index) = waiting.pop() {
        waiting.extend(walk.directory(index)?);
    }
    let mut found = walk.found.into_iter().flatten().collect::<Vec<_>>();
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    match found.windows(2).find(|pair| pair[0].path == pair[1].path) {
        Some(pair) => Err(wrong_listing("lists a name twice")).during("read", pair[0].path.to_string()),
        None => Ok(found),
    }
}

struct Walk<'a> {
    tree: &'a dyn Tree,
    budget: &'a mut Budget,
    /// `None` for what was gone when it was its turn.
    found: Vec<Option<Found>>,
}

impl Walk<'_> {
    /// Which of its entries are directories to walk.
    fn directory(&mut self, index: usize) -> Result<Vec<usize>> {
        let Some(path) = self.found[index].as_ref().map(|found| found.path.clone()) else {
            return Ok(Vec::new());
        };
        match self.tree.list(&path, self.budget.most_listed()) {
            Ok(listed) => match self.add(&path, listed)? {
                Some(directories) => Ok(directories),
                None => Ok(self.skip(index, Skipped::TooDeep)),
            },
            Err(error) if is_gone(&error) => {
                self.found[index] = None;
                Ok(Vec::new())
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(self.skip(index, Skipped::Unreadable))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                Ok(self.skip(index, Skipped::TooDeep))
            }
            Err(error) => Err(error).during("list", path.to_string()),
        }
    }

    fn skip(&mut self, index: usize, why: Skipped) -> Vec<usize> {
        if let Some(found) = &mut self.found[index] {
            found.content = FoundContent::Skipped(why);
        }
        Vec::new()
    }

    /// `None`: an entry's path would be too long.
    fn add(&mut self, directory: &TreePath, listed: Vec<Listed>) -> Result<Option<Vec<usize>>> {
        if listed.iter().any(|entry| !is_name(&entry.name)) {
            return Err(wrong_listing("lists a name that no file can have"))
                .during("list", directory.to_string());
        }
        let paths = listed.iter().map(|entry| directory.join(&entry.name)).collect::<Option<Vec<_>>>();
        let Some(paths) = paths else { return Ok(None) };
        let mut directories = Vec::new();
        for (path, Listed { stat, target, .. }) in paths.into_iter().zip(listed) {
            self.budget.take_entry(&path)?;
            let content = match (stat.kind, target) {
                (EntryKind::Directory, _) => FoundContent::Directory,
                (EntryKind::File, _) => FoundContent::File,
                (EntryKind::Special, _) => FoundContent::Skipped(Skipped::Special),
                (EntryKind::Link, target) => match LinkTarget::new(target.unwrap_or_default()) {
                    Ok(target) => FoundContent::Link(target),
                    Err(why) => return Err(wrong_listing(why)).during("read the link", path.to_string()),
                },
            };
            if content == FoundContent::Directory {
                directories.push(self.found.len());
            }
            self.found.push(Some(Found { path, stat, content }));
        }
        Ok(Some(directories))
    }
}

fn wrong_listing(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the tree {what}"))
}

/// Removed, or in the place of another: a link, say.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let replaced = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    replaced || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
