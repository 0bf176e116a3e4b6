//! A directory to unpack into, with something of value beside it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_skills::{ArchiveError, Digest, Tree, TreeLimits, UnpackLimits, Unpacked, unpack};
use rustix::fs::{MemfdFlags, memfd_create};

pub(crate) struct Scene {
    root: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/inside")).unwrap();
        std::fs::write(root.path().join("canary"), "canary").unwrap();
        std::fs::write(root.path().join("a/canary"), "canary").unwrap();
        let before = everything(root.path(), &root.path().join("a/inside"));
        Self { root, before }
    }

    pub(crate) fn inside(&self) -> PathBuf {
        self.root.path().join("a/inside")
    }

    pub(crate) fn unpack(&self, archive: &File) -> Result<Unpacked, ArchiveError> {
        let directory = File::open(self.inside()).unwrap();
        unpack(archive, directory.as_fd(), &UnpackLimits::default())
    }

    pub(crate) fn unpack_bytes(&self, bytes: &[u8]) -> Result<Unpacked, ArchiveError> {
        let mut file = File::from(memfd_create("archive", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(bytes).unwrap();
        self.unpack(&file)
    }

    pub(crate) fn is_empty(&self) -> bool {
        std::fs::read_dir(self.inside()).unwrap().next().is_none()
    }

    pub(crate) fn surroundings_are_untouched(&self) -> bool {
        everything(self.root.path(), &self.inside()) == self.before
    }

    /// Empty again, for the next archive.
    pub(crate) fn clear(&self) {
        for entry in std::fs::read_dir(self.inside()).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => std::fs::remove_dir_all(entry.path()).unwrap(),
                false => std::fs::remove_file(entry.path()).unwrap(),
            }
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        digest(&self.inside())
    }
}

pub(crate) fn digest(directory: &Path) -> Digest {
    Tree::read(directory, TreeLimits::default(), |_, _| false).unwrap().digest().unwrap()
}

/// Every path beneath `root` but not beneath `except`, with its type, size and time.
pub(crate) fn everything(root: &Path, except: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let facts = std::fs::symlink_metadata(&path).unwrap();
            if path == except {
                continue;
            }
            // The time of a directory says that something came or went in it.
            let line = format!("{:o} {} {}.{}", facts.mode(), facts.len(), facts.mtime(), facts.mtime_nsec());
            if facts.is_dir() {
                waiting.push(path.clone());
            }
            found.insert(path, line);
        }
    }
    found
}
