//! The chain: what a row's digest is of.
//!
//! Everything is hashed as it is stored, text for text, so that no change of a stored byte goes unseen. Fields are in a fixed
//! order, each with a mark of presence and its length before it: two different rows have two different encodings.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use super::{AuditEntry, AuditRow};
use crate::page::json;

/// What the first row is chained to.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const DOMAIN: &[u8] = b"ringfence audit row\0";
const VERSION: u8 = 1;

/// A row with its JSON as the text that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredRow {
    pub(super) seq: i64,
    pub(super) previous: String,
    pub(super) digest: String,
    pub(super) at: i64,
    pub(super) user: String,
    pub(super) kind: String,
    pub(super) target: Option<String>,
    pub(super) decision: Option<String>,
    pub(super) policy_digest: Option<String>,
    pub(super) receipt_digest: Option<String>,
    pub(super) denials: String,
    pub(super) result: String,
    pub(super) request_id: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) spool_id: Option<String>,
}

pub(super) const COLUMNS: &str = "SELECT seq, previous, digest, at, user_name, kind, target, decision, policy_digest, \
     receipt_digest, denials, result, request_id, origin, spool_id FROM audit";

impl StoredRow {
    pub(super) fn new(seq: i64, previous: String, entry: &AuditEntry, spool_id: Option<String>) -> Self {
        let mut row = Self {
            seq,
            previous,
            digest: String::new(),
            at: entry.at,
            user: entry.user.clone(),
            kind: entry.kind.clone(),
            target: entry.target.clone(),
            decision: entry.decision.clone(),
            policy_digest: entry.policy_digest.clone(),
            receipt_digest: entry.receipt_digest.clone(),
            denials: entry.denials.to_string(),
            result: entry.result.to_string(),
            request_id: entry.request_id.clone(),
            origin: entry.origin.clone(),
            spool_id,
        };
        row.digest = row.computed_digest();
        row
    }

    /// What the digest should be.
    pub(super) fn computed_digest(&self) -> String {
        blake3::hash(&self.encoded()).to_hex().to_string()
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(DOMAIN);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.seq.to_be_bytes());
        bytes.extend_from_slice(&self.at.to_be_bytes());
        for field in [
            Some(&self.previous),
            Some(&self.user),
            Some(&self.kind),
            self.target.as_ref(),
            self.decision.as_ref(),
            self.policy_digest.as_ref(),
            self.receipt_digest.as_ref(),
            Some(&self.denials),
            Some(&self.result),
            self.request_id.as_ref(),
            self.origin.as_ref(),
            self.spool_id.as_ref(),
        ] {
            match field {
                None => bytes.push(0),
                Some(text) => {
                    bytes.push(1);
                    bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
                    bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
        bytes
    }
}

impl FromRow<'_, SqliteRow> for StoredRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            seq: row.try_get("seq")?,
            previous: row.try_get("previous")?,
            digest: row.try_get("digest")?,
            at: row.try_get("at")?,
            user: row.try_get("user_name")?,
            kind: row.try_get("kind")?,
            target: row.try_get("target")?,
            decision: row.try_get("decision")?,
            policy_digest: row.try_get("policy_digest")?,
            receipt_digest: row.try_get("receipt_digest")?,
            denials: row.try_get("denials")?,
            result: row.try_get("result")?,
            request_id: row.try_get("request_id")?,
            origin: row.try_get("origin")?,
            spool_id: row.try_get("spool_id")?,
        })
    }
}

impl FromRow<'_, SqliteRow> for AuditRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let (denials, result) = (json(row, "denials")?, json(row, "result")?);
        let stored = StoredRow::from_row(row)?;
        Ok(Self {
            seq: stored.seq,
            previous: stored.previous,
            digest: stored.digest,
            entry: AuditEntry {
                at: stored.at,
                user: stored.user,
                kind: stored.kind,
                target: stored.target,
                decision: stored.decision,
                policy_digest: stored.policy_digest,
                receipt_digest: stored.receipt_digest,
                denials,
                result,
                request_id: stored.request_id,
                origin: stored.origin,
            },
            spool_id: stored.spool_id,
        })
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
