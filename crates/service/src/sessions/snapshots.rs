//! Snapshots of sessions: of the workspace and, where it is the session's own, the home.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ringfence_sandbox::snapshots::{
    ExportFormat, Recognise, Restored, RootTree, RootWriter, SaveOptions, SaveProgress, SnapshotFacts,
    SnapshotId, SnapshotLimits, SnapshotStore, Verified,
};
use ringfence_sandbox::{Files, Sandbox, SessionError, SessionFacts, SessionTree, WORKSPACE, WorkspaceKind};
use serde::Serialize;

use super::open_session;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

pub(super) const WORKSPACE_ROOT: &str = "workspace";
pub(super) const HOME_ROOT: &str = "home";

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
    Ok(SnapshotStore::open(&places.state.path().join("snapshots"), SnapshotLimits::default())?)
}

/// The trees of a session that its snapshots are of.
pub(super) struct Trees<'a> {
    workspace: SessionTree<'a>,
    home: Option<SessionTree<'a>>,
}

impl<'a> Trees<'a> {
    pub(super) fn new(files: &'a RefCell<Files>, facts: &SessionFacts) -> Self {
        // A private one is in memory, where a write through a mapping changes no time.
        let on_disk = facts.workspace_kind != WorkspaceKind::Private;
        let home = || SessionTree::new(files, facts.home.clone(), false);
        Self {
            workspace: SessionTree::new(files, PathBuf::from(WORKSPACE), on_disk),
            home: facts.keeps_home.then(home),
        }
    }

    pub(super) fn roots(&self) -> Vec<RootTree<'_>> {
        let home = self.home.iter().map(|tree| RootTree { label: HOME_ROOT, tree });
        std::iter::once(RootTree { label: WORKSPACE_ROOT, tree: &self.workspace }).chain(home).collect()
    }

    /// Those among `labels`.
    fn writers(&self, labels: &[&str]) -> Vec<RootWriter<'_>> {
        let home = self.home.iter().map(|tree| RootWriter { label: HOME_ROOT, tree });
        std::iter::once(RootWriter { label: WORKSPACE_ROOT, tree: &self.workspace })
            .chain(home)
            .filter(|root| labels.contains(&root.label))
            .collect()
    }
}

/// Do something while nothing in the session runs. It goes on afterwards also if this process is killed.
pub(super) fn while_paused<T>(
    sandbox: &Sandbox,
    act: impl FnOnce() -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    let _held = sandbox.hold()?;
    act()
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
    let facts = sandbox.facts()?;
    let store = store(places)?;
    let options = SaveOptions {
        name: name.unwrap_or(session).to_owned(),
        session: session.to_owned(),
        parent: None,
        recognise: Recognise::ByTimes,
    };
    let saved = while_paused(&sandbox, || {
        let files = RefCell::new(sandbox.files()?);
        let trees = Trees::new(&files, &facts);
        Ok(store.save(&trees.roots(), &options, progress)?)
    })?;
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

/// Bring a session back to a snapshot: only what differs is written.
pub fn rollback_session(places: &Places, session: &str, snapshot: &str) -> Result<Restored, ServiceError> {
    let sandbox = open_session(places, session)?;
    let store = store(places)?;
    let id = store.find(snapshot)?;
    while_paused(&sandbox, || restore(&store, id, &sandbox, &[WORKSPACE_ROOT, HOME_ROOT]))
}

/// Those of `labels` that both the snapshot and the session have.
pub(super) fn restore(
    store: &SnapshotStore,
    id: SnapshotId,
    sandbox: &Sandbox,
    labels: &[&str],
) -> Result<Restored, ServiceError> {
    let facts = sandbox.facts()?;
    let manifest = store.load(id)?;
    let there: Vec<&str> = labels.iter().copied().filter(|label| manifest.root(label).is_ok()).collect();
    let files = RefCell::new(sandbox.files().map_err(|error: SessionError| error)?);
    let trees = Trees::new(&files, &facts);
    let writers = trees.writers(&there);
    Ok(store.restore(id, &writers, Some(&facts.id))?)
}
