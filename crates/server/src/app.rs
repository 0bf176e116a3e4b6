//! What every handler has: the store, the launcher, the rules, the counts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ringfence_sandbox::{Launcher, Sandbox};
use ringfence_service::{Places, open_session};
use ringfence_store::{AuditEntry, Role, SandboxRow, SandboxState, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::{Caller, FirstToken};
use crate::config::ServerConfig;
use crate::error::{Answer, ApiError};
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::streams::Streams;

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) places: Places,
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Metrics,
    pub(crate) streams: Streams,
    pub(crate) rates: Rates,
    pub(crate) first_token: FirstToken,
    pub(crate) started: Instant,
    /// Requests need no key: the user asked for that in so many words.
    pub(crate) without_authentication: bool,
    /// Names that a `Host` header may have.
    pub(crate) hosts: Vec<String>,
    /// Never shown in a sandbox, whatever the ceiling says.
    pub(crate) own_paths: Vec<PathBuf>,
    pub(crate) commands: Arc<Semaphore>,
    pub(crate) commands_of: Mutex<HashMap<String, Arc<Semaphore>>>,
}

pub(crate) type Shared = Arc<App>;

/// The right to have one more command running.
#[derive(Debug)]
pub(crate) struct Permit {
    _user: OwnedSemaphorePermit,
    _server: OwnedSemaphorePermit,
}

impl App {
    /// One more command of this user's.
    pub(crate) fn permit(&self, caller: &Caller) -> Answer<Permit> {
        let most = self.config.role(caller.role).quotas.commands;
        let of_user = {
            let mut all = self.commands_of.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(most as usize));
            Arc::clone(all.entry(caller.user.clone()).or_insert_with(new))
        };
        let user = of_user.try_acquire_owned().map_err(|_| {
            ApiError::too_many(
                format!("{most} commands of yours are running, and that is your quota"),
                "wait until one has ended",
                1,
            )
        })?;
        let server = Arc::clone(&self.commands).try_acquire_owned().map_err(|_| {
            ApiError::too_many(
                "as many commands are running as this server takes",
                "wait until one has ended",
                1,
            )
        })?;
        Ok(Permit { _user: user, _server: server })
    }

    /// A sandbox that the caller may see, and its row.
    pub(crate) async fn sandbox(&self, caller: &Caller, id: &str) -> Answer<(SandboxRow, Sandbox)> {
        let missing = || ApiError::not_found("sandbox", id);
        let row = self.store.sandbox(id).await?.ok_or_else(missing)?;
        if row.user != caller.user && caller.role != Role::Admin {
            return Err(missing());
        }
        if row.state != SandboxState::Alive {
            return Err(ApiError::new(
                axum::http::StatusCode::GONE,
                "session_ended",
                format!("the sandbox `{id}` has ended"),
                "make another with POST /v1/sandboxes",
            ));
        }
        let sandbox = open_session(&self.places, id)?;
        Ok((row, sandbox))
    }

    /// Written before the answer is given.
    pub(crate) async fn record(&self, entry: AuditEntry) -> Answer<()> {
        self.store.audit().append(vec![entry]).await?;
        Ok(())
    }
}
