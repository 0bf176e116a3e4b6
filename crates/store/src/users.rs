//! Who may use the server, and as what.

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use crate::makers::kept;
use crate::page::word;
use crate::words::words;
use crate::{Maker, Store, StoreError};

words! {
    /// Not a ladder: an approver decides on what others run and runs nothing, an operator runs and decides nothing.
    pub enum Role ("role") {
        Viewer = "viewer",
        Operator = "operator",
        Approver = "approver",
        Admin = "admin",
    }
}

impl Role {
    /// Whether this role may do all that the other may.
    pub const fn covers(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Admin, _)
                | (_, Self::Viewer)
                | (Self::Operator, Self::Operator)
                | (Self::Approver, Self::Approver)
        )
    }

    /// The most that both roles may: what a key of one role is worth to a user of the other.
    pub const fn shared_with(self, other: Self) -> Self {
        if self.covers(other) {
            other
        } else if other.covers(self) {
            self
        } else {
            Self::Viewer
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    pub role: Role,
    pub created: i64,
    pub disabled: bool,
}

impl FromRow<'_, SqliteRow> for User {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            role: word(row, "role")?,
            created: row.try_get("created")?,
            disabled: row.try_get("disabled")?,
        })
    }
}

impl Store {
    pub async fn add_user(&self, name: &str, role: Role) -> Result<User, StoreError> {
        self.add_user_by(name, role, None).await
    }

    /// The same by somebody who came to a server for that.
    pub async fn add_user_by(
        &self,
        name: &str,
        role: Role,
        maker: Option<&Maker>,
    ) -> Result<User, StoreError> {
        let taken = |why| StoreError::Taken { what: "user", name: name.to_owned(), why };
        let mut transaction = self.write().await?;
        let removed: Option<i64> = sqlx::query_scalar("SELECT removed FROM removed_users WHERE name = $1")
            .bind(name)
            .fetch_optional(&mut *transaction)
            .await?;
        if removed.is_some() {
            return Err(taken("a removed user had it, and the audit speaks of them"));
        }
        let user = User { name: name.to_owned(), role, created: self.now(), disabled: false };
        let makers = kept(&mut transaction, maker).await?;
        sqlx::query("INSERT INTO users (name, role, created, disabled, makers) VALUES ($1, $2, $3, $4, $5)")
            .bind(name)
            .bind(role.as_str())
            .bind(user.created)
            .bind(false)
            .bind(makers)
            .execute(&mut *transaction)
            .await
            .map_err(StoreError::from)
            .map_err(
                |error| if error.is_unique_violation() { taken("there is such a user") } else { error },
            )?;
        transaction.commit().await?;
        Ok(user)
    }

    pub async fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        Ok(sqlx::query_as("SELECT name, role, created, disabled FROM users WHERE name = $1")
            .bind(name)
            .fetch_optional(self.readers())
            .await?)
    }

    /// All of them, by name.
    pub async fn users(&self) -> Result<Vec<User>, StoreError> {
        Ok(sqlx::query_as("SELECT name, role, created, disabled FROM users ORDER BY name")
            .fetch_all(self.readers())
            .await?)
    }

    pub async fn set_user_role(&self, name: &str, role: Role) -> Result<(), StoreError> {
        let mut transaction = self.write().await?;
        let changed = sqlx::query("UPDATE users SET role = $1 WHERE name = $2")
            .bind(role.as_str())
            .bind(name)
            .execute(&mut *transaction)
            .await?;
        if changed.rows_affected() == 0 {
            return Err(StoreError::not_found("user", name));
        }
        Ok(transaction.commit().await?)
    }

    /// Their keys stop working as long as they are disabled; `false` lets them in again.
    pub async fn disable_user(&self, name: &str, disabled: bool) -> Result<(), StoreError> {
        let mut transaction = self.write().await?;
        let changed = sqlx::query("UPDATE users SET disabled = $1 WHERE name = $2")
            .bind(disabled)
            .bind(name)
            .execute(&mut *transaction)
            .await?;
        if changed.rows_affected() == 0 {
            return Err(StoreError::not_found("user", name));
        }
        Ok(transaction.commit().await?)
    }

    /// With their keys, remembered decisions, actions and ended sandboxes. The audit keeps what they did, so that nobody
    /// gets their name. Refused while they own living sandboxes or an action of theirs runs.
    pub async fn remove_user(&self, name: &str) -> Result<(), StoreError> {
        let refused = |why: String, next| StoreError::Conflict {
            what: "user",
            name: name.to_owned(),
            wanted: "removed",
            why,
            next,
        };
        let mut transaction = self.write().await?;
        let living: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM sandboxes WHERE user_name = $1 AND state <> 'ended'")
                .bind(name)
                .fetch_one(&mut *transaction)
                .await?;
        if living > 0 {
            return Err(refused(format!("they own {living} living sandboxes"), "delete those first"));
        }
        let running: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM actions WHERE user_name = $1 AND state = 'running'")
                .bind(name)
                .fetch_one(&mut *transaction)
                .await?;
        if running > 0 {
            return Err(refused(
                format!("{running} of their actions are running"),
                "wait until they have ended",
            ));
        }
        for sql in [
            "DELETE FROM sandboxes WHERE user_name = $1",
            "DELETE FROM actions WHERE user_name = $1",
            "DELETE FROM answers WHERE user_name = $1",
        ] {
            sqlx::query(sql).bind(name).execute(&mut *transaction).await?;
        }
        let gone =
            sqlx::query("DELETE FROM users WHERE name = $1").bind(name).execute(&mut *transaction).await?;
        if gone.rows_affected() == 0 {
            return Err(StoreError::not_found("user", name));
        }
        sqlx::query("INSERT INTO removed_users (name, removed) VALUES ($1, $2)")
            .bind(name)
            .bind(self.now())
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }
}
