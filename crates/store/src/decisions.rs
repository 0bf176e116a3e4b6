//! Approvals that hold for more than one action: of this shape, by this user, for a session, an hour or always.

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use crate::page::word;
use crate::{Scope, Store, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    pub id: String,
    pub user: String,
    pub kind: String,
    /// The digest of what it holds for.
    pub shape: String,
    pub scope: Scope,
    /// The session that a `session` scope is for.
    pub session: Option<String>,
    pub until: Option<i64>,
    /// Who approved.
    pub by: String,
    pub made: i64,
}

#[derive(Debug, Clone)]
pub struct NewRemembered {
    pub id: String,
    pub user: String,
    pub kind: String,
    pub shape: String,
    pub scope: Scope,
    pub session: Option<String>,
    pub until: Option<i64>,
    pub by: String,
}

/// Made by `Store::decisions`.
#[derive(Debug, Clone)]
pub struct Decisions {
    store: Store,
}

impl FromRow<'_, SqliteRow> for Remembered {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            user: row.try_get("user_name")?,
            kind: row.try_get("kind")?,
            shape: row.try_get("shape")?,
            scope: word(row, "scope")?,
            session: row.try_get("session")?,
            until: row.try_get("until")?,
            by: row.try_get("by_name")?,
            made: row.try_get("made")?,
        })
    }
}

impl Store {
    pub fn decisions(&self) -> Decisions {
        Decisions { store: self.clone() }
    }
}

impl Decisions {
    /// Refused where the scope has no end that it needs: a session has an id, an hour a time. Once is not remembered.
    pub async fn remember(&self, new: NewRemembered) -> Result<Remembered, StoreError> {
        let wrong = match new.scope {
            Scope::Once => Some("what holds once is not remembered"),
            Scope::Session if new.session.is_none() => Some("it names no session"),
            Scope::Hour if new.until.is_none() => Some("it names no end"),
            _ => None,
        };
        if let Some(why) = wrong {
            return Err(StoreError::Conflict {
                what: "decision",
                name: new.id,
                wanted: "remembered",
                why: why.into(),
                next: "say how long it holds",
            });
        }
        let row = Remembered {
            id: new.id,
            user: new.user,
            kind: new.kind,
            shape: new.shape,
            scope: new.scope,
            session: new.session,
            until: new.until,
            by: new.by,
            made: self.store.now(),
        };
        let mut transaction = self.store.write().await?;
        sqlx::query(
            "INSERT INTO decisions (id, user_name, kind, shape, scope, session, until, by_name, made)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(&row.id)
        .bind(&row.user)
        .bind(&row.kind)
        .bind(&row.shape)
        .bind(row.scope.as_str())
        .bind(&row.session)
        .bind(row.until)
        .bind(&row.by)
        .bind(row.made)
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::from)
        .map_err(|error| {
            if error.is_unique_violation() {
                StoreError::Taken { what: "decision", name: row.id.clone(), why: "there is such a decision" }
            } else if error.is_missing_reference() {
                StoreError::not_found("user", &row.user)
            } else {
                error
            }
        })?;
        transaction.commit().await?;
        Ok(row)
    }

    /// The newest that holds now. Without a session, what was approved for one session is not found.
    pub async fn find(
        &self,
        user: &str,
        kind: &str,
        shape: &str,
        session: Option<&str>,
    ) -> Result<Option<Remembered>, StoreError> {
        Ok(sqlx::query_as(
            "SELECT id, user_name, kind, shape, scope, session, until, by_name, made FROM decisions
             WHERE user_name = $1 AND kind = $2 AND shape = $3 AND (until IS NULL OR until > $4)
               AND (scope <> 'session' OR session = $5)
             ORDER BY made DESC, id DESC LIMIT 1",
        )
        .bind(user)
        .bind(kind)
        .bind(shape)
        .bind(self.store.now())
        .bind(session)
        .fetch_optional(self.store.readers())
        .await?)
    }

    /// All, or those for one user's actions, newest first; those that are over too, until they are forgotten.
    pub async fn list(&self, user: Option<&str>) -> Result<Vec<Remembered>, StoreError> {
        Ok(sqlx::query_as(
            "SELECT id, user_name, kind, shape, scope, session, until, by_name, made FROM decisions
             WHERE $1 IS NULL OR user_name = $1 ORDER BY made DESC, id DESC",
        )
        .bind(user)
        .fetch_all(self.store.readers())
        .await?)
    }

    pub async fn forget(&self, id: &str) -> Result<(), StoreError> {
        let mut transaction = self.store.write().await?;
        let gone =
            sqlx::query("DELETE FROM decisions WHERE id = $1").bind(id).execute(&mut *transaction).await?;
        if gone.rows_affected() == 0 {
            return Err(StoreError::not_found("decision", id));
        }
        Ok(transaction.commit().await?)
    }

    /// Those of a session that has ended.
    pub async fn forget_session(&self, session: &str) -> Result<u64, StoreError> {
        let mut transaction = self.store.write().await?;
        let gone = sqlx::query("DELETE FROM decisions WHERE scope = 'session' AND session = $1")
            .bind(session)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(gone.rows_affected())
    }

    /// Those that no longer hold.
    pub async fn purge(&self) -> Result<u64, StoreError> {
        let mut transaction = self.store.write().await?;
        let gone = sqlx::query("DELETE FROM decisions WHERE until <= $1")
            .bind(self.store.now())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(gone.rows_affected())
    }
}
