//! Sessions: made, found, listed, and swept when their keepers are gone.

mod changes;
mod fork;
mod snapshots;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_sandbox::{
    Asked, Claim, Place, Sandbox, SessionError, SessionFacts, SessionSpec, SessionStatus, Stream,
    WorkspaceKind, WorkspaceLayers, places,
};
use ringfence_skills::remove_tree;
use serde::Serialize;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::runs::{Decided, RunSpec, decide};
use crate::workspaces::NamedWorkspace;

pub use changes::{
    Changes, Committed, Since, commit_reviewed, commit_session, finish_commit, review_changes,
    session_changes, undo_commit,
};
pub use fork::{fork_session, model_of};
pub use snapshots::{
    SnapshotRow, TakenSnapshot, export_snapshot, import_snapshot, list_snapshots, look_at_snapshot,
    read_snapshot, remove_snapshot, rollback_session, take_snapshot, verify_snapshots, write_snapshot,
};

/// What a session is to be.
#[derive(Debug)]
pub struct SessionCreate {
    /// Without a command.
    pub run: RunSpec,
    pub name: Option<String>,
    pub ttl: Option<Duration>,
    pub idle: Option<Duration>,
    /// Its workspace is a copy-on-write view of the directory.
    pub overlay: bool,
    /// Keep what its workspace is now, if that is a directory which it writes at once: for what changed since the start.
    pub keep_start: bool,
    /// Its workspace is a named one, which is held while the session lives.
    pub named: Option<NamedWorkspace>,
    pub asked: Asked,
}

/// A session that has just been made.
#[derive(Debug)]
pub struct SessionCreated {
    pub sandbox: Sandbox,
    pub warnings: Vec<String>,
    pub notes: Vec<String>,
}

/// One session as `session ls` shows it.
#[derive(Debug, Serialize)]
pub struct SessionRow {
    #[serde(flatten)]
    pub facts: SessionFacts,
    /// While it lives and answers.
    pub status: Option<SessionStatus>,
    /// It lives, but its keeper does not answer.
    pub silent: bool,
    /// It lives, but its keeper is of another ringfence, and does not understand this one.
    pub other_version: bool,
}

impl SessionRow {
    /// As it is now. A keeper that does not answer soon is not waited for.
    pub fn of(sandbox: &Sandbox) -> Result<Self, ServiceError> {
        sandbox.sweep_if_killed();
        let facts = sandbox.facts()?;
        let mut row = Self { facts, status: None, silent: false, other_version: false };
        if row.facts.ended.is_none() && sandbox.is_alive() {
            match sandbox.look() {
                Ok(status) => row.status = Some(status),
                Err(SessionError::Ended { .. }) => {}
                Err(SessionError::OtherVersion { .. }) => row.other_version = sandbox.is_alive(),
                Err(_) => row.silent = sandbox.is_alive(),
            }
        }
        Ok(row)
    }

    fn lives(&self) -> bool {
        self.status.is_some() || self.silent || self.other_version
    }
}

/// Ended sessions are listed for so long.
const REMEMBERED_MS: u64 = 7 * 24 * 3_600_000;

impl From<SessionError> for ServiceError {
    fn from(error: SessionError) -> Self {
        let code = match &error {
            SessionError::None { .. } => ErrorCode::NoSession,
            SessionError::Ended { .. } => ErrorCode::SessionEnded,
            SessionError::Busy { .. } => ErrorCode::SessionBusy,
            SessionError::Silent { .. } => ErrorCode::SessionSilent,
            SessionError::Refused { .. } | SessionError::OtherVersion { .. } => ErrorCode::BadRequest,
            SessionError::Io { .. } => ErrorCode::SandboxFailed,
        };
        Self::new(code, error.to_string(), error.fix())
    }
}

fn sessions(places: &Places) -> PathBuf {
    places.state.path().join("sessions")
}

/// Make a session, which lives on without this process. Only a process with one thread can.
pub fn create_session(places: &Places, create: SessionCreate) -> Result<SessionCreated, ServiceError> {
    places.state.ensure()?;
    let claim = Claim::new(&sessions(places), create.name.as_deref())?;
    let layers = WorkspaceLayers { directory: claim.place().layers(), lower: None };
    let keep_start = create.keep_start;
    let created = create_claimed(places, create, claim, layers)?;
    if keep_start {
        keep_beginning(places, &created.sandbox)?;
    }
    Ok(created)
}

/// Nobody knows of the session yet, and nothing has run in it. Without what was asked for there is no session.
fn keep_beginning(places: &Places, sandbox: &Sandbox) -> Result<(), ServiceError> {
    if !matches!(sandbox.facts()?.workspace_kind, WorkspaceKind::Direct | WorkspaceKind::Named) {
        return Ok(());
    }
    let name = sandbox.name();
    let kept =
        snapshots::save(places, &name, Some(&format!("{name}-start")), &mut |_| ControlFlow::Continue(()));
    let kept = kept.and_then(|(id, _)| {
        let place = sandbox.place();
        place
            .keep_start(&id.to_string())
            .map_err(|error| ServiceError::state("write to", place.path(), &error))
    });
    if kept.is_err() {
        let _ = remove_session(places, &name);
    }
    kept
}

/// The same with a name that is taken already, and layers that may have something to lie on.
fn create_claimed(
    places: &Places,
    create: SessionCreate,
    claim: Claim,
    layers: WorkspaceLayers,
) -> Result<SessionCreated, ServiceError> {
    if create.overlay {
        std::fs::create_dir(&layers.directory)
            .map_err(|error| ServiceError::state("make", &layers.directory, &error))?;
    }
    let (spec, warnings, notes) = decided(places, create, claim, layers)?;
    Ok(SessionCreated { sandbox: Sandbox::create(spec)?, warnings, notes })
}

