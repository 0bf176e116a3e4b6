//! Snapshots of sessions: of the workspace and, where it is the session's own, the home.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use ringfence_policy::Suspicion;
use ringfence_sandbox::Sandbox;
use ringfence_sandbox::snapshots::{
    ExportFormat, Restored, SaveProgress, SnapshotFacts, SnapshotId, SnapshotLimits, SnapshotStore, Verified,
};
use serde::Serialize;

use super::open_session;
use crate::actions::{LOOKED_AT, MOST_SUSPICIONS, suspicions};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

const DIRECTORY: &str = "snapshots";

/// A snapshot that has just been taken.
#[derive(Clone, Debug, Serialize)]
pub struct TakenSnapshot {
    pub id: String,
    pub name: String,
    pub entries: u64,
    pub bytes: u64,
    /// Of files that had to be read, since they were not known to be unchanged.
    pub bytes_read: u64,
    /// Sockets, devices and the like, which are in it by name only.
    pub skipped: u64,
}

/// One snapshot of a list.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotRow {
    pub id: String,
    #[serde(flatten)]
    pub facts: SnapshotFacts,
}

pub(super) fn store(places: &Places) -> Result<SnapshotStore, ServiceError> {
    places.state.ensure()?;
    Ok(SnapshotStore::open(&places.own().join(DIRECTORY), SnapshotLimits::default())?)
}

/// Do something while nothing in the session runs. It goes on afterwards also if this process is killed.
pub(super) fn while_paused<T>(
    sandbox: &Sandbox,
    act: impl FnOnce() -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    let held = sandbox.hold()?;
    let acted = act();
    drop(held);
    // Its keeper hears of that before it hears of anything after this answer: whoever asked may start a command at once.
    let _ = sandbox.status();
    acted
}

/// Take a snapshot of a session that lives. `progress` may break it off.
pub fn take_snapshot(
    places: &Places,
    session: &str,
    name: Option<&str>,
    progress: &mut dyn FnMut(&SaveProgress) -> ControlFlow<()>,
) -> Result<TakenSnapshot, ServiceError> {
    let (_, taken) = save(places, session, name, progress)?;
    Ok(taken)
}

pub(super) fn save(
    places: &Places,
    session: &str,
    name: Option<&str>,
    progress: &mut dyn FnMut(&SaveProgress) -> ControlFlow<()>,
) -> Result<(SnapshotId, TakenSnapshot), ServiceError> {
    let sandbox = open_session(places, session)?;
    let saved = sandbox.snapshot(&store(places)?, name.unwrap_or(session), progress)?;
    let taken = TakenSnapshot {
        id: saved.id.to_string(),
        name: saved.facts.name.clone(),
        entries: saved.facts.entries,
        bytes: saved.facts.bytes,
        bytes_read: saved.bytes_read,
        skipped: saved.skipped.len() as u64,
    };
    Ok((saved.id, taken))
}

/// The newest first; with what can't be read, and why.
pub fn list_snapshots(places: &Places) -> Result<(Vec<SnapshotRow>, Vec<String>), ServiceError> {
    let listing = store(places)?.list()?;
    let rows = listing.snapshots.into_iter();
    let rows = rows.map(|summary| SnapshotRow { id: summary.id.to_string(), facts: summary.facts }).collect();
    let damaged = listing.damaged.into_iter().map(|(id, why)| format!("{id}: {why}")).collect();
    Ok((rows, damaged))
}

/// With what nothing else needs.
pub fn remove_snapshot(places: &Places, snapshot: &str) -> Result<(), ServiceError> {
    let store = store(places)?;
    store.remove(store.find(snapshot)?)?;
    store.collect()?;
    Ok(())
}

pub fn verify_snapshots(places: &Places) -> Result<Verified, ServiceError> {
    Ok(store(places)?.verify_all()?)
}

/// Into a new file: a tar archive, compressed where its name says so.
pub fn export_snapshot(places: &Places, snapshot: &str, path: &Path) -> Result<(), ServiceError> {
    let format = ExportFormat::of(path).ok_or_else(|| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("{} is no name for an exported snapshot", path.display()),
            "end it with .tar or .tar.zst",
        )
    })?;
    let store = store(places)?;
    let id = store.find(snapshot)?;
    let problem = |error: io::Error| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("cannot write {}: {error}", path.display()),
            "name a new file in a directory that you can write",
        )
    };
    let mut file = File::create_new(path).map_err(problem)?;
    let exported = store.export(id, format, &mut file);
    if exported.is_err() {
        let _ = std::fs::remove_file(path);
    }
    Ok(exported?)
}

pub fn import_snapshot(places: &Places, path: &Path) -> Result<String, ServiceError> {
    let mut file = crate::files::open_regular(path).map_err(|error| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("cannot read {}: {error}", path.display()),
            "name a file that `ringfence snapshot export` wrote",
        )
    })?;
    Ok(store(places)?.import(&mut file)?.id.to_string())
}

/// As a stream of its own: an error leaves one that no import takes.
pub fn write_snapshot(
    places: &Places,
    snapshot: &str,
    format: ExportFormat,
    out: &mut dyn io::Write,
) -> Result<(), ServiceError> {
    let store = store(places)?;
    Ok(store.export(store.find(snapshot)?, format, out)?)
}

/// From such a stream, which is hostile: no more than `most` bytes of files.
pub fn read_snapshot(
    places: &Places,
    input: &mut dyn io::Read,
    most: u64,
) -> Result<SnapshotRow, ServiceError> {
    let limits =
        SnapshotLimits { bytes: most.min(SnapshotLimits::default().bytes), ..SnapshotLimits::default() };
    places.state.ensure()?;
    let store = SnapshotStore::open(&places.own().join(DIRECTORY), limits)?;
    let imported = store.import(input)?;
    Ok(SnapshotRow { id: imported.id.to_string(), facts: imported.facts })
}

/// What in the files of such a stream looks like an attempt to steer a model, before any of it is taken in.
pub fn look_at_snapshot(
    places: &Places,
    input: &mut dyn io::Read,
    most: u64,
) -> Result<Vec<Suspicion>, ServiceError> {
    let limits =
        SnapshotLimits { bytes: most.min(SnapshotLimits::default().bytes), ..SnapshotLimits::default() };
    places.state.ensure()?;
    let store = SnapshotStore::open(&places.own().join(DIRECTORY), limits)?;
    let mut found = Vec::new();
    store.look_into(input, &mut |content| {
        let mut sample = Vec::new();
        content.take(LOOKED_AT).read_to_end(&mut sample)?;
        if found.len() < MOST_SUSPICIONS {
            found.extend(suspicions("a file of the snapshot", &sample));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Bring a session back to a snapshot: only what differs is written.
pub fn rollback_session(places: &Places, session: &str, snapshot: &str) -> Result<Restored, ServiceError> {
    let store = store(places)?;
    Ok(open_session(places, session)?.rollback(&store, store.find(snapshot)?)?)
}
