//! Adding to the chain: the last row is read and the next ones are written under one write lock, so that however many
//! write at the same time, there is one chain without a gap.

use sqlx::{Row, Sqlite, Transaction};

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
        let pending = entries.into_iter().map(|entry| (redactor.entry(entry), None)).collect();
        let mut transaction = self.store.write().await?;
        let rows = append_in(&mut transaction, pending).await?;
        transaction.commit().await?;
        self.anchor_after(&rows);
        Ok(rows)
    }

    pub(super) fn anchor_after(&self, rows: &[AuditRow]) {
        if let Some(last) = rows.last() {
            self.anchor_later(AuditHead { seq: last.seq, digest: last.digest.clone() });
        }
    }
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
        insert(transaction, &stored).await?;
        head = AuditHead { seq, digest: stored.digest.clone() };
        rows.push(AuditRow {
            seq,
            previous: stored.previous,
            digest: stored.digest,
            entry,
            spool_id: stored.spool_id,
        });
    }
    Ok(rows)
}

async fn insert(transaction: &mut Transaction<'_, Sqlite>, row: &StoredRow) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO audit (seq, previous, digest, at, user_name, kind, target, decision, policy_digest, receipt_digest,
                            denials, result, request_id, origin, spool_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    )
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
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
