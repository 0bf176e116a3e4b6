//! What every handler has: the store, the launcher, the rules, the counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ringfence_sandbox::{Launcher, Sandbox};
use ringfence_service::workers::Stock;
use ringfence_service::{ErrorCode, Places, open_session};
use ringfence_store::{AuditEntry, Role, SandboxRow, SandboxState, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::actions::Watch;
use crate::auth::{Caller, FirstToken};
use crate::config::ServerConfig;
use crate::disk::Measured;
use crate::ended::Endings;
use crate::error::{Answer, ApiError};
use crate::held::{PerUser, Place};
use crate::jwt::Tokens;
use crate::left::LeftRunning;
use crate::mask::Mask;
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::shorten::shorten_command;
use crate::standing::People;
use crate::streams::Streams;
use crate::tally::Tally;
use crate::tickets::Tickets;
use crate::traffic::SandboxTraffic;
use crate::usage::{Claimed, RunClock, Usage};

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) stock: Arc<Stock>,
    pub(crate) places: Places,
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Metrics,
    pub(crate) traffic: SandboxTraffic,
    pub(crate) streams: Streams,
    pub(crate) rates: Rates,
    pub(crate) first_token: FirstToken,
    /// None: no issuer of tokens is configured.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) tickets: Tickets,
    pub(crate) people: People,
    pub(crate) disk: Measured,
    pub(crate) usage: Usage,
    pub(crate) endings: Endings,
    pub(crate) left: LeftRunning,
    pub(crate) started: Instant,
    /// Requests need no key: the user asked for that in so many words.
    pub(crate) without_authentication: bool,
    /// Names that a `Host` header may have.
    pub(crate) hosts: Vec<String>,
    /// Takes paths of the server out of what is told.
    pub(crate) mask: Mask,
    /// Never shown in a sandbox, whatever the ceiling says.
    pub(crate) own_paths: Vec<PathBuf>,
    /// Whether this host can hold a sandbox to a number of processors.
    pub(crate) limits_processors: bool,
    pub(crate) actions: Watch,
    pub(crate) commands: Arc<Semaphore>,
    pub(crate) commands_of: PerUser,
    /// Streams and waits that are open.
    pub(crate) held: PerUser,
    /// Bytes of answers that are kept, and of what actions would have done.
    pub(crate) answers: Tally,
    pub(crate) shown: Tally,
    /// Archives that are being looked at.
    pub(crate) staged: PerUser,
}

pub(crate) type Shared = Arc<App>;

/// The right to have one more command running.
#[derive(Debug)]
pub(crate) struct Permit {
    _user: Place,
    /// None: it runs already, and there is no room for it.
    _server: Option<OwnedSemaphorePermit>,
    /// What its sandbox may use meanwhile, where that is its own.
    _claim: Option<Claimed>,
    _clock: Option<RunClock>,
}

impl Permit {
    pub(crate) fn with(self, claim: Claimed) -> Self {
        Self { _claim: Some(claim), ..self }
    }
}

impl App {
    /// One more command of this user's, whose time is counted.
    pub(crate) fn permit(&self, caller: &Caller) -> Answer<Permit> {
        let of_user = self.config.role(caller.role).quotas.run_time;
        let clock = self.usage.clock(caller, of_user, self.config.server.run_time)?;
        Ok(Permit { _clock: Some(clock), ..self.slot(caller)? })
    }

    /// The same for what holds a thread or a connection and runs nothing.
    pub(crate) fn slot(&self, caller: &Caller) -> Answer<Permit> {
        let most = self.config.role(caller.role).quotas.commands;
        let user = self.commands_of.take(&caller.user, most).ok_or_else(|| {
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
        Ok(Permit { _user: user, _server: Some(server), _claim: None, _clock: None })
    }

    /// For a command that another server left running: it counts like any other, whatever the quota.
    pub(crate) fn count_in(&self, user: &str) -> Permit {
        Permit {
            _user: self.commands_of.count_in(user),
            _server: Arc::clone(&self.commands).try_acquire_owned().ok(),
            _claim: None,
            _clock: Some(self.usage.begin(user)),
        }
    }

    /// A sandbox that the caller may see, and its row.
    pub(crate) async fn sandbox(&self, caller: &Caller, id: &str) -> Answer<(SandboxRow, Sandbox)> {
        let missing = || ApiError::not_found("sandbox", id);
        let row = self.store.sandbox(id).await?.ok_or_else(missing)?;
        if row.user != caller.user && caller.role != Role::Admin {
            return Err(missing());
        }
        let gone = || {
            ApiError::new(
                axum::http::StatusCode::GONE,
                "session_ended",
                format!("the sandbox `{id}` has ended"),
                "make another with POST /v1/sandboxes",
            )
        };
        if row.state != SandboxState::Alive {
            return Err(gone());
        }
        match open_session(&self.places, id) {
            Ok(sandbox) => Ok((row, sandbox)),
            // It ends at this moment: its files go before its row says so.
            Err(error) if error.code == ErrorCode::NoSession => {
                self.reconcile().await?;
                Err(gone())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same of one that has ended too, while its files are there.
    pub(crate) async fn kept_sandbox(&self, caller: &Caller, id: &str) -> Answer<(SandboxRow, Sandbox)> {
        let kept = self.store.sandbox(id).await?.filter(|row| {
            row.state == SandboxState::Ended && (row.user == caller.user || caller.role == Role::Admin)
        });
        if let Some(row) = kept
            && let Ok(sandbox) = open_session(&self.places, id)
        {
            return Ok((row, sandbox));
        }
        self.sandbox(caller, id).await
    }

    /// A sandbox that the caller may change.
    pub(crate) async fn own_sandbox(&self, caller: &Caller, id: &str) -> Answer<(SandboxRow, Sandbox)> {
        caller.needs(Role::Operator)?;
        self.sandbox(caller, id).await
    }

    /// Where a user's snapshots and secrets are.
    pub(crate) fn places_of(&self, user: &str) -> Answer<Places> {
        Ok(self.places.of_tenant(user)?)
    }

    /// Written before the answer is given.
    pub(crate) async fn record(&self, entry: AuditEntry) -> Answer<()> {
        self.record_without(entry, &[]).await
    }

    /// The same, with these values taken out wherever they are.
    pub(crate) async fn record_without(&self, mut entry: AuditEntry, secrets: &[String]) -> Answer<()> {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        shorten_command(&mut entry.result, &secrets);
        self.store.audit().append_redacted(vec![entry], &secrets).await?;
        Ok(())
    }
}
