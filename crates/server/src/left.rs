//! Commands that were left running in sandboxes: how each ended is written down when that is first seen, whoever looks or
//! nobody.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_sandbox::ProcessResult;
use ringfence_service::open_session;
use ringfence_store::{AuditEntry, AuditFilter, AuditRow, SandboxRow, Store, StoreError};
use serde_json::{Value, json};

use crate::app::{App, Permit};
use crate::blocking;
use crate::error::Answer;
use crate::http::facts;

const PAGE: u32 = 1000;
pub(crate) const START: &str = "process.start";
const END: &str = "process.end";

/// Who started it, in which request.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) user: String,
    pub(crate) request_id: Option<String>,
    /// It is one of its user's commands until its end is seen.
    pub(crate) permit: Option<Permit>,
}

type Commands = BTreeMap<u32, Started>;

/// By sandbox and number.
#[derive(Debug, Default)]
pub(crate) struct LeftRunning(Mutex<HashMap<String, Commands>>);

impl LeftRunning {
    /// After a restart: those whose start is in the audit of these sandboxes, and not their end.
    pub(crate) async fn before(store: &Store, sandboxes: &[SandboxRow]) -> Result<Self, StoreError> {
        let this = Self::default();
        let Some(since) = sandboxes.iter().map(|row| row.created).min() else { return Ok(this) };
        for row in rows(store, START, since).await? {
            if let Some((id, process)) = about(&row)
                && sandboxes.iter().any(|row| row.id == id)
            {
                let started =
                    Started { user: row.entry.user, request_id: row.entry.request_id, permit: None };
                this.add(&id, process, started);
            }
        }
        for row in rows(store, END, since).await? {
            if let Some((id, process)) = about(&row) {
                this.take(&id, process);
            }
        }
        Ok(this)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Commands>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, sandbox: &str, process: u32, started: Started) {
        self.all().entry(sandbox.to_owned()).or_default().insert(process, started);
    }

    /// Whoever takes one writes down its end.
    fn take(&self, sandbox: &str, process: u32) -> Option<Started> {
        let mut all = self.all();
        let commands = all.get_mut(sandbox)?;
        let taken = commands.remove(&process);
        if commands.is_empty() {
            all.remove(sandbox);
        }
        taken
    }

    /// The sandbox has ended, and they with it.
    pub(crate) async fn end_with(
        &self,
        store: &Store,
        row: &SandboxRow,
        why: &str,
    ) -> Result<(), StoreError> {
        let commands = self.all().remove(&row.id).unwrap_or_default();
        let told = |(process, started): (u32, Started)| {
            let result = json!({ "process": process, "error": "session_ended", "why": why });
            entry(row, &started, result, Value::Array(Vec::new()))
        };
        let entries: Vec<AuditEntry> = commands.into_iter().map(told).collect();
        if !entries.is_empty() {
            store.audit().append(entries).await?;
        }
        Ok(())
    }
}

/// Which process of which sandbox a row is about.
fn about(row: &AuditRow) -> Option<(String, u32)> {
    let process = row.entry.result["process"].as_u64().and_then(|process| u32::try_from(process).ok())?;
    Some((row.entry.target.clone()?, process))
}

async fn rows(store: &Store, kind: &str, since: i64) -> Result<Vec<AuditRow>, StoreError> {
    let mut found: Vec<AuditRow> = Vec::new();
    loop {
        let filter = AuditFilter {
            kind: Some(kind.to_owned()),
            since: Some(since),
            after_seq: found.last().map(|row| row.seq),
            limit: PAGE,
            ..AuditFilter::default()
        };
        let page = store.audit().query(&filter).await?;
        let whole = page.len() < PAGE as usize;
        found.extend(page);
        if whole {
            return Ok(found);
        }
    }
}

fn entry(row: &SandboxRow, started: &Started, result: Value, denials: Value) -> AuditEntry {
    AuditEntry {
        at: crate::now(),
        user: started.user.clone(),
        kind: END.into(),
        target: Some(row.id.clone()),
        decision: None,
        policy_digest: row.policy_digest.clone(),
        receipt_digest: row.receipt_digest.clone(),
        denials,
        result,
        request_id: started.request_id.clone(),
        origin: Some("server".into()),
    }
}

impl App {
    /// What another server left running is somebody's commands too.
    pub(crate) fn count_left_running(&self) {
        for started in self.left.all().values_mut().flat_map(BTreeMap::values_mut) {
            started.permit.get_or_insert_with(|| self.count_in(&started.user));
        }
    }

    /// Write down the ends of commands that nobody has written down yet.
    pub(crate) async fn look_for_ends(&self) -> Answer<()> {
        let sandboxes: Vec<String> = self.left.all().keys().cloned().collect();
        for id in sandboxes {
            let (places, name) = (self.places.clone(), id.clone());
            let results: Vec<ProcessResult> = blocking(move || {
                let Ok(sandbox) = open_session(&places, &name) else { return Ok(Vec::new()) };
                // A keeper that does not answer soon is asked again later; of one that has ended its sandbox's end tells.
                let known = sandbox.look().and_then(|_| sandbox.processes()).unwrap_or_default();
                Ok(known.into_iter().filter_map(|process| process.result).collect())
            })
            .await?;
            let Some(row) = self.store.sandbox(&id).await? else { continue };
            for result in results {
                if let Some(started) = self.left.take(&id, result.process) {
                    self.told_end(&row, started, &result).await?;
                }
            }
        }
        Ok(())
    }

    async fn told_end(&self, row: &SandboxRow, started: Started, result: &ProcessResult) -> Answer<()> {
        let facts = facts(result);
        let told = json!({
            "process": result.process,
            "exit_code": facts["exit_code"],
            "signal": facts["signal"],
            "timed_out": facts["timed_out"],
            "duration_ms": result.duration_ms,
        });
        let denials = facts.get("denials").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
        self.disk.ended(&row.user, &denials);
        if let Err(error) = self.record(entry(row, &started, told, denials)).await {
            // The next look writes it down.
            self.left.add(&row.id, result.process, started);
            return Err(error);
        }
        Ok(())
    }
}
