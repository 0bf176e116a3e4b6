//! Adding to the chain: the last row is read and the next ones are written under one write lock, so that however many
//! write at the same time, there is one chain without a gap. A single row goes in one statement, on the guess that nobody
//! else has written since: the statement itself looks.

use sqlx::{Connection, Row, Sqlite, SqliteConnection, Transaction};

use super::anchor::AuditHead;
use super::chain::{GENESIS, StoredRow};
use super::redact::Redactor;
use super::{Audit, AuditEntry, AuditRow};
use crate::StoreError;

/// An entry, and what it is known by in the spool.
pub(super) type Pending = (AuditEntry, Option<String>);

impl Audit {
    /// All of them or none, in this order. The anchors follow a moment later.
    pub async fn append(&self, entries: Vec<AuditEntry>) -> Result<Vec<AuditRow>, StoreError> {
        self.append_redacted(entries, &[]).await
    }

    /// The same, with these secrets taken out of every field, as they are and in the usual encodings.
    pub async fn append_redacted(
        &self,
        entries: Vec<AuditEntry>,
        secrets: &[&str],
    ) -> Result<Vec<AuditRow>, StoreError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let redactor = Redactor::new(secrets);
        let mut pending: Vec<Pending> =
            entries.into_iter().map(|entry| (redactor.entry(entry), None)).collect();
        // From here on nobody else of this process writes.
        let mut writer = self.store.writer().await?;
        if let [_] = &pending[..]
            && let Some(head) = self.store.guessed_head()
            && let Some(only) = pending.pop()
        {
            match append_to(&mut writer, head, only).await? {
                Ok(row) => {
                    let rows = vec![row];
                    self.anchor_after(&rows);
                    return Ok(rows);
                }
                Err(only) => pending.push(only),
            }
        }
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await?;
        let rows = append_in(&mut transaction, pending).await?;
        transaction.commit().await?;
        self.anchor_after(&rows);
        Ok(rows)
    }

    pub(super) fn anchor_after(&self, rows: &[AuditRow]) {
        if let Some(last) = rows.last() {
            let head = AuditHead { seq: last.seq, digest: last.digest.clone() };
            self.store.guess_head(head.clone());
            self.anchor_later(head);
        }
    }
}

/// One row after the head that this process wrote last, in one statement: between four, each waits for a thread to wake up.
/// Where the chain has another head by now, nothing is written and the entry comes back.
async fn append_to(
    writer: &mut SqliteConnection,
    head: AuditHead,
    (entry, spool_id): Pending,
) -> Result<Result<AuditRow, Pending>, StoreError> {
    let Some(seq) = head.seq.checked_add(1) else { return Ok(Err((entry, spool_id))) };
    let row = StoredRow::new(seq, head.digest, &entry, spool_id);
    let written = insert(writer, &row, INSERT_AFTER).await?;
    Ok(match written {
        0 => Err((entry, row.spool_id)),
        _ => Ok(told(row, entry)),
    })
}

fn told(row: StoredRow, entry: AuditEntry) -> AuditRow {
    AuditRow { seq: row.seq, previous: row.previous, digest: row.digest, entry, spool_id: row.spool_id }
}

pub(super) async fn append_in(
    transaction: &mut Transaction<'_, Sqlite>,
    pending: Vec<Pending>,
) -> Result<Vec<AuditRow>, StoreError> {
    let last = sqlx::query("SELECT seq, digest FROM audit ORDER BY seq DESC LIMIT 1")
        .fetch_optional(&mut **transaction)
        .await?;
    let mut head = match last {
        Some(row) => AuditHead { seq: row.try_get("seq")?, digest: row.try_get("digest")? },
        None => AuditHead { seq: 0, digest: GENESIS.to_owned() },
    };
    let mut rows = Vec::with_capacity(pending.len());
    for (entry, spool_id) in pending {
        let seq = head.seq.checked_add(1).ok_or_else(|| StoreError::Corrupt {
            what: "the audit".into(),
            why: "its last number is the largest there is, which nobody came to by counting".into(),
        })?;
        let stored = StoredRow::new(seq, head.digest, &entry, spool_id);
        insert(transaction, &stored, INSERT).await?;
        head = AuditHead { seq, digest: stored.digest.clone() };
        rows.push(told(stored, entry));
    }
    Ok(rows)
}

macro_rules! inserted {
    ($rest:literal) => {
        concat!(
            "INSERT INTO audit (seq, previous, digest, at, user_name, kind, target, decision, policy_digest, \
             receipt_digest, denials, result, request_id, origin, spool_id) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15",
            $rest
        )
    };
}

const INSERT: &str = inserted!("");
const INSERT_AFTER: &str = inserted!(" WHERE (SELECT digest FROM audit ORDER BY seq DESC LIMIT 1) = $2");

/// How many were written: none where a condition of the statement does not hold.
async fn insert(
    writer: &mut SqliteConnection,
    row: &StoredRow,
    statement: &'static str,
) -> Result<u64, StoreError> {
    let written = sqlx::query(statement)
        .bind(row.seq)
        .bind(&row.previous)
        .bind(&row.digest)
        .bind(row.at)
        .bind(&row.user)
        .bind(&row.kind)
        .bind(&row.target)
        .bind(&row.decision)
        .bind(&row.policy_digest)
        .bind(&row.receipt_digest)
        .bind(&row.denials)
        .bind(&row.result)
        .bind(&row.request_id)
        .bind(&row.origin)
        .bind(&row.spool_id)
        .execute(writer)
        .await?;
    Ok(written.rows_affected())
}
