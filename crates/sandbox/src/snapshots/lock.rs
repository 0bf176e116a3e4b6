//! Who may touch the store. Objects are removed only when no one else works with it: a save counts on objects that no
//! manifest names yet. The kernel lets go of a lock when its holder ends, however it ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use super::error::{During, Result, SnapshotError};

#[derive(Debug)]
pub(super) struct StoreLock(#[expect(dead_code, reason = "held, not read")] File);

impl StoreLock {
    /// Beside others that read and add. Waits while objects are removed.
    pub(super) fn shared(store: &Path) -> Result<Self> {
        let file = open(store)?;
        retry_on_intr(|| flock(&file, FlockOperation::LockShared)).at("lock", store)?;
        Ok(Self(file))
    }

    /// Alone, or not at all.
    pub(super) fn alone(store: &Path) -> Result<Self> {
        let file = open(store)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(file)),
            Err(Errno::WOULDBLOCK) => {
                Err(SnapshotError::Busy("a snapshot is being taken, read or brought back"))
            }
            Err(error) => Err(error).at("lock", store),
        }
    }
}

fn open(store: &Path) -> Result<File> {
    let path = store.join("lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    opened.at("open", &path)
}
