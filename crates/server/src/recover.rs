//! After a restart: sandboxes are found again through their keepers, half-made ones are swept.

use std::collections::HashMap;

use ringfence_sandbox::WorkspaceKind;
use ringfence_service::{Places, list_sessions, open_session, remove_session_by_force};
use ringfence_store::{SandboxState, Store};

use crate::blocking;
use crate::ended::{all, ended, write_down};
use crate::error::ApiError;
use crate::left::LeftRunning;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// So many live on.
    pub(crate) living: u64,
    /// Ended ones whose files are kept, and whose they are.
    pub(crate) kept: HashMap<String, String>,
    /// Commands that were left running.
    pub(crate) left: LeftRunning,
}

pub(crate) async fn recover(store: &Store, places: &Places) -> Result<Recovered, ApiError> {
    let known = {
        let places = places.clone();
        // It also takes away what killed keepers left.
        blocking(move || Ok(list_sessions(&places, true)?)).await?
    };
    let mut found = Recovered::default();
    for row in all(store, SandboxState::Making).await? {
        let (places, id) = (places.clone(), row.id.clone());
        blocking(move || {
            if open_session(&places, &id).is_ok() {
                remove_session_by_force(&places, &id)?;
            }
            Ok(())
        })
        .await?;
        store.sandbox_ended(&row.id, "half made").await?;
    }
    let alive = all(store, SandboxState::Alive).await?;
    found.left = LeftRunning::before(store, &alive).await?;
    for row in alive {
        let looked = {
            let (places, id) = (places.clone(), row.id.clone());
            blocking(move || Ok(ended(&places, &id))).await?
        };
        match looked {
            Some(ended) => {
                found.left.end_with(store, &row, ended.why).await?;
                write_down(store, places, &row, &ended).await?;
            }
            None => found.living += 1,
        }
    }
    for session in known {
        if session.facts.workspace_kind == WorkspaceKind::Overlay
            && let Some(row) = store.sandbox(&session.facts.id).await?
            && row.state == SandboxState::Ended
        {
            found.kept.insert(row.id, row.user);
        }
    }
    Ok(found)
}
