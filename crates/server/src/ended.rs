//! Sandboxes that end by themselves: their time was over, nothing was done in them, or their keeper was killed. Whoever looks
//! finds out by the lock that a keeper holds while it lives, and writes down that they have ended, and why.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_sandbox::{EndReason, HostTraffic, WorkspaceKind};
use ringfence_service::{Places, open_session, remove_session_by_force};
use ringfence_store::{AuditEntry, SandboxFilter, SandboxRow, SandboxState, Store, StoreError};
use serde_json::{Value, json};

use crate::app::App;
use crate::blocking;
use crate::error::Answer;
use crate::traffic::traffic_of;

const PAGE: u32 = 1000;
/// Files of a sandbox that has ended are kept so long.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// What is to be known of endings beside the rows of the store.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// Being deleted: whoever asked for that says how it ended.
    deleting: Mutex<HashSet<String>>,
    /// Ended, with files that are still there, and whose they are: what was written to a copy-on-write workspace may be
    /// somebody's work, and is there to be looked at, committed or deleted.
    kept: Mutex<HashMap<String, String>>,
    /// One who looks at a time.
    looking: tokio::sync::Mutex<()>,
}

impl Endings {
    pub(crate) fn new(kept: HashMap<String, String>) -> Self {
        Self { kept: Mutex::new(kept), ..Self::default() }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of those that have ended, the ids whose files this user still has.
    pub(crate) fn kept_of(&self, user: &str) -> Vec<String> {
        self.kept().iter().filter(|(_, owner)| *owner == user).map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn forget(&self, id: &str) {
        self.kept().remove(id);
    }

    fn deleting(&self) -> MutexGuard<'_, HashSet<String>> {
        self.deleting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is deleted until this is dropped.
    pub(crate) fn delete(&self, id: &str) -> Deleting<'_> {
        self.deleting().insert(id.to_owned());
        Deleting { endings: self, id: id.to_owned() }
    }
}

#[derive(Debug)]
pub(crate) struct Deleting<'a> {
    endings: &'a Endings,
    id: String,
}

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.endings.deleting().remove(&self.id);
    }
}

/// How a sandbox ended that nobody deleted.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) why: &'static str,
    notes: Vec<String>,
    traffic: Vec<HostTraffic>,
    /// Its files are there, and stay until somebody deletes it.
    pub(crate) keeps: bool,
}

/// None: it lives. Not for the runtime: of a keeper that was killed this takes away what it left outside.
pub(crate) fn ended(places: &Places, id: &str) -> Option<Ended> {
    let gone = |why| Ended { why, notes: Vec::new(), traffic: Vec::new(), keeps: false };
    let Ok(sandbox) = open_session(places, id) else {
        return Some(gone("it was removed on the server's machine"));
    };
    // One that is ending has said so before it lets go of its lock.
    if sandbox.is_alive() {
        return None;
    }
    sandbox.sweep_if_killed();
    let Ok(facts) = sandbox.facts() else { return Some(gone(GONE)) };
    let keeps = facts.workspace_kind == WorkspaceKind::Overlay;
    let (why, notes) = facts.ended.map_or((GONE, Vec::new()), |end| (why(end.why), end.notes));
    Some(Ended { why, notes, traffic: traffic_of(&sandbox), keeps })
}

const GONE: &str = "its keeper is gone";

fn why(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Asked => "it was ended on the server's machine",
        EndReason::TimeToLive => "its time to live was over",
        EndReason::Idle => "nothing was done in it for as long as it may be idle",
        EndReason::Signal => "its keeper was told to end",
        EndReason::GuardGone => "what held it together was killed, or had no memory left",
        EndReason::KeeperGone => GONE,
    }
}

