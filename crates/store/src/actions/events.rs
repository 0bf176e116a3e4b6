//! What happened to actions, numbered, for those who watch: a reader who has seen number n asks for what came after.

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row, Sqlite, Transaction};

use super::{ActionRow, ActionState};
use crate::page::{page_size, word};
use crate::{Store, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionEvent {
    pub seq: i64,
    pub action: String,
    pub user: String,
    pub state: ActionState,
    /// Who decided or cancelled.
    pub by: Option<String>,
    pub at: i64,
}

impl FromRow<'_, SqliteRow> for ActionEvent {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            seq: row.try_get("seq")?,
            action: row.try_get("action_id")?,
            user: row.try_get("user_name")?,
            state: word(row, "state")?,
            by: row.try_get("by_name")?,
            at: row.try_get("at")?,
        })
    }
}

impl Store {
    /// Oldest first; of one user's actions, or of all.
    pub async fn events_after(
        &self,
        seq: i64,
        user: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ActionEvent>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(
            "SELECT seq, action_id, user_name, state, by_name, at FROM action_events WHERE seq > ",
        );
        query.push_bind(seq);
        if let Some(user) = user {
            query.push(" AND user_name = ").push_bind(user);
        }
        query.push(" ORDER BY seq LIMIT ").push_bind(page_size(limit));
        Ok(query.build_query_as().fetch_all(self.readers()).await?)
    }

    /// The number of the newest event there ever was: where one who only wants news begins.
    pub async fn last_event(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT value FROM counters WHERE name = 'action_events'")
            .fetch_one(self.readers())
            .await?)
    }
}

pub(super) async fn add_event(
    transaction: &mut Transaction<'_, Sqlite>,
    row: &ActionRow,
    by: Option<&str>,
    at: i64,
) -> Result<(), StoreError> {
    let seq: i64 = sqlx::query_scalar(
        "UPDATE counters SET value = value + 1 WHERE name = 'action_events' RETURNING value",
    )
    .fetch_one(&mut **transaction)
    .await?;
    sqlx::query(
        "INSERT INTO action_events (seq, action_id, user_name, state, by_name, at) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(seq)
    .bind(&row.id)
    .bind(&row.user)
    .bind(row.state.as_str())
    .bind(by)
    .bind(at)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
