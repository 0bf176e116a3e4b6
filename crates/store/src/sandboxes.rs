//! Sandboxes that the server made: whose they are, and whether they live. What runs in them is their keepers' to know.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row, Sqlite, Transaction};

use crate::page::{json, page_size, word};
use crate::words::words;
use crate::{Store, StoreError};

words! {
    pub enum SandboxState ("state of a sandbox") {
        /// Written down before anything is built: one that is still so after a restart was half made.
        Making = "making",
        Alive = "alive",
        Ended = "ended",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxRow {
    pub id: String,
    pub user: String,
    pub name: Option<String>,
    pub state: SandboxState,
    pub profile: String,
    pub workspace: Option<String>,
    pub created: i64,
    pub ended: Option<i64>,
    pub ended_why: Option<String>,
    pub labels: Value,
    /// What it was asked for with; its interface knows how to read it.
    pub request: Option<String>,
    /// None: it is not made yet, or was made before this was kept.
    pub policy_digest: Option<String>,
    pub receipt_digest: Option<String>,
}

/// Under which policy a sandbox lives, and what was enforced: for the audit of what is done in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enforced {
    pub policy_digest: Option<String>,
    pub receipt_digest: Option<String>,
}

#[derive(Debug, Clone)]
pub struct NewSandbox {
    /// A UUIDv7: lists are in the order of ids.
    pub id: String,
    pub user: String,
    /// One living sandbox of a user has it at a time.
    pub name: Option<String>,
    pub profile: String,
    pub workspace: Option<String>,
    pub labels: Value,
    pub request: Option<String>,
    pub claim: Claim,
}

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claim {
    /// Bytes.
    pub memory: u64,
    /// Thousandths of a processor.
    pub cpus: u64,
}

/// How many may live at the same time.
#[derive(Debug, Clone, Copy)]
pub struct Quotas {
    pub of_user: u64,
    pub in_all: u64,
}

/// Newest first; `after` is the id of the last one of the page before.
#[derive(Debug, Clone, Default)]
pub struct SandboxFilter {
    pub user: Option<String>,
    pub state: Option<SandboxState>,
    pub after: Option<String>,
    pub limit: u32,
}

impl FromRow<'_, SqliteRow> for SandboxRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            user: row.try_get("user_name")?,
            name: row.try_get("name")?,
            state: word(row, "state")?,
            profile: row.try_get("profile")?,
            workspace: row.try_get("workspace")?,
            created: row.try_get("created")?,
            ended: row.try_get("ended")?,
            ended_why: row.try_get("ended_why")?,
            labels: json(row, "labels")?,
            request: row.try_get("request")?,
            policy_digest: row.try_get("policy_digest")?,
            receipt_digest: row.try_get("receipt_digest")?,
        })
    }
}

const COLUMNS: &str = "SELECT id, user_name, name, state, profile, workspace, created, ended, ended_why, labels, request, \
     policy_digest, receipt_digest FROM sandboxes WHERE TRUE";

impl Store {
    /// Written down as being made, if the user and the server have room for one more.
    pub async fn add_sandbox(&self, new: NewSandbox, quotas: Quotas) -> Result<SandboxRow, StoreError> {
        let mut transaction = self.write().await?;
        let of_user: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM sandboxes WHERE user_name = $1 AND state <> 'ended'")
                .bind(&new.user)
                .fetch_one(&mut *transaction)
                .await?;
        if !room(of_user, quotas.of_user) {
            return Err(StoreError::Quota { what: "sandboxes of one user", limit: quotas.of_user });
        }
        let in_all: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sandboxes WHERE state <> 'ended'")
            .fetch_one(&mut *transaction)
            .await?;
        if !room(in_all, quotas.in_all) {
            return Err(StoreError::Quota { what: "sandboxes on this server", limit: quotas.in_all });
        }
        let row = SandboxRow {
            id: new.id,
            user: new.user,
            name: new.name,
            state: SandboxState::Making,
            profile: new.profile,
            workspace: new.workspace,
            created: self.now(),
            ended: None,
            ended_why: None,
            labels: new.labels,
            request: new.request,
            policy_digest: None,
            receipt_digest: None,
        };
        insert(&mut transaction, &row, new.claim).await.map_err(|error| {
            if error.is_unique_violation() {
                let name = row.name.clone().unwrap_or_else(|| row.id.clone());
                StoreError::Taken { what: "sandbox", name, why: "there is such a sandbox" }
            } else if error.is_missing_reference() {
                StoreError::not_found("user", &row.user)
            } else {
                error
            }
        })?;
        transaction.commit().await?;
        Ok(row)
    }