/// Write down that a sandbox has ended, and take its files away unless it keeps them; says whether this was the first to do
/// so.
pub(crate) async fn write_down(
    store: &Store,
    places: &Places,
    row: &SandboxRow,
    ended: &Ended,
) -> Answer<bool> {
    if !ended.keeps {
        let (places, id) = (places.clone(), row.id.clone());
        blocking(move || {
            if open_session(&places, &id).is_ok()
                && let Err(error) = remove_session_by_force(&places, &id)
            {
                tracing::warn!(%error, id, "the files of a sandbox that has ended are not removed");
            }
            Ok(())
        })
        .await?;
    }
    if !store.sandbox_ended(&row.id, ended.why).await? {
        return Ok(false);
    }
    store.decisions().forget_session(&row.id).await?;
    let entry = AuditEntry {
        at: crate::now(),
        user: row.user.clone(),
        kind: "sandbox.end".into(),
        target: Some(row.id.clone()),
        decision: None,
        policy_digest: row.policy_digest.clone(),
        receipt_digest: row.receipt_digest.clone(),
        denials: Value::Array(Vec::new()),
        result: json!({ "why": ended.why, "notes": ended.notes }),
        request_id: None,
        origin: Some("server".into()),
    };
    store.audit().append(vec![entry]).await?;
    Ok(true)
}

/// All sandboxes in this state.
pub(crate) async fn all(store: &Store, state: SandboxState) -> Result<Vec<SandboxRow>, StoreError> {
    let mut found: Vec<SandboxRow> = Vec::new();
    loop {
        let after = found.last().map(|row| row.id.clone());
        let page =
            store.sandboxes(&SandboxFilter { user: None, state: Some(state), after, limit: PAGE }).await?;
        let whole = page.len() < PAGE as usize;
        found.extend(page);
        if whole {
            return Ok(found);
        }
    }
}

impl App {
    /// From time to time; nothing where somebody is looking already.
    pub(crate) async fn look_again(&self) -> Answer<()> {
        if let Ok(_one) = self.endings.looking.try_lock() {
            // How a command ended is known as long as its sandbox lives.
            self.look_for_ends().await?;
            self.look_for_ended().await?;
        }
        Ok(())
    }

    /// Find out now which sandboxes have ended since somebody looked. Says how many.
    pub(crate) async fn reconcile(&self) -> Answer<usize> {
        let _one = self.endings.looking.lock().await;
        self.look_for_ended().await
    }

    /// Files that nobody has asked for in so long go.
    pub(crate) async fn drop_old(&self) -> Answer<()> {
        let kept: Vec<String> = self.endings.kept().keys().cloned().collect();
        for id in kept {
            let row = self.store.sandbox(&id).await?;
            if row.and_then(|row| row.ended).is_none_or(|at| at + KEPT < crate::now()) {
                let (places, name) = (self.places.clone(), id.clone());
                blocking(move || Ok(remove_session_by_force(&places, &name)?)).await?;
                self.endings.forget(&id);
            }
        }
        Ok(())
    }

    async fn look_for_ended(&self) -> Answer<usize> {
        let rows = all(&self.store, SandboxState::Alive).await?;
        let places = self.places.clone();
        let found: Vec<(SandboxRow, Ended)> = blocking(move || {
            let each = rows.into_iter();
            Ok(each.filter_map(|row| ended(&places, &row.id).map(|ended| (row, ended))).collect())
        })
        .await?;
        let mut count = 0;
        for (row, ended) in found {
            if self.endings.deleting().contains(&row.id) {
                continue;
            }
            if ended.keeps {
                self.endings.kept().insert(row.id.clone(), row.user.clone());
            }
            self.left.end_with(&self.store, &row, ended.why).await?;
            self.traffic.add(&row.id, ended.traffic.clone(), &self.metrics);
            if write_down(&self.store, &self.places, &row, &ended).await? {
                self.metrics.sandboxes.dec();
                tracing::info!(id = row.id, why = ended.why, "a sandbox has ended");
                count += 1;
            }
        }
        Ok(count)
    }
}
