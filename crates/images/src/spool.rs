//! Contents on their way into the store: numbered files in a directory of our own, gone when the build ends. What a killed build
//! left is removed by the next one.

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{During, ImageError, Result};

#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    next: Cell<u64>,
    _lock: File,
}

impl Spool {
    /// In `parent`, beside those of other builds.
    pub(crate) fn new(parent: &Path) -> Result<Self> {
        sweep(parent);
        for attempt in 0..100_u32 {
            let directory = parent.join(format!("{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(ImageError::io("make", &directory, &error)),
            }
            let lock = File::open(&directory).at("open", &directory)?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).at("lock", &directory)?;
            return Ok(Self { directory, next: Cell::new(0), _lock: lock });
        }
        Err(ImageError::new(
            "image-io",
            "no free name for what is built",
            "remove old builds, then try again",
        ))
    }

    /// A new file; executable, if the one it stands for is.
    pub(crate) fn create(&self, executable: bool) -> Result<(PathBuf, File)> {
        let path = self.directory.join(self.next.replace(self.next.get() + 1).to_string());
        let mode = if executable { 0o700 } else { 0o600 };
        let file =
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).at("make", &path)?;
        Ok((path, file))
    }

    pub(crate) fn text(&self, text: &[u8]) -> Result<PathBuf> {
        use std::io::Write;
        let (path, mut file) = self.create(false)?;
        file.write_all(text).at("write", &path)?;
        Ok(path)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Those that nobody holds.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // One of a process that lives may not be locked yet.
        let owner = name.split('-').next().unwrap_or_default();
        if Path::new("/proc").join(owner).exists() {
            continue;
        }
        let free = File::open(&path)
            .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        if free {
            let _ = fs::remove_dir_all(&path);
        }
    }
}
