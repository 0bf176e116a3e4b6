//! What a session changed: since a snapshot, since its start, and how that gets into the user's own directory.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_sandbox::overlay::{
    Change as OverlayChange, ChangeKind, CommitOptions, CommitReport, EntryKind as OverlayKind, Guarding,
    Overlay, OverlayError, Recovered,
};
use ringfence_sandbox::snapshots::{
    Change, Changed, Diff, DiffLimits, DiffSide, EntryKind, EntryTime, LocalTree, Manifest, RootEntries,
    RootTree, Seen, SnapshotFacts, SnapshotStore, TreePath, shown,
};
use ringfence_sandbox::{Sandbox, SessionFacts, SessionTrees, WORKSPACE_ROOT, WorkspaceKind};
use serde::Serialize;

use super::open_session;
use super::snapshots::{store, while_paused};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// What a session is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// As it began.
    Start,
    Snapshot(String),
}

/// What changed, as a list, and as text that git and people can read.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Changes {
    pub changes: Vec<OneChange>,
    #[serde(skip)]
    pub text: Vec<u8>,
}

#[derive(Clone, Debug, Serialize)]
pub struct OneChange {
    pub root: String,
    pub path: String,
    pub change: &'static str,
    pub size: Option<u64>,
    /// Its user changed it too: it can't be committed.
    pub conflict: bool,
}

/// What a commit did, or would do.
#[derive(Clone, Debug, Serialize)]
pub struct Committed {
    #[serde(flatten)]
    pub report: CommitReport,
}

fn word(changed: Changed) -> &'static str {
    match changed {
        Changed::Added => "added",
        Changed::Removed => "removed",
        Changed::Content => "changed",
        Changed::Mode => "mode",
        Changed::Kind => "replaced",
    }
}

/// What a session changed since `since`.
pub fn session_changes(places: &Places, session: &str, since: &Since) -> Result<Changes, ServiceError> {
    let sandbox = open_session(places, session)?;
    let facts = sandbox.facts()?;
    let store = store(places)?;
    match (since, facts.workspace_kind) {
        (Since::Snapshot(snapshot), _) => since_snapshot(&store, &sandbox, &facts, snapshot),
        (Since::Start, WorkspaceKind::Overlay) => since_start(&store, &sandbox),
        (Since::Start, WorkspaceKind::Private) => since_nothing(&store, &sandbox, &facts),
        (Since::Start, WorkspaceKind::Direct | WorkspaceKind::Named) => match sandbox.place().start() {
            Some(start) => since_snapshot(&store, &sandbox, &facts, &start),
            None => Err(ServiceError::new(
                ErrorCode::BadRequest,
                "nobody has kept what the workspace was when the session began: it is your own directory",
                "make the session with --keep-start or --overlay, or compare with a snapshot: --since SNAPSHOT",
            )),
        },
    }
}

fn since_snapshot(
    store: &SnapshotStore,
    sandbox: &Sandbox,
    facts: &SessionFacts,
    snapshot: &str,
) -> Result<Changes, ServiceError> {
    let manifest = store.load(store.find(snapshot)?)?;
    while_paused(sandbox, || {
        let files = RefCell::new(sandbox.files()?);
        let trees = SessionTrees::new(&files, facts);
        let roots = trees.roots();
        let live = DiffSide::Live { roots: &roots, session: Some(&facts.id) };
        written(store, (DiffSide::Snapshot(&manifest), live))
    })
}

/// A private workspace began empty.
fn since_nothing(
    store: &SnapshotStore,
    sandbox: &Sandbox,
    facts: &SessionFacts,
) -> Result<Changes, ServiceError> {
    let roots = vec![RootEntries { label: WORKSPACE_ROOT.into(), entries: Vec::new() }];
    let facts_of_nothing = SnapshotFacts {
        name: facts.id.clone(),
        session: facts.id.clone(),
        created: EntryTime::now(),
        parent: None,
        entries: 0,
        bytes: 0,
    };
    let nothing = Manifest { facts: facts_of_nothing, roots };
    while_paused(sandbox, || {
        let files = RefCell::new(sandbox.files()?);
        let trees = SessionTrees::new(&files, facts);
        let roots: Vec<RootTree<'_>> =
            trees.roots().into_iter().filter(|root| root.label == WORKSPACE_ROOT).collect();
        let live = DiffSide::Live { roots: &roots, session: Some(&facts.id) };
        written(store, (DiffSide::Snapshot(&nothing), live))
    })
}

/// By what the kernel kept apart: nothing else has to be read.
fn since_start(store: &SnapshotStore, sandbox: &Sandbox) -> Result<Changes, ServiceError> {
    let overlay = Overlay::open(&sandbox.place().layers())?;
    let found = overlay.changes()?;
    beside_beneath(store, sandbox, &overlay, &found)
}

