//! After a restart: sandboxes are found again through their keepers, half-made ones are swept.

use std::collections::BTreeMap;

use ringfence_service::{Places, list_sessions, remove_session_by_force};
use ringfence_store::{SandboxFilter, SandboxState, Store, StoreError};

use crate::blocking;
use crate::error::ApiError;

const PAGE: u32 = 1000;

/// How many live on.
pub(crate) async fn recover(store: &Store, places: &Places) -> Result<u64, ApiError> {
    let known = {
        let places = places.clone();
        blocking(move || Ok(list_sessions(&places, true)?)).await?
    };
    let alive: BTreeMap<String, bool> =
        known.into_iter().map(|row| (row.facts.id.clone(), row.status.is_some() || row.silent)).collect();
    let mut living = 0;
    for state in [SandboxState::Making, SandboxState::Alive] {
        for id in ids(store, state).await? {
            let lives = alive.get(&id).copied();
            if state == SandboxState::Alive && lives == Some(true) {
                living += 1;
                continue;
            }
            if lives.is_some() {
                let (places, name) = (places.clone(), id.clone());
                blocking(move || Ok(remove_session_by_force(&places, &name)?)).await?;
            }
            store
                .sandbox_ended(
                    &id,
                    if state == SandboxState::Making { "half made" } else { "its keeper is gone" },
                )
                .await?;
        }
    }
    Ok(living)
}

async fn ids(store: &Store, state: SandboxState) -> Result<Vec<String>, StoreError> {
    let mut found: Vec<String> = Vec::new();
    loop {
        let after = found.last().cloned();
        let page =
            store.sandboxes(&SandboxFilter { user: None, state: Some(state), after, limit: PAGE }).await?;
        let whole = page.len() < PAGE as usize;
        found.extend(page.into_iter().map(|row| row.id));
        if whole {
            return Ok(found);
        }
    }
}
