//! A private directory for the time of one call: removed when it is let go, and by the next call if this one is killed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_skills::remove_tree;
use rustix::fs::{FlockOperation, flock};

use crate::error::ServiceError;
use crate::state::StateDir;

const DIRECTORY: &str = "scratch";
const HELD: &str = "held";

/// `path` is empty at first. Held by a lock, so that nobody takes it for left over.
#[derive(Debug)]
pub(crate) struct Scratch {
    root: PathBuf,
    pub(crate) path: PathBuf,
    _held: File,
}

impl Scratch {
    pub(crate) fn new(state: &StateDir) -> Result<Self, ServiceError> {
        state.ensure()?;
        let parent = state.path().join(DIRECTORY);
        make(&parent).map_err(|error| ServiceError::state("make", &parent, &error))?;
        // Making one and removing left ones is one at a time: a directory without its lock is nobody's.
        let _one = state.lock("scratch.lock")?;
        sweep(&parent)?;
        let root = (0u32..)
            .map(|number| parent.join(format!("{}-{number}", std::process::id())))
            .find(|path| path.symlink_metadata().is_err())
            .unwrap_or_else(|| parent.join("full"));
        let problem = |error: io::Error| ServiceError::state("make", &root, &error);
        DirBuilder::new().mode(0o700).create(&root).map_err(problem)?;
        let held = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(root.join(HELD))
            .map_err(problem)?;
        flock(&held, FlockOperation::LockExclusive).map_err(|error| problem(error.into()))?;
        let path = root.join("it");
        DirBuilder::new().mode(0o755).create(&path).map_err(problem)?;
        Ok(Self { root, path, _held: held })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_tree(&self.root);
    }
}

/// Make a directory for its user only, if it is not there.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// What killed calls left; what can't be removed is an error, or it would stay for ever.
fn sweep(parent: &Path) -> Result<(), ServiceError> {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let held = File::open(entry.path().join(HELD));
        let in_use = held.is_ok_and(|held| flock(&held, FlockOperation::NonBlockingLockExclusive).is_err());
        if !in_use {
            let path = entry.path();
            remove_tree(&path).map_err(|error| ServiceError::state("remove", &path, &error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn removed_when_let_go_and_swept_when_killed() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(root.path().join("state"));
        let one = Scratch::new(&state).unwrap();
        fs::create_dir(one.path.join("x")).unwrap();
        fs::write(one.path.join("x/y"), "").unwrap();
        fs::set_permissions(one.path.join("x"), fs::Permissions::from_mode(0o000)).unwrap();
        let left = state.path().join("scratch/99999999-0");
        fs::create_dir_all(left.join("it")).unwrap();
        fs::write(left.join(HELD), "").unwrap();
        let two = Scratch::new(&state).unwrap();
        assert!(one.path.is_dir() && two.path.is_dir() && !left.exists());
        drop(one);
        drop(two);
        assert_eq!(fs::read_dir(state.path().join("scratch")).unwrap().count(), 0);
    }
}