    pub async fn sandbox_is_alive(&self, id: &str, enforced: &Enforced) -> Result<(), StoreError> {
        let mut transaction = self.write().await?;
        let row = find(&mut transaction, id).await?.ok_or_else(|| StoreError::not_found("sandbox", id))?;
        if row.state != SandboxState::Making {
            return Err(StoreError::Conflict {
                what: "sandbox",
                name: id.to_owned(),
                wanted: "called alive",
                why: match &row.ended_why {
                    Some(why) => format!("it has ended ({why})"),
                    None => format!("it is {} already", row.state),
                },
                next: "make another",
            });
        }
        sqlx::query(
            "UPDATE sandboxes SET state = 'alive', policy_digest = $1, receipt_digest = $2 WHERE id = $3",
        )
        .bind(&enforced.policy_digest)
        .bind(&enforced.receipt_digest)
        .bind(id)
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// The first reason stays: says whether this was the first.
    pub async fn sandbox_ended(&self, id: &str, why: &str) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        let row = find(&mut transaction, id).await?.ok_or_else(|| StoreError::not_found("sandbox", id))?;
        if row.state == SandboxState::Ended {
            return Ok(false);
        }
        sqlx::query("UPDATE sandboxes SET state = 'ended', ended = $1, ended_why = $2 WHERE id = $3")
            .bind(self.now())
            .bind(why)
            .bind(id)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    pub async fn sandbox(&self, id: &str) -> Result<Option<SandboxRow>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push(" AND id = ").push_bind(id);
        Ok(query.build_query_as().fetch_optional(self.readers()).await?)
    }

    pub async fn sandboxes(&self, filter: &SandboxFilter) -> Result<Vec<SandboxRow>, StoreError> {
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

    /// What all living sandboxes of a user, or of everybody, may use together.
    pub async fn claimed(&self, user: Option<&str>) -> Result<Claim, StoreError> {
        let (memory, cpus): (f64, f64) = sqlx::query_as(
            "SELECT TOTAL(memory), TOTAL(cpus) FROM sandboxes
             WHERE state <> 'ended' AND ($1 IS NULL OR user_name = $1)",
        )
        .bind(user)
        .fetch_one(self.readers())
        .await?;
        Ok(Claim { memory: memory as u64, cpus: cpus as u64 })
    }

    /// Takes the row of an ended sandbox away.
    pub async fn forget_sandbox(&self, id: &str) -> Result<(), StoreError> {
        let mut transaction = self.write().await?;
        let row = find(&mut transaction, id).await?.ok_or_else(|| StoreError::not_found("sandbox", id))?;
        if row.state != SandboxState::Ended {
            return Err(StoreError::Conflict {
                what: "sandbox",
                name: id.to_owned(),
                wanted: "forgotten",
                why: format!("it is {}", row.state),
                next: "end it first",
            });
        }
        sqlx::query("DELETE FROM sandboxes WHERE id = $1").bind(id).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}

fn room(used: i64, limit: u64) -> bool {
    u64::try_from(used).is_ok_and(|used| used < limit)
}

async fn find(transaction: &mut Transaction<'_, Sqlite>, id: &str) -> Result<Option<SandboxRow>, StoreError> {
    let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
    query.push(" AND id = ").push_bind(id);
    Ok(query.build_query_as().fetch_optional(&mut **transaction).await?)
}

async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    row: &SandboxRow,
    claim: Claim,
) -> Result<(), StoreError> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    sqlx::query(
        "INSERT INTO sandboxes (id, user_name, name, state, profile, workspace, created, labels, request, memory, cpus)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(&row.id)
    .bind(&row.user)
    .bind(&row.name)
    .bind(row.state.as_str())
    .bind(&row.profile)
    .bind(&row.workspace)
    .bind(row.created)
    .bind(row.labels.to_string())
    .bind(&row.request)
    .bind(number(claim.memory))
    .bind(number(claim.cpus))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
