//! An anchor: a small file that says how far the audit had come. It is replaced whole (written beside, synced, renamed), and
//! only by one that says more.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::files::{lock_beside, private, sync_directory, with_suffix};

/// Much more than an anchor has.
const LARGEST: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    pub seq: i64,
    pub digest: String,
    /// When it was written.
    pub at: i64,
}

/// The end of the chain: zero and zeros where there is no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    pub seq: i64,
    pub digest: String,
}

impl Anchor {
    /// `None` where there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let unreadable = StoreError::file("can't read the anchor", path);
        let bytes = match fs::metadata(path) {
            Ok(metadata) if metadata.len() <= LARGEST => fs::read(path),
            Ok(_) => Err(io::Error::other("it is too large for one")),
            Err(error) => Err(error),
        };
        match bytes {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Corrupt {
                what: format!("the anchor {}", path.display()),
                why: error.to_string(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Unless the file is no longer what the caller has looked at: then `false`.
    pub(super) fn replace(&self, path: &Path, found: Option<&Self>) -> Result<bool, StoreError> {
        let _lock = lock_beside(path)?;
        if Self::read(path)?.as_ref() != found {
            return Ok(false);
        }
        self.write(path).map_err(StoreError::file("can't write the anchor", path))?;
        Ok(true)
    }

    /// Whatever is there.
    pub(super) fn force(&self, path: &Path) -> Result<(), StoreError> {
        let _lock = lock_beside(path)?;
        self.write(path).map_err(StoreError::file("can't write the anchor", path))
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let beside = with_suffix(path, ".new");
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let mut file = private().truncate(true).open(&beside)?;
        file.write_all(&line)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        sync_directory(path)
    }
}

/// What was committed so far survives a power cut, and so may be spoken of in an anchor. The log has no locks that closing a
/// descriptor would let go of; the database itself must not be opened here.
pub(super) fn sync_log(database: &Path) -> io::Result<()> {
    match File::open(with_suffix(database, "-wal")) {
        Ok(file) => file.sync_data()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    sync_directory(database)
}
