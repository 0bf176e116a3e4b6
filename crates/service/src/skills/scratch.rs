//! A private directory for the time of one call: removed when it is let go, and by the next call if this one is killed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
        // No name twice: whoever still removes the last one that had it would take this one away.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = parent.join(format!("{}-{number}", std::process::id()));
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
            remove(&path).map_err(|error| ServiceError::state("remove", &path, &error))?;
        }
    }
    Ok(())
}

/// Whoever lets go of one removes it too, maybe right now: what the other one has removed is no error.
fn remove(path: &Path) -> io::Result<()> {
    let mut tries = 0..100;
    loop {
        match remove_tree(path) {
            Err(error) if path.symlink_metadata().is_ok() && tries.next().is_none() => return Err(error),
            Err(_) if path.symlink_metadata().is_ok() => std::thread::sleep(Duration::from_millis(1)),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A hundred times three at once: without the second look some call met what another was removing.
    #[test]
    fn many_at_once_do_not_get_in_each_others_way() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(root.path().join("state"));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let one = Scratch::new(&state).unwrap();
                        fs::create_dir_all(one.path.join("a/b/c")).unwrap();
                        fs::write(one.path.join("a/b/c/d"), "").unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(state.path().join("scratch")).unwrap().count(), 0);
    }

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