fn beside_beneath(
    store: &SnapshotStore,
    sandbox: &Sandbox,
    overlay: &Overlay,
    found: &[OverlayChange],
) -> Result<Changes, ServiceError> {
    let directory = sandbox.place().layers();
    let open = |path: &Path| LocalTree::open(path).map_err(|error| ServiceError::state("open", path, &error));
    let (lower, upper) = (open(overlay.beneath())?, open(&directory.join("upper"))?);
    let mut diff = Diff { roots: vec![WORKSPACE_ROOT.into()], changes: Vec::new() };
    let mut changes = Vec::new();
    for change in found {
        let Some(path) = TreePath::new(change.path.as_os_str().as_bytes()) else { continue };
        let seen = |entry: &ringfence_sandbox::overlay::Entry| {
            let kind = match entry.kind {
                OverlayKind::File => EntryKind::File,
                OverlayKind::Directory => EntryKind::Directory,
                OverlayKind::Link => EntryKind::Link,
                OverlayKind::Special => EntryKind::Special,
            };
            Seen::live(kind, entry.mode, entry.size)
        };
        let what = match change.kind {
            ChangeKind::Added => Changed::Added,
            ChangeKind::Modified => Changed::Content,
            ChangeKind::Mode => Changed::Mode,
            ChangeKind::Removed => Changed::Removed,
            ChangeKind::Replaced => Changed::Kind,
        };
        changes.push(OneChange {
            root: WORKSPACE_ROOT.into(),
            path: shown(path.as_bytes()),
            change: word(what),
            size: change.new.as_ref().map(|entry| entry.size),
            conflict: change.conflict.is_some(),
        });
        let (before, after) = (change.old.as_ref().map(seen), change.new.as_ref().map(seen));
        diff.changes.push(Change { root: WORKSPACE_ROOT.into(), path, what, before, after });
    }
    let (lower, upper) = (
        [RootTree { label: WORKSPACE_ROOT, tree: &lower }],
        [RootTree { label: WORKSPACE_ROOT, tree: &upper }],
    );
    let sides =
        (DiffSide::Live { roots: &lower, session: None }, DiffSide::Live { roots: &upper, session: None });
    let mut text = Vec::new();
    store.write_diff(&diff, sides, DiffLimits::default(), &mut text)?;
    Ok(Changes { changes, text })
}

fn written(store: &SnapshotStore, sides: (DiffSide<'_>, DiffSide<'_>)) -> Result<Changes, ServiceError> {
    let diff = store.diff(sides.0, sides.1)?;
    let mut text = Vec::new();
    store.write_diff(&diff, sides, DiffLimits::default(), &mut text)?;
    let changes = diff.changes.iter().map(|change| OneChange {
        root: change.root.clone(),
        path: shown(change.path.as_bytes()),
        change: word(change.what),
        size: change.after.as_ref().map(|seen| seen.size),
        conflict: false,
    });
    Ok(Changes { changes: changes.collect(), text })
}

fn overlay_of(places: &Places, session: &str) -> Result<(Sandbox, SessionFacts, Overlay), ServiceError> {
    let sandbox = open_session(places, session)?;
    let facts = sandbox.facts()?;
    if facts.workspace_kind != WorkspaceKind::Overlay {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "there is nothing to commit: this session writes to its workspace at once",
            "make sessions with --overlay to look at their changes first",
        ));
    }
    let overlay = Overlay::open(&sandbox.place().layers())?;
    Ok((sandbox, facts, overlay))
}

fn commit_options(facts: SessionFacts, only: Vec<PathBuf>) -> CommitOptions {
    let guarding = match facts.unprotected {
        Some(except) => Guarding::Protected { except, also: facts.protected_too },
        None => Guarding::Waived,
    };
    CommitOptions { only, guarding, reviewed: None }
}

/// What `commit_reviewed` would apply now, for somebody to look at, and the digest of exactly that.
pub fn review_changes(
    places: &Places,
    session: &str,
    only: Vec<PathBuf>,
) -> Result<(Changes, String), ServiceError> {
    let (sandbox, facts, overlay) = overlay_of(places, session)?;
    let store = store(places)?;
    let options = commit_options(facts, only);
    let look = || -> Result<(Changes, String), ServiceError> {
        let found = overlay.changes()?;
        let digest = overlay.review(&found, &options)?;
        let changes = beside_beneath(&store, &sandbox, &overlay, &found)?;
        // Files can be written from outside while its processes wait.
        if overlay.changes()? != found {
            return Err(OverlayError::Altered.into());
        }
        Ok((changes, digest))
    };
    if sandbox.is_alive() { while_paused(&sandbox, look) } else { look() }
}

/// Apply what a session wrote to the user's own directory, all or nothing. A session that has ended can be committed too.
pub fn commit_session(places: &Places, session: &str, only: Vec<PathBuf>) -> Result<Committed, ServiceError> {
    commit(places, session, only, None)
}

/// The same, if it is what `review_changes` gave the digest of.
pub fn commit_reviewed(
    places: &Places,
    session: &str,
    only: Vec<PathBuf>,
    digest: String,
) -> Result<Committed, ServiceError> {
    commit(places, session, only, Some(digest))
}

fn commit(
    places: &Places,
    session: &str,
    only: Vec<PathBuf>,
    reviewed: Option<String>,
) -> Result<Committed, ServiceError> {
    let (sandbox, facts, overlay) = overlay_of(places, session)?;
    let options = CommitOptions { reviewed, ..commit_options(facts, only) };
    let commit = || -> Result<CommitReport, ServiceError> { Ok(overlay.commit(&options)?) };
    let report = if sandbox.is_alive() { while_paused(&sandbox, commit)? } else { commit()? };
    Ok(Committed { report })
}

/// Carry an interrupted commit on to its end.
pub fn finish_commit(places: &Places, session: &str) -> Result<Recovered, ServiceError> {
    Ok(overlay_of(places, session)?.2.finish()?)
}

/// Take an interrupted commit back.
pub fn undo_commit(places: &Places, session: &str) -> Result<Recovered, ServiceError> {
    Ok(overlay_of(places, session)?.2.undo()?)
}
