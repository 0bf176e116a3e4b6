//! A user's directory and a session's layers for the tests, with the layers written as the kernel writes them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use tempfile::TempDir;

use super::changes::{Change, ChangeKind};
use super::commit::{CommitOptions, CommitReport, LeftOutReason};
use super::error::OverlayError;
use super::start::{Overlay, prepare_layers};
use crate::layers::WorkspaceLayers;

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) place: TempDir,
}

impl Scene {
    /// A session over a directory with these files.
    pub(super) fn over(files: &[(&str, &str)]) -> Self {
        let scene = Self { place: TempDir::with_prefix("overlay-").unwrap() };
        fs::create_dir(scene.lower("")).unwrap();
        fs::create_dir(scene.path("layers")).unwrap();
        for (path, content) in files {
            write(&scene.lower(path), content);
        }
        scene.begin();
        scene
    }

    /// From here on a change of the user's directory is somebody else's.
    pub(super) fn begin(&self) {
        let layers = WorkspaceLayers { directory: self.path("layers"), lower: None };
        let _ = fs::remove_file(self.path("layers/commit/start.json"));
        prepare_layers(&layers, &self.lower("")).unwrap();
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(super) fn lower(&self, name: &str) -> PathBuf {
        self.place.path().join("project").join(name)
    }

    pub(super) fn upper(&self, name: &str) -> PathBuf {
        self.place.path().join("layers/upper").join(name)
    }

    /// Something that the session wrote.
    pub(super) fn wrote(&self, name: &str, content: &str) -> &Self {
        write(&self.upper(name), content);
        self
    }

    pub(super) fn linked(&self, name: &str, to: &str) -> &Self {
        fs::create_dir_all(self.upper(name).parent().unwrap()).unwrap();
        symlink(to, self.upper(name)).unwrap();
        self
    }

    pub(super) fn removed(&self, name: &str) -> &Self {
        let path = self.upper(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        self
    }

    /// A directory that was removed and made again.
    pub(super) fn made_anew(&self, name: &str) -> &Self {
        fs::create_dir_all(self.upper(name)).unwrap();
        setxattr(self.upper(name), "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
        self
    }

    /// A file that was copied from below.
    pub(super) fn copied(&self, name: &str, content: &str) -> &Self {
        self.wrote(name, content);
        setxattr(self.upper(name), "user.overlay.origin", b"", XattrFlags::empty()).unwrap();
        self
    }

    pub(super) fn open(&self) -> Overlay {
        Overlay::open(&self.path("layers")).unwrap()
    }

    pub(super) fn changes(&self) -> Vec<Change> {
        self.open().changes().unwrap()
    }

    pub(super) fn listed(&self) -> Vec<(ChangeKind, String)> {
        self.changes().into_iter().map(|change| (change.kind, change.path.display().to_string())).collect()
    }

    pub(super) fn commit(&self) -> Result<CommitReport, OverlayError> {
        self.open().commit(&CommitOptions::default())
    }

    pub(super) fn commit_only(&self, only: &[&str]) -> Result<CommitReport, OverlayError> {
        let only = only.iter().map(PathBuf::from).collect();
        self.open().commit(&CommitOptions { only, ..CommitOptions::default() })
    }

    /// The user's directory, whole.
    pub(super) fn tree(&self) -> BTreeMap<String, String> {
        tree(&self.lower(""))
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.lower(name)).unwrap()
    }
}

/// Every path below `top` with what it is and holds.
pub(super) fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let facts = path.symlink_metadata().unwrap();
            let mode = facts.permissions().mode() & 0o7777;
            let what = if facts.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if facts.is_dir() {
                left.push(path.clone());
                format!("directory {mode:o}")
            } else {
                format!("{mode:o} {}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
            };
            found.insert(path.strip_prefix(top).unwrap().display().to_string(), what);
        }
    }
    found
}

pub(super) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(super) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The paths that conflict.
pub(super) fn conflicts(result: Result<CommitReport, OverlayError>) -> Vec<String> {
    match result {
        Err(OverlayError::Conflicts { conflicts, .. }) => {
            conflicts.iter().map(|conflict| conflict.path.display().to_string()).collect()
        }
        other => panic!("no conflict: {other:?}"),
    }
}

/// What was left out because it is protected.
pub(super) fn protected(report: &CommitReport) -> Vec<String> {
    let left_out = report.left_out.iter();
    left_out
        .filter(|left| matches!(left.reason, LeftOutReason::Protected { .. }))
        .map(|left| left.path.display().to_string())
        .collect()
}
