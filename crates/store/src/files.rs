//! The files beside the database: private, locked while they are changed, synced with the directory they are in.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::StoreError;

/// Held until it is dropped; other processes that want the same wait. `PATH.lock` stays: removing it would let two hold it.
pub(crate) fn lock_beside(path: &Path) -> Result<File, StoreError> {
    let file = private().open(with_suffix(path, ".lock"));
    file.and_then(|file| flock(&file, FlockOperation::LockExclusive).map(|()| file).map_err(io::Error::from))
        .map_err(StoreError::file("can't lock", path))
}

/// Made if it is not there, for its owner only; a link is not followed.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// So that what was made or renamed in it stays so.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
