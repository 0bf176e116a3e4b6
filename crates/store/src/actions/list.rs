//! Writing an action down, finding it again, forgetting it.

use sqlx::{QueryBuilder, Sqlite, SqlitePool, Transaction};

use super::events::add_event;
use super::{ActionFilter, ActionRow, ActionState, NewAction};
use crate::page::page_size;
use crate::{Store, StoreError};

const COLUMNS: &str = "SELECT id, user_name, kind, level, state, summary, request, digest, reasons, created, expires, \
     decided_by, decided_at, decided_why, scope, finished, result FROM actions WHERE TRUE";

/// Nothing is won where so little is said.
const LET_GO: u64 = 1024;

impl Store {
    pub async fn add_action(&self, new: NewAction) -> Result<ActionRow, StoreError> {
        let now = self.now();
        let (decided_by, decided_at, decided_why, scope) = match &new.decided {
            Some(rule) => (Some(rule.by.clone()), Some(now), rule.why.clone(), rule.scope),
            None => (None, None, None, None),
        };
        let row = ActionRow {
            id: new.id,
            user: new.user,
            kind: new.kind,
            level: new.level,
            state: new.decided.map_or(ActionState::Waiting, |rule| rule.decision.state()),
            summary: new.summary,
            request: new.request,
            digest: new.digest,
            reasons: new.reasons,
            created: now,
            expires: new.expires,
            decided_by,
            decided_at,
            decided_why,
            scope,
            finished: None,
            result: None,
        };
        let mut transaction = self.write().await?;
        insert(&mut transaction, &row).await.map_err(|error| {
            if error.is_unique_violation() {
                StoreError::Taken { what: "action", name: row.id.clone(), why: "there is such an action" }
            } else if error.is_missing_reference() {
                StoreError::not_found("user", &row.user)
            } else {
                error
            }
        })?;
        add_event(&mut transaction, &row, row.decided_by.as_deref(), now).await?;
        transaction.commit().await?;
        Ok(row)
    }

    pub async fn action(&self, id: &str) -> Result<Option<ActionRow>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push(" AND id = ").push_bind(id);
        Ok(query.build_query_as().fetch_optional(self.readers()).await?)
    }

    pub async fn actions(&self, filter: &ActionFilter) -> Result<Vec<ActionRow>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        if let Some(user) = &filter.user {
            query.push(" AND user_name = ").push_bind(user);
        }
        if let Some(state) = filter.state {
            query.push(" AND state = ").push_bind(state.as_str());
        }
        if let Some(after) = &filter.after {
            query.push(" AND id < ").push_bind(after);
        }
        query.push(" ORDER BY id DESC LIMIT ").push_bind(page_size(filter.limit));
        Ok(query.build_query_as().fetch_all(self.readers()).await?)
    }

    /// How many wait for a decision; of a user, or of everybody.
    pub async fn waiting_actions(&self, user: Option<&str>) -> Result<u64, StoreError> {
        let mut query = QueryBuilder::new("SELECT COUNT(*) FROM actions WHERE state = 'waiting'");
        if let Some(user) = user {
            query.push(" AND user_name = ").push_bind(user);
        }
        let count: i64 = query.build_query_scalar().fetch_one(self.readers()).await?;
        Ok(count.unsigned_abs())
    }

    /// How many bytes say what this user's actions would have done.
    pub async fn shown_bytes(&self, user: &str) -> Result<u64, StoreError> {
        let sum: Option<i64> =
            sqlx::query_scalar("SELECT SUM(OCTET_LENGTH(request)) FROM actions WHERE user_name = $1")
                .bind(user)
                .fetch_one(self.readers())
                .await?;
        Ok(sum.unwrap_or(0).unsigned_abs())
    }

    /// Of this user's actions that have come to their end, the oldest say no longer what they would have done, until no more
    /// than so many bytes are kept; says how many are. Their digests stay.
    pub async fn let_shown_go(&self, user: &str, most: u64) -> Result<u64, StoreError> {
        let mut transaction = self.write().await?;
        let rows: Vec<(String, i64, bool)> = sqlx::query_as(
            "SELECT id, OCTET_LENGTH(request), state IN ('denied', 'cancelled', 'expired', 'done', 'failed')
             FROM actions WHERE user_name = $1 ORDER BY id DESC",
        )
        .bind(user)
        .fetch_all(&mut *transaction)
        .await?;
        let mut kept = 0;
        for (id, bytes, is_over) in rows {
            let bytes = bytes.unsigned_abs();
            if !is_over || kept + bytes <= most || bytes <= LET_GO {
                kept += bytes;
                continue;
            }
            let mut row = find(&mut transaction, &id).await?;
            row.request["shown"] = serde_json::json!({ "let_go": true });
            let request = row.request.to_string();
            kept += request.len() as u64;
            sqlx::query("UPDATE actions SET request = $1 WHERE id = $2")
                .bind(request)
                .bind(id)
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(kept)
    }

    /// Takes away what came to its end before that time, with its events; says how many. The audit keeps what was done.
    pub async fn forget_actions(&self, before: i64) -> Result<u64, StoreError> {
        let mut transaction = self.write().await?;
        let gone = sqlx::query(
            "DELETE FROM actions
             WHERE state IN ('denied', 'cancelled', 'expired', 'done', 'failed')
               AND COALESCE(finished, decided_at, expires) < $1",
        )
        .bind(before)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(gone.rows_affected())
    }
}

pub(super) async fn find(
    transaction: &mut Transaction<'_, Sqlite>,
    id: &str,
) -> Result<ActionRow, StoreError> {
    let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
    query.push(" AND id = ").push_bind(id);
    let row = query.build_query_as().fetch_optional(&mut **transaction).await?;
    row.ok_or_else(|| StoreError::not_found("action", id))
}

/// Whether there is one of those below.
pub(super) async fn any_overdue(readers: &SqlitePool, now: i64) -> Result<bool, StoreError> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM actions WHERE state IN ('waiting', 'approved') AND expires <= $1 LIMIT 1",
    )
    .bind(now)
    .fetch_optional(readers)
    .await?;
    Ok(found.is_some())
}

/// Those that wait for a decision, or for their submitter, although their time is over.
pub(super) async fn find_overdue(
    transaction: &mut Transaction<'_, Sqlite>,
    now: i64,
) -> Result<Vec<ActionRow>, StoreError> {
    let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
    query.push(" AND state IN ('waiting', 'approved') AND expires <= ").push_bind(now).push(" ORDER BY id");
    Ok(query.build_query_as().fetch_all(&mut **transaction).await?)
}

async fn insert(transaction: &mut Transaction<'_, Sqlite>, row: &ActionRow) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO actions (id, user_name, kind, level, state, summary, request, digest, reasons, created, expires,
                              decided_by, decided_at, decided_why, scope)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    )
    .bind(&row.id)
    .bind(&row.user)
    .bind(&row.kind)
    .bind(row.level.as_str())
    .bind(row.state.as_str())
    .bind(&row.summary)
    .bind(row.request.to_string())
    .bind(&row.digest)
    .bind(serde_json::Value::from(row.reasons.clone()).to_string())
    .bind(row.created)
    .bind(row.expires)
    .bind(&row.decided_by)
    .bind(row.decided_at)
    .bind(&row.decided_why)
    .bind(row.scope.map(|scope| scope.as_str()))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
