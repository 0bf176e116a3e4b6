//! Answers to requests that carried an idempotency key: asked again, a request is answered again and not carried out again.
//!
//! An answer is kept as it was given. One that shows a secret (a new API key) must not be finished with its body.

use serde_json::Value;
use sqlx::Row;

use crate::{Store, StoreError};

/// Answers are given again for a day.
const KEPT: i64 = 24 * 60 * 60 * 1000;

/// Which request: keys of different users or routes are different keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey<'a> {
    pub user: &'a str,
    pub route: &'a str,
    pub key: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Option<Value>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// Carry it out, then `finish` or `abandon`.
    Fresh,
    /// The same request is being carried out.
    Running,
    Done(Answer),
    /// The key was used for another request.
    Mismatch,
}

/// Made by `Store::idempotency`.
#[derive(Debug, Clone)]
pub struct Idempotency {
    store: Store,
}

impl Store {
    pub fn idempotency(&self) -> Idempotency {
        Idempotency { store: self.clone() }
    }
}

impl Idempotency {
    /// What another instance began and did not finish counts as abandoned: one server at a time writes to a database.
    pub async fn begin(&self, request: RequestKey<'_>, request_digest: &str) -> Result<Begun, StoreError> {
        let now = self.store.now();
        let mut transaction = self.store.write().await?;
        let found = sqlx::query(
            "SELECT request_digest, instance, begun, status, headers, body FROM answers
             WHERE user_name = $1 AND route = $2 AND request_key = $3",
        )
        .bind(request.user)
        .bind(request.route)
        .bind(request.key)
        .fetch_optional(&mut *transaction)
        .await?;
        if let Some(row) = found {
            let status: Option<u16> = row.try_get("status")?;
            let stands = match status {
                Some(_) => row.try_get::<i64, _>("begun")? > now - KEPT,
                None => row.try_get::<&str, _>("instance")? == self.store.instance(),
            };
            if stands {
                if row.try_get::<&str, _>("request_digest")? != request_digest {
                    return Ok(Begun::Mismatch);
                }
                let Some(status) = status else { return Ok(Begun::Running) };
                let headers = crate::page::optional_json(&row, "headers")?;
                let body = row.try_get::<Option<Vec<u8>>, _>("body")?.unwrap_or_default();
                return Ok(Begun::Done(Answer { status, headers, body }));
            }
            delete(&mut transaction, request).await?;
        }
        sqlx::query(
            "INSERT INTO answers (user_name, route, request_key, request_digest, instance, begun)
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(request.user)
        .bind(request.route)
        .bind(request.key)
        .bind(request_digest)
        .bind(self.store.instance())
        .bind(now)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(Begun::Fresh)
    }

    /// Only what this instance began and has not finished.
    pub async fn finish(&self, request: RequestKey<'_>, answer: &Answer) -> Result<(), StoreError> {
        let mut transaction = self.store.write().await?;
        let changed = sqlx::query(
            "UPDATE answers SET status = $1, headers = $2, body = $3
             WHERE user_name = $4 AND route = $5 AND request_key = $6 AND instance = $7 AND status IS NULL",
        )
        .bind(answer.status)
        .bind(answer.headers.as_ref().map(Value::to_string))
        .bind(answer.body.as_slice())
        .bind(request.user)
        .bind(request.route)
        .bind(request.key)
        .bind(self.store.instance())
        .execute(&mut *transaction)
        .await?;
        if changed.rows_affected() == 0 {
            return Err(StoreError::not_found("request under way with the key", request.key));
        }
        Ok(transaction.commit().await?)
    }

    /// It came to nothing: who asks again begins afresh.
    pub async fn abandon(&self, request: RequestKey<'_>) -> Result<(), StoreError> {
        let mut transaction = self.store.write().await?;
        sqlx::query(
            "DELETE FROM answers WHERE user_name = $1 AND route = $2 AND request_key = $3 AND instance = $4
                                   AND status IS NULL",
        )
        .bind(request.user)
        .bind(request.route)
        .bind(request.key)
        .bind(self.store.instance())
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// How many bytes of answers are kept for this user.
    pub async fn kept(&self, user: &str) -> Result<u64, StoreError> {
        let sum: Option<i64> =
            sqlx::query_scalar("SELECT SUM(LENGTH(body)) FROM answers WHERE user_name = $1")
                .bind(user)
                .fetch_one(self.store.readers())
                .await?;
        Ok(sum.unwrap_or(0).unsigned_abs())
    }

    /// Lets answers of this user go, the oldest first, until no more than so many bytes are kept; says how many are. That
    /// those requests were carried out, and with which status, stays known: their headers are `{"let_go":true}` then.
    pub async fn let_go(&self, user: &str, most: u64) -> Result<u64, StoreError> {
        let mut transaction = self.store.write().await?;
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT route, request_key, LENGTH(body) FROM answers
             WHERE user_name = $1 AND LENGTH(body) > 0 ORDER BY begun DESC",
        )
        .bind(user)
        .fetch_all(&mut *transaction)
        .await?;
        let mut kept = 0;
        for (route, key, bytes) in rows {
            let bytes = bytes.unsigned_abs();
            if kept + bytes <= most {
                kept += bytes;
                continue;
            }
            sqlx::query(
                "UPDATE answers SET headers = $1, body = NULL
                 WHERE user_name = $2 AND route = $3 AND request_key = $4",
            )
            .bind(serde_json::json!({ "let_go": true }).to_string())
            .bind(user)
            .bind(route)
            .bind(key)
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(kept)
    }

    /// Takes away what is older than a day, and what other instances did not finish; says how many.
    pub async fn purge(&self) -> Result<u64, StoreError> {
        let mut transaction = self.store.write().await?;
        let gone = sqlx::query(
            "DELETE FROM answers
             WHERE (status IS NOT NULL AND begun <= $1) OR (status IS NULL AND instance <> $2)",
        )
        .bind(self.store.now() - KEPT)
        .bind(self.store.instance())
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(gone.rows_affected())
    }
}

async fn delete(
    transaction: &mut sqlx::Transaction<'_, sqlx::Sqlite>,
    request: RequestKey<'_>,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM answers WHERE user_name = $1 AND route = $2 AND request_key = $3")
        .bind(request.user)
        .bind(request.route)
        .bind(request.key)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}
