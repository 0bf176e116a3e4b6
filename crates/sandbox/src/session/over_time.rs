//! A session's files over time: snapshots of its workspace and, where that is its own, its home; going back to one, and
//! beginning where one is.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::client::{Sandbox, SessionError};
use super::keeper::Claim;
use super::place::{SessionFacts, WorkspaceKind};
use crate::files::{Files, SessionTree};
use crate::layers::WorkspaceLayers;
use crate::plan::WORKSPACE;
use crate::snapshots::{
    KeepAttributes, Recognise, Restored, RootTree, RootWriter, SaveOptions, SaveProgress, Saved,
    SnapshotError, SnapshotId, SnapshotStore,
};

/// What the trees of a session are called in its snapshots.
pub const WORKSPACE_ROOT: &str = "workspace";
pub const HOME_ROOT: &str = "home";

/// Why a snapshot was not taken, or not gone back to.
#[derive(Debug, thiserror::Error)]
pub enum OverTimeError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// The trees of a session that its snapshots are of.
#[derive(Debug)]
pub struct SessionTrees<'a> {
    workspace: SessionTree<'a>,
    home: Option<SessionTree<'a>>,
}

impl<'a> SessionTrees<'a> {
    pub fn new(files: &'a RefCell<Files>, facts: &SessionFacts) -> Self {
        // A private one is in memory, where a write through a mapping changes no time.
        let on_disk = facts.workspace_kind != WorkspaceKind::Private;
        let home = || SessionTree::new(files, facts.home.clone(), false);
        Self {
            workspace: SessionTree::new(files, PathBuf::from(WORKSPACE), on_disk),
            home: facts.keeps_home.then(home),
        }
    }

    pub fn roots(&self) -> Vec<RootTree<'_>> {
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

impl Sandbox {
    /// Keep the files as they are now. Nothing in the session runs meanwhile. `progress` may break it off.
    pub fn snapshot(
        &self,
        store: &SnapshotStore,
        name: &str,
        progress: &mut dyn FnMut(&SaveProgress) -> ControlFlow<()>,
    ) -> Result<Saved, OverTimeError> {
        let facts = self.facts()?;
        let options = SaveOptions {
            name: name.to_owned(),
            session: facts.id.clone(),
            parent: None,
            recognise: Recognise::ByTimes,
            attributes: KeepAttributes::AsTheyAre,
        };
        let _held = self.hold()?;
        let files = RefCell::new(self.files()?);
        let saved = store.save(&SessionTrees::new(&files, &facts).roots(), &options, progress)?;
        // Without that a fork of it is like no session, which is safe.
        let _ = self.place().note_snapshot(&saved.id.to_string());
        Ok(saved)
    }

    /// Bring the files back to a snapshot: only what differs is written. Nothing in the session runs meanwhile.
    pub fn rollback(&self, store: &SnapshotStore, id: SnapshotId) -> Result<Restored, OverTimeError> {
        let _held = self.hold()?;
        self.restore(store, id, &[WORKSPACE_ROOT, HOME_ROOT])
    }

    /// The home of a session that began where a snapshot is; its workspace lies on it already.
    pub fn restore_home(&self, store: &SnapshotStore, id: SnapshotId) -> Result<(), OverTimeError> {
        if self.facts()?.keeps_home {
            self.restore(store, id, &[HOME_ROOT])?;
        }
        Ok(())
    }

    /// Those of `labels` that both the snapshot and the session have.
    fn restore(
        &self,
        store: &SnapshotStore,
        id: SnapshotId,
        labels: &[&str],
    ) -> Result<Restored, OverTimeError> {
        let facts = self.facts()?;
        let manifest = store.load(id)?;
        let there: Vec<&str> = labels.iter().copied().filter(|label| manifest.root(label).is_ok()).collect();
        let files = RefCell::new(self.files()?);
        let trees = SessionTrees::new(&files, &facts);
        Ok(store.restore(id, &trees.writers(&there), Some(&facts.id))?)
    }
}

impl Claim {
    /// A copy-on-write workspace for a new session, that lies on a snapshot: a link for each file, and no content.
    pub fn fork_of(&self, store: &SnapshotStore, id: SnapshotId) -> Result<WorkspaceLayers, SnapshotError> {
        let beginning = self.place().beginning();
        store.materialise(id, &beginning)?;
        let lower = Some(beginning.join(WORKSPACE_ROOT));
        Ok(WorkspaceLayers { directory: self.place().layers(), lower })
    }
}
