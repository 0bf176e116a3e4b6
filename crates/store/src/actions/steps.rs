//! The steps of an action. Of two that race for one step, one takes it and the other is told who did.

use serde_json::Value;
use sqlx::{Sqlite, Transaction};

use super::events::add_event;
use super::list::{any_overdue, find, find_overdue};
use super::{ActionRow, ActionState, Decision, Outcome, Scope};
use crate::{Store, StoreError};

impl Store {
    /// Only while it waits and before it expires; nobody decides on their own high or critical action. Whether `by` may
    /// decide at all is for the caller to know.
    pub async fn decide_action(
        &self,
        id: &str,
        by: &str,
        decision: Decision,
        why: Option<&str>,
        scope: Option<Scope>,
    ) -> Result<ActionRow, StoreError> {
        let wanted = match decision {
            Decision::Approve => "approved",
            Decision::Deny => "denied",
        };
        let mut transaction = self.write().await?;
        let now = self.now();
        let mut row = find(&mut transaction, id).await?;
        if row.user == by && row.level.needs_another_person() {
            return Err(StoreError::OwnAction { id: row.id, user: row.user, level: row.level });
        }
        if row.state != ActionState::Waiting {
            return Err(out_of_step(&row, wanted));
        }
        if row.expires <= now {
            return Err(StoreError::Conflict {
                what: "action",
                name: row.id,
                wanted,
                why: "nobody decided before it expired".into(),
                next: "submit it again",
            });
        }
        row.state = decision.state();
        row.decided_by = Some(by.to_owned());
        row.decided_at = Some(now);
        row.decided_why = why.map(str::to_owned);
        row.scope = scope.filter(|_| decision == Decision::Approve);
        if decision == Decision::Approve {
            // From now on it is its submitter who has to act, and has as long as there was to decide.
            row.expires = now.saturating_add(row.expires.saturating_sub(row.created));
        }
        save(&mut transaction, &row).await?;
        add_event(&mut transaction, &row, Some(by), now).await?;
        transaction.commit().await?;
        Ok(row)
    }

    /// By whoever the caller lets: what waits, or was approved and has not begun.
    pub async fn cancel_action(&self, id: &str, by: &str) -> Result<ActionRow, StoreError> {
        let mut transaction = self.write().await?;
        let now = self.now();
        let mut row = find(&mut transaction, id).await?;
        if !matches!(row.state, ActionState::Waiting | ActionState::Approved) {
            return Err(out_of_step(&row, "cancelled"));
        }
        row.state = ActionState::Cancelled;
        row.finished = Some(now);
        save(&mut transaction, &row).await?;
        add_event(&mut transaction, &row, Some(by), now).await?;
        transaction.commit().await?;
        Ok(row)
    }

    /// What was approved is what runs, once: refused if the digest of what is about to run is another.
    pub async fn start_action(&self, id: &str, digest: &str) -> Result<ActionRow, StoreError> {
        let mut transaction = self.write().await?;
        let now = self.now();
        let mut row = find(&mut transaction, id).await?;
        if row.state != ActionState::Approved {
            return Err(out_of_step(&row, "started"));
        }
        if row.expires <= now {
            return Err(StoreError::Conflict {
                what: "action",
                name: row.id,
                wanted: "started",
                why: LAPSED.into(),
                next: "submit it again",
            });
        }
        if row.digest != digest {
            return Err(StoreError::Conflict {
                what: "action",
                name: row.id,
                wanted: "started",
                why: format!("{} was approved, and {digest} is about to run", row.digest),
                next: "submit what should run, and have that approved",
            });
        }
        row.state = ActionState::Running;
        save(&mut transaction, &row).await?;
        add_event(&mut transaction, &row, None, now).await?;
        transaction.commit().await?;
        Ok(row)
    }

    /// Also what a killed server left running is finished so, as failed, by the next one.
    pub async fn finish_action(
        &self,
        id: &str,
        outcome: Outcome,
        result: Value,
    ) -> Result<ActionRow, StoreError> {
        let mut transaction = self.write().await?;
        let now = self.now();
        let mut row = find(&mut transaction, id).await?;
        if row.state != ActionState::Running {
            return Err(out_of_step(&row, "finished"));
        }
        row.state = match outcome {
            Outcome::Done => ActionState::Done,
            Outcome::Failed => ActionState::Failed,
        };
        row.finished = Some(now);
        row.result = Some(result);
        save(&mut transaction, &row).await?;
        add_event(&mut transaction, &row, None, now).await?;
        transaction.commit().await?;
        Ok(row)
    }

    /// Ends what nobody decided in time, and what was approved and not begun in time; says which.
    pub async fn expire_actions(&self, now: i64) -> Result<Vec<ActionRow>, StoreError> {
        // Asked for often, and nearly always for nothing: no lock for that.
        if !any_overdue(self.readers(), now).await? {
            return Ok(Vec::new());
        }
        let mut transaction = self.write().await?;
        let mut rows = find_overdue(&mut transaction, now).await?;
        for row in &mut rows {
            row.state = ActionState::Expired;
            row.finished = Some(now);
            save(&mut transaction, row).await?;
            add_event(&mut transaction, row, None, now).await?;
        }
        transaction.commit().await?;
        Ok(rows)
    }
}

const LAPSED: &str = "it was approved, and not begun before that approval expired";

/// Who did what instead.
fn out_of_step(row: &ActionRow, wanted: &'static str) -> StoreError {
    let why = match (row.state, &row.decided_by) {
        (ActionState::Waiting, _) => "nobody has approved it yet".to_owned(),
        (ActionState::Expired, Some(_)) => LAPSED.to_owned(),
        (ActionState::Expired, None) => "nobody decided before it expired".to_owned(),
        (ActionState::Approved, Some(by)) => format!("{by:?} approved it"),
        (ActionState::Denied, Some(by)) => format!("{by:?} denied it"),
        (state, Some(by)) => format!("it is {state}, and {by:?} approved it"),
        (state, None) => format!("it is {state}"),
    };
    let next = match row.state {
        ActionState::Waiting => "wait for a decision",
        ActionState::Approved | ActionState::Running => "look at what came of it",
        _ => "submit it again if it is still wanted",
    };
    StoreError::Conflict { what: "action", name: row.id.clone(), wanted, why, next }
}

/// All that a step can change.
async fn save(transaction: &mut Transaction<'_, Sqlite>, row: &ActionRow) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE actions SET state = $1, decided_by = $2, decided_at = $3, decided_why = $4, scope = $5, finished = $6,
                            result = $7, expires = $8
         WHERE id = $9",
    )
    .bind(row.state.as_str())
    .bind(&row.decided_by)
    .bind(row.decided_at)
    .bind(&row.decided_why)
    .bind(row.scope.map(|scope| scope.as_str()))
    .bind(row.finished)
    .bind(row.result.as_ref().map(Value::to_string))
    .bind(row.expires)
    .bind(&row.id)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
