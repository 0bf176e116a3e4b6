//! What a run left in the workspace: its files before and after, by what `stat` says of them. Bounded in entries, and
//! through no link.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// How many entries are looked at. A larger workspace has no list.
const MOST_SEEN: usize = 50_000;
/// How many changes are listed.
const MOST_LISTED: usize = 200;
const DEEPEST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    New,
    Changed,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkspaceChange {
    /// Relative to the workspace.
    pub path: String,
    pub kind: ChangeKind,
    pub bytes: u64,
}

/// In the order of their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkspaceChanges {
    pub files: Vec<WorkspaceChange>,
    /// Not every change is listed: there are too many, or too many files.
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    /// Of content and of metadata: neither alone sees a file that was put back with an old time.
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The files of a directory at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    root: PathBuf,
    files: BTreeMap<PathBuf, Stamp>,
    whole: bool,
}

impl Snapshot {
    pub(crate) fn take(root: &Path) -> Self {
        let mut snapshot = Self { root: root.to_path_buf(), files: BTreeMap::new(), whole: true };
        let mut seen = 0;
        let mut waiting = vec![(root.to_path_buf(), 0)];
        while let Some((directory, depth)) = waiting.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MOST_SEEN || depth > DEEPEST {
                    snapshot.whole = false;
                    return snapshot;
                }
                let Ok(facts) = entry.metadata() else { continue };
                if facts.is_dir() {
                    // git's own files are told by git.
                    if entry.file_name() != ".git" {
                        waiting.push((entry.path(), depth + 1));
                    }
                } else if let Ok(path) = entry.path().strip_prefix(root) {
                    snapshot.files.insert(path.to_path_buf(), stamp(&facts));
                }
            }
        }
        snapshot
    }

    /// What is different now.
    pub(crate) fn changes(self) -> WorkspaceChanges {
        let now = Self::take(&self.root);
        if !self.whole || !now.whole {
            return WorkspaceChanges { files: Vec::new(), truncated: true };
        }
        let mut found = Vec::new();
        for (path, stamp) in &now.files {
            match self.files.get(path) {
                Some(before) if before == stamp => {}
                Some(_) => found.push((path, ChangeKind::Changed, stamp.size)),
                None => found.push((path, ChangeKind::New, stamp.size)),
            }
        }
        let gone = self.files.keys().filter(|path| !now.files.contains_key(*path));
        found.extend(gone.map(|path| (path, ChangeKind::Removed, 0)));
        found.sort_by_key(|(path, ..)| *path);
        let truncated = found.len() > MOST_LISTED;
        found.truncate(MOST_LISTED);
        let change = |(path, kind, bytes): (&PathBuf, ChangeKind, u64)| WorkspaceChange {
            path: path.to_string_lossy().into_owned(),
            kind,
            bytes,
        };
        WorkspaceChanges { files: found.into_iter().map(change).collect(), truncated }
    }
}

fn stamp(facts: &fs::Metadata) -> Stamp {
    Stamp {
        inode: facts.ino(),
        size: facts.size(),
        modified: (facts.mtime(), facts.mtime_nsec()),
        changed: (facts.ctime(), facts.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_changed_and_removed_and_not_what_stayed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["same", "changed", "removed"] {
            fs::write(at(name), "1").unwrap();
        }
        fs::create_dir(at(".git")).unwrap();
        let before = Snapshot::take(root.path());
        fs::write(at("changed"), "22").unwrap();
        fs::remove_file(at("removed")).unwrap();
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/new"), "333").unwrap();
        fs::write(at(".git/x"), "").unwrap();
        let changes = before.changes();
        let seen: Vec<_> = changes.files.iter().map(|c| (c.path.as_str(), c.kind, c.bytes)).collect();
        assert_eq!(
            seen,
            [
                ("changed", ChangeKind::Changed, 2),
                ("d/new", ChangeKind::New, 3),
                ("removed", ChangeKind::Removed, 0)
            ]
        );
        assert!(!changes.truncated);
    }

    #[test]
    fn many_are_cut_and_said_to_be() {
        let root = tempfile::tempdir().unwrap();
        let before = Snapshot::take(root.path());
        for number in 0..MOST_LISTED + 1 {
            fs::write(root.path().join(number.to_string()), "").unwrap();
        }
        let changes = before.changes();
        assert!(changes.truncated && changes.files.len() == MOST_LISTED);
    }
}
