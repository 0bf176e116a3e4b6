//! The spool: records of runs that no server saw, each a file of its own, folded into the chain later.
//!
//! Writing one needs no database and no runtime, and waits for no disk. Once it has returned, a `kill -9` loses nothing; a power
//! cut can lose or tear what was not yet on the disk, and a torn record is found by its checksum.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::AuditEntry;
use crate::store::random_name;
use crate::{Clock, StoreError};

/// A whole record; what is being written has another ending until it is one.
pub(super) const WHOLE: &str = "record";
pub(super) const UNFINISHED: &str = "tmp";
pub(super) const LARGEST: u64 = 16 * 1024 * 1024;
const HEADING: &str = "ringfence-audit-spool-1";
/// A folder that sweeps takes a file away between its making and its locking: at most a few times in a row.
const ATTEMPTS: usize = 16;

#[derive(Serialize, Deserialize)]
pub(super) struct SpoolRecord {
    /// The name of its file, and what it is folded in by: once, whatever the file is called.
    pub(super) id: String,
    pub(super) entry: AuditEntry,
}

/// Writes one record down. The directory is made if there is none, for its owner only.
pub fn spool_append(directory: &Path, entry: &AuditEntry) -> Result<(), StoreError> {
    let failed = |error| StoreError::file("can't write to the spool", directory)(error);
    // In the order of names is in the order of time, as well as the clock knows.
    let id = format!("{:013}-{}", Clock::system().now(), random_name()?);
    let record = SpoolRecord { id: id.clone(), entry: entry.clone() };
    let body = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
    let checksum = blake3::hash(&body).to_hex();
    let mut bytes = format!("{HEADING} {} {checksum}\n", body.len()).into_bytes();
    bytes.extend_from_slice(&body);
    if bytes.len() as u64 > LARGEST {
        return Err(failed(io::Error::other(format!("a record of {} bytes is too large", bytes.len()))));
    }
    let unfinished = directory.join(format!("{id}.{UNFINISHED}"));
    let whole = directory.join(format!("{id}.{WHOLE}"));
    for _ in 0..ATTEMPTS {
        let written = write_locked(directory, &unfinished, &bytes).and_then(|file| {
            fs::rename(&unfinished, &whole)?;
            drop(file);
            Ok(())
        });
        match written {
            Ok(()) => return Ok(()),
            // Swept as if its writer were dead.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                // Nothing that is not whole stays behind; what can't be removed is swept by the next folding.
                let _ = fs::remove_file(&unfinished);
                return Err(failed(error));
            }
        }
    }
    Err(failed(io::Error::other("it is swept faster than it can be written")))
}

/// The lock says that the writer lives; it goes with the process.
fn write_locked(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            options.open(path)?
        }
        other => other?,
    };
    flock(&file, FlockOperation::LockExclusive)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Why a record is not whole is in the error.
pub(super) fn parse(bytes: &[u8]) -> Result<SpoolRecord, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no heading")?;
    let heading = std::str::from_utf8(&bytes[..end]).map_err(|_| "its heading is not text")?;
    let body = &bytes[end + 1..];
    let words: Vec<&str> = heading.split(' ').collect();
    let [HEADING, length, checksum] = words[..] else {
        return Err("its heading is not one of ours".into());
    };
    if length.parse() != Ok(body.len()) {
        return Err(format!("it has {} bytes, and should have {length}", body.len()));
    }
    if blake3::hash(body).to_hex().as_str() != checksum {
        return Err("its checksum is wrong".into());
    }
    serde_json::from_slice(body).map_err(|error| format!("it is no record: {error}"))
}
