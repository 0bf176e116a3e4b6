//! What has to be done from time to time: actions expire, what a killed server left running has failed, records of the
//! spool go into the chain, and what is long over is forgotten.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_store::{
    ActionFilter, ActionRow, ActionState, AuditEntry, Clock, FoldReport, Outcome, Store, StoreError,
};
use serde_json::{Value, json};

use crate::app::Shared;

/// How long another process's decision may go unnoticed, and how many such looks until the rest is done.
const TICK: Duration = Duration::from_millis(250);
const SELDOM: u32 = 120;
/// How many until sandboxes are looked for that have ended by themselves.
const OFTEN: u32 = 4;
/// What has ended is listed so long; the audit keeps it for ever.
const KEPT: i64 = 30 * 24 * 60 * 60 * 1000;
const PAGE: u32 = 1000;

/// Where runs that no server sees leave their records.
pub fn spool_directory(state: &Path) -> PathBuf {
    state.join("audit.spool")
}

/// Put what is in the spool into the chain.
pub async fn fold_spool(store: &Store, state: &Path) -> Result<FoldReport, StoreError> {
    store.audit().fold(&spool_directory(state)).await
}

/// End what nobody decided, or nobody began, in time.
pub async fn expire_actions(store: &Store) -> Result<Vec<ActionRow>, StoreError> {
    let rows = store.expire_actions(Clock::system().now()).await?;
    let entries = rows.iter().map(|row| entry(row, "action.expire", Value::Null)).collect();
    store.audit().append(entries).await?;
    Ok(rows)
}

/// One server at a time has the database: what runs when it starts was another's, which is gone.
pub(crate) async fn fail_interrupted(store: &Store) -> Result<(), StoreError> {
    loop {
        let filter = ActionFilter { user: None, state: Some(ActionState::Running), after: None, limit: PAGE };
        let rows = store.actions(&filter).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let result = json!({ "error": "the server was killed meanwhile" });
            let row = store.finish_action(&row.id, Outcome::Failed, result.clone()).await?;
            store.audit().append(vec![entry(&row, "action.fail", result)]).await?;
        }
    }
}

/// Until the server stops.
pub(crate) async fn sweep_for_ever(app: Shared) {
    let mut ticks: u32 = 0;
    let mut last = 0;
    while !app.actions.is_stopping() {
        if let Err(error) = sweep(&app, &mut last, ticks.is_multiple_of(SELDOM)).await {
            tracing::warn!(%error, "what is over was not swept, and will be tried again");
        }
        if ticks.is_multiple_of(OFTEN) {
            look_for_ended(&app);
        }
        ticks = ticks.wrapping_add(1);
        tokio::time::sleep(TICK).await;
    }
}

/// Beside the rest: what a killed keeper left may take seconds to go.
fn look_for_ended(app: &Shared) {
    let app = app.clone();
    tokio::spawn(async move {
        if let Err(error) = app.look_again().await
            && !app.actions.is_stopping()
        {
            tracing::warn!(why = error.message, "sandboxes that have ended were not looked for");
        }
    });
}

async fn sweep(app: &Shared, last: &mut i64, seldom: bool) -> Result<(), StoreError> {
    expire_actions(&app.store).await?;
    // One look for all who wait: also what another process did.
    let newest = app.store.last_event().await?;
    if newest != *last {
        *last = newest;
        app.actions.tell();
    }
    if seldom {
        let report = fold_spool(&app.store, app.places.state.path()).await?;
        for torn in &report.torn {
            tracing::warn!(path = %torn.path.display(), why = torn.why, "a record of the spool is torn, and kept");
        }
        app.store.decisions().purge().await?;
        if app.store.forget_actions(Clock::system().now() - KEPT).await? > 0 {
            app.shown.forget();
        }
        if app.store.idempotency().purge().await? > 0 {
            app.answers.forget();
        }
        if let Err(error) = app.drop_old().await {
            tracing::warn!(why = error.message, "files of sandboxes that ended long ago are not removed");
        }
    }
    Ok(())
}

fn entry(row: &ActionRow, kind: &str, more: Value) -> AuditEntry {
    AuditEntry {
        at: Clock::system().now(),
        user: row.user.clone(),
        kind: kind.into(),
        target: Some(row.id.clone()),
        decision: None,
        policy_digest: None,
        receipt_digest: None,
        denials: Value::Array(Vec::new()),
        result: json!({
            "kind": row.kind, "level": row.level, "summary": row.summary, "digest": row.digest, "more": more,
        }),
        request_id: None,
        origin: Some("http".into()),
    }
}
