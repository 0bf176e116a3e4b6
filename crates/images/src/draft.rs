//! An image while it is put together: a map from paths to what is there. Nothing of it is on a disk under its own name, so that no
//! entry can lead another astray.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::{Path, PathBuf};

use ringfence_sandbox::snapshots::{EntryKind, EntryStat, EntryTime, Listed, Tree, TreePath};
use rustix::fs::{Mode, OFlags, open};

use crate::error::{ImageError, Result};
use crate::spool::Spool;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Directory,
    /// Where its content is, and whether it may be executed.
    File(PathBuf),
    /// Never followed.
    Link(Vec<u8>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    parts: BTreeMap<TreePath, Part>,
}

/// In every image, empty: places where a sandbox mounts its own.
const PLACES: &[&str] =
    &["dev", "etc", "home", "proc", "root", "run", "skills", "sys", "tmp", "usr", "var/tmp", "workspace"];
/// What is in them is nobody's to see.
const EMPTIED: &[&str] =
    &["dev", "home", "proc", "root", "run", "skills", "sys", "tmp", "workspace", "lost+found"];
/// Each sandbox has its own in their place.
const COVERED: &[&str] = &["etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf"];

impl Draft {
    pub(crate) fn get(&self, path: &TreePath) -> Option<&Part> {
        self.parts.get(path)
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TreePath, &Part)> {
        self.parts.iter()
    }

    /// In the place of what is there; directories on the way are made. An entry beneath a link or a file is refused.
    pub(crate) fn put(&mut self, path: TreePath, part: Part) -> Result<()> {
        self.parents(&path)?;
        match (self.parts.get(&path), &part) {
            (Some(Part::Directory), Part::Directory) => return Ok(()),
            (Some(Part::Directory), _) => self.clear(&path),
            _ => {}
        }
        self.parts.insert(path, part);
        Ok(())
    }

    /// With all that is in it.
    pub(crate) fn remove(&mut self, path: &TreePath) {
        self.clear(path);
        self.parts.remove(path);
    }

    /// What is in a directory, and not itself.
    pub(crate) fn clear(&mut self, directory: &TreePath) {
        let below: Vec<TreePath> = self.below(directory).map(|(path, _)| path.clone()).collect();
        for path in below {
            self.parts.remove(&path);
        }
    }

    pub(crate) fn below(&self, directory: &TreePath) -> impl Iterator<Item = (&TreePath, &Part)> {
        self.parts
            .range((Excluded(directory), Unbounded))
            .take_while(move |(path, _)| path.below(directory).is_some())
    }

    fn parents(&mut self, path: &TreePath) -> Result<()> {
        let mut missing = Vec::new();
        let mut above = path.split().map(|(above, _)| above);
        while let Some(directory) = above.filter(|above| !above.is_top()) {
            match self.parts.get(&directory) {
                Some(Part::Directory) => break,
                Some(Part::Link(_)) => {
                    return Err(ImageError::refused(
                        "image-through-link",
                        format!("{path} is beneath {directory}, which is a link"),
                    ));
                }
                Some(Part::File(_)) => {
                    return Err(ImageError::refused(
                        "image-through-file",
                        format!("{path} is beneath {directory}, which is a file"),
                    ));
                }
                None => {}
            }
            above = directory.split().map(|(above, _)| above);
            missing.push(directory);
        }
        self.parts.extend(missing.into_iter().map(|directory| (directory, Part::Directory)));
        Ok(())
    }

    /// What every image has, and what none has.
    pub(crate) fn finish(&mut self, spool: &Spool) -> Result<()> {
        let path = |text: &&str| TreePath::new(text.as_bytes());
        for emptied in EMPTIED.iter().filter_map(path) {
            self.remove(&emptied);
        }
        // A link there would lead what a sandbox mounts elsewhere.
        for top in [b"etc".as_slice(), b"var", b"usr"].into_iter().filter_map(TreePath::new) {
            if self.parts.get(&top).is_some_and(|part| *part != Part::Directory) {
                return Err(ImageError::refused("image-bad-root", format!("its /{top} is not a directory")));
            }
        }
        for place in PLACES.iter().filter_map(path) {
            if self.parts.get(&place).is_some_and(|part| *part != Part::Directory) {
                self.remove(&place);
            }
            self.put(place, Part::Directory)?;
        }
        let empty = spool.text(b"")?;
        for covered in COVERED.iter().filter_map(path) {
            self.put(covered, Part::File(empty.clone()))?;
        }
        Ok(())
    }
}

impl Tree for Draft {
    fn list(&self, directory: &TreePath, most: usize) -> io::Result<Vec<Listed>> {
        let children = self
            .below(directory)
            .filter(|(path, _)| path.below(directory).is_some_and(|rest| !rest.contains(&b'/')));
        let listed = children.take(most).map(|(path, part)| {
            let name = path.split().map(|(_, name)| name.to_vec()).unwrap_or_default();
            let (stat, target) = match part {
                Part::Directory => (plain(EntryKind::Directory), None),
                Part::Link(target) => (plain(EntryKind::Link), Some(target.clone())),
                Part::File(content) => (EntryStat::from(rustix::fs::lstat(content)?), None),
            };
            Ok(Listed { name, stat, target })
        });
        listed.collect()
    }

    fn open(&self, file: &TreePath) -> io::Result<File> {
        match self.parts.get(file) {
            Some(Part::File(content)) => open_file(content),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn times_tell(&self) -> bool {
        false
    }
}

/// A regular file, and nothing that a link leads to.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

fn plain(kind: EntryKind) -> EntryStat {
    let never = EntryTime::default();
    EntryStat { kind, mode: 0o755, size: 0, modified: never, changed: never, device: 0, inode: 0 }
}
