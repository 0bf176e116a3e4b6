//! Forks: sessions that begin where another one, or a snapshot, is.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use super::client::{Sandbox, SessionError};
use super::keeper::{Claim, SessionSpec};
use super::over_time::OverTimeError;
use crate::layers::WorkspaceLayers;
use crate::refusal::Refusal;
use crate::snapshots::{SnapshotId, SnapshotStore};

/// Why there is no fork, for a caller that has no error of its own for that.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error(transparent)]
    OverTime(#[from] OverTimeError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Sandbox {
    /// A session of its own, beside this one, with the files that this one has now. `spec` says what it is to be: its request
    /// must name the layers that it is given, which are the fork's workspace. Only a process with one thread can.
    pub fn fork<E: From<OverTimeError> + From<Refusal>>(
        &self,
        store: &SnapshotStore,
        name: Option<&str>,
        spec: impl FnOnce(Claim, WorkspaceLayers) -> Result<SessionSpec, E>,
    ) -> Result<Self, E> {
        let saved = self.snapshot(store, &self.name(), &mut |_| ControlFlow::Continue(()))?;
        let sessions = self.place().path().parent().unwrap_or(Path::new("/"));
        Self::fork_of(sessions, store, saved.id, name, spec)
    }

    /// The same from a snapshot, whose session need not be there any more.
    pub fn fork_of<E: From<OverTimeError> + From<Refusal>>(
        sessions: &Path,
        store: &SnapshotStore,
        id: SnapshotId,
        name: Option<&str>,
        spec: impl FnOnce(Claim, WorkspaceLayers) -> Result<SessionSpec, E>,
    ) -> Result<Self, E> {
        let claim = Claim::new(sessions, name)?;
        let layers = claim.fork_of(store, id).map_err(OverTimeError::from)?;
        std::fs::create_dir(&layers.directory).map_err(|error| cannot_make(&layers.directory, &error))?;
        let sandbox = Self::create(spec(claim, layers)?)?;
        if let Err(error) = sandbox.restore_home(store, id) {
            // Nobody knows of it: it is whole, or there is none.
            let _ = sandbox.destroy();
            return Err(error.into());
        }
        Ok(sandbox)
    }
}

fn cannot_make(path: &Path, error: &io::Error) -> Refusal {
    Refusal::step("make the layers of the session", path.display().to_string(), error)
}

impl From<SessionError> for ForkError {
    fn from(error: SessionError) -> Self {
        Self::OverTime(error.into())
    }
}
