//! Folding the spool into the chain: each record once, also when the process is killed between writing the row and removing
//! the file, and when two processes fold at the same time. The row keeps the id of its record; that is what is asked for.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::Audit;
use super::anchor::sync_log;
use super::append::{Pending, append_in};
use super::spool::{LARGEST, SpoolRecord, UNFINISHED, WHOLE, parse};
use crate::StoreError;

const BATCH: usize = 200;
/// What a torn record is called from then on, so that it is reported once and kept.
const TORN: &str = "torn";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldReport {
    pub folded: u64,
    /// Found again after they had been folded in, and removed.
    pub already: u64,
    pub torn: Vec<TornRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornRecord {
    /// Where it is kept.
    pub path: PathBuf,
    pub why: String,
}

impl Audit {
    pub async fn fold(&self, directory: &Path) -> Result<FoldReport, StoreError> {
        let mut report = FoldReport::default();
        let spool = directory.to_owned();
        let names = blocking(directory, move || list(&spool)).await?;
        for batch in names.chunks(BATCH) {
            let paths = batch.to_vec();
            let (records, torn) = blocking(directory, move || Ok(read_all(paths))).await?;
            report.torn.extend(torn);
            let (folded, already) = self.fold_batch(&records).await?;
            report.folded += folded;
            report.already += already;
            let database = self.store.path().to_owned();
            blocking(directory, move || remove_all(records, &database)).await?;
        }
        Ok(report)
    }

    async fn fold_batch(&self, records: &[(PathBuf, SpoolRecord)]) -> Result<(u64, u64), StoreError> {
        let mut transaction = self.store.write().await?;
        let mut pending: Vec<Pending> = Vec::new();
        for (_, record) in records {
            let known: Option<i64> = sqlx::query_scalar("SELECT seq FROM audit WHERE spool_id = $1")
                .bind(&record.id)
                .fetch_optional(&mut *transaction)
                .await?;
            let twice = pending.iter().any(|(_, id)| id.as_ref() == Some(&record.id));
            if known.is_none() && !twice {
                pending.push((record.entry.clone(), Some(record.id.clone())));
            }
        }
        let folded = pending.len();
        let rows = append_in(&mut transaction, pending).await?;
        transaction.commit().await?;
        self.anchor_after(&rows);
        Ok((folded as u64, (records.len() - folded) as u64))
    }
}

/// The whole records, oldest first. What a killed writer left unfinished was never acknowledged, and goes.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut whole = Vec::new();
    for entry in entries {
        let path = entry?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(WHOLE) => whole.push(path),
            Some(UNFINISHED) => sweep(&path),
            _ => {}
        }
    }
    whole.sort();
    Ok(whole)
}

/// Unless its writer lives, which holds its lock. What can't be opened is left for the next time.
fn sweep(path: &Path) {
    let Ok(file) = open(path) else { return };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // A writer that has made it but not locked it yet finds it gone and begins again.
        let _ = fs::remove_file(path);
    }
}

fn read_all(paths: Vec<PathBuf>) -> (Vec<(PathBuf, SpoolRecord)>, Vec<TornRecord>) {
    let (mut records, mut torn) = (Vec::new(), Vec::new());
    for path in paths {
        match read(&path) {
            Ok(record) => records.push((path, record)),
            // Another process was faster.
            Err(Unreadable::Gone) => {}
            Err(Unreadable::Torn(why)) => {
                let kept = path.with_extension(TORN);
                let path = if fs::rename(&path, &kept).is_ok() { kept } else { path };
                torn.push(TornRecord { path, why });
            }
        }
    }
    (records, torn)
}

enum Unreadable {
    Gone,
    Torn(String),
}

fn read(path: &Path) -> Result<SpoolRecord, Unreadable> {
    let torn = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Unreadable::Gone,
        _ => Unreadable::Torn(error.to_string()),
    };
    let file = open(path).map_err(torn)?;
    let metadata = file.metadata().map_err(torn)?;
    if !metadata.is_file() {
        return Err(Unreadable::Torn("it is not a regular file".into()));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(torn)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Unreadable::Torn("it is larger than any record".into()));
    }
    parse(&bytes).map_err(Unreadable::Torn)
}

/// No link is followed, and no pipe is waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Once their rows would survive a power cut.
fn remove_all(records: Vec<(PathBuf, SpoolRecord)>, database: &Path) -> io::Result<()> {
    if !records.is_empty() {
        sync_log(database)?;
    }
    for (path, _) in records {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    directory: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let outcome =
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    outcome.map_err(StoreError::file("can't fold the spool", directory))
}