/// What it is to be in all detail, with warnings and notes for a person.
fn decided(
    places: &Places,
    create: SessionCreate,
    claim: Claim,
    layers: WorkspaceLayers,
) -> Result<(SessionSpec, Vec<String>, Vec<String>), ServiceError> {
    let workspace_layers = create.overlay.then_some(layers);
    let mut run = RunSpec { stream: Stream::Session, workspace_layers, ..create.run };
    if run.attached.bound.is_some() {
        run.attached.bounded.extend(run.workspace_layers.iter().map(|layers| layers.directory.clone()));
    }
    let Decided { request, plan, notes, held } = decide(places, run)?;
    let warnings = plan.receipt.warnings.clone();
    let SessionCreate { ttl, idle, asked, named, overlay, .. } = create;
    let mut spec = SessionSpec { ttl, idle, asked, ..SessionSpec::new(claim, request, plan) };
    if named.is_some() && !overlay {
        spec.kind = WorkspaceKind::Named;
    }
    spec.holds = named.into_iter().map(NamedWorkspace::into_lock).chain(held).collect();
    Ok((spec, warnings, notes))
}

/// One that is there, alive or not.
pub fn open_session(places: &Places, name: &str) -> Result<Sandbox, ServiceError> {
    Ok(Sandbox::open(&sessions(places), name)?)
}

/// All sessions; those that ended too, if `ended`.
pub fn list_sessions(places: &Places, ended: bool) -> Result<Vec<SessionRow>, ServiceError> {
    sweep_sessions(places);
    let directory = sessions(places);
    let found = ringfence_sandbox::places(&directory)
        .map_err(|error| ServiceError::state("read", &directory, &error))?;
    let mut rows = Vec::new();
    for place in found {
        // One that is being made or removed at this moment has no facts.
        let sandbox = Sandbox::open(&directory, &place.name()).ok();
        let Some(row) = sandbox.and_then(|sandbox| SessionRow::of(&sandbox).ok()) else { continue };
        if ended || row.lives() {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| row.facts.created);
    Ok(rows)
}

/// Sessions of which nothing is known, where their files are, and why: nothing takes them away but `rm`.
pub fn unreadable_sessions(places: &Places) -> Result<Vec<(Place, std::io::Error)>, ServiceError> {
    let directory = sessions(places);
    let found = ringfence_sandbox::places(&directory)
        .map_err(|error| ServiceError::state("read", &directory, &error))?;
    Ok(found.into_iter().filter_map(|place| place.unreadable().map(|error| (place, error))).collect())
}

/// End a session and take its files away, whatever was done to them. What the end check found.
pub fn remove_session(places: &Places, name: &str) -> Result<Vec<String>, ServiceError> {
    remove_ended(places, name, Sandbox::end_whole)
}

/// The same also where its keeper does not answer, which is then killed.
pub fn remove_session_by_force(places: &Places, name: &str) -> Result<Vec<String>, ServiceError> {
    remove_ended(places, name, Sandbox::end_by_force)
}

fn remove_ended(
    places: &Places,
    name: &str,
    end: impl FnOnce(&Sandbox) -> Result<Vec<String>, SessionError>,
) -> Result<Vec<String>, ServiceError> {
    let sandbox = open_session(places, name)?;
    let notes = end(&sandbox)?;
    let start = sandbox.place().start();
    remove_files(sandbox.place())?;
    forget_files(places, name, start);
    Ok(notes)
}

/// What tells of the session goes last: one that can't be removed whole is still listed.
fn remove_files(place: &Place) -> Result<(), ServiceError> {
    let problem = |error: &std::io::Error| ServiceError::state("remove", place.path(), error);
    for part in [place.layers(), place.beginning(), place.all_logs(), place.path().to_path_buf()] {
        match remove_tree(&part) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(problem(&error)),
            _ => {}
        }
    }
    Ok(())
}

/// Take away what killed keepers left, write down their sessions' end, and forget those that ended long ago.
fn sweep_sessions(known: &Places) {
    let directory = sessions(known);
    for place in places(&directory).into_iter().flatten() {
        if !place.is_held() {
            if let Ok(sandbox) = Sandbox::open(&directory, &place.name()) {
                sandbox.sweep_if_killed();
            }
            forget_old(known, &place);
        }
    }
}

fn forget_old(places: &Places, place: &Place) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = now.as_millis() as u64;
    match place.facts() {
        // What was written to a copy-on-write workspace may be somebody's work: only `rm` drops it.
        Ok(SessionFacts { ended: Some(end), workspace_kind, .. })
            if workspace_kind != WorkspaceKind::Overlay && end.at + REMEMBERED_MS < now =>
        {
            let start = place.start();
            if place.remove_if_unheld().is_ok() {
                forget_files(places, &place.name(), start);
            }
        }
        Ok(_) => {}
        // What can't be read may be somebody's work: it stays, and `ls` tells of it.
        Err(_) => {
            let _ = place.remove_if_stillborn();
        }
    }
}

/// What is known of a session's files is of no use when it is gone; nor is the snapshot of its start, which was for its own
/// comparisons. What else is in the store is looked after by its own verbs.
fn forget_files(places: &Places, name: &str, start: Option<String>) {
    let _ = snapshots::store(places).and_then(|store| Ok(store.forget_session(name)?));
    if let Some(start) = start {
        let _ = remove_snapshot(places, &start);
    }
}
