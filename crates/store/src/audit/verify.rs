//! Whether the audit is whole: every row is what its digest says, follows the row before, and none is missing, neither
//! between two others nor, as far as the anchors know, at the end.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row, Sqlite, SqliteConnection};

use super::anchor::AuditHead;
use super::anchors::blocking;
use super::chain::{COLUMNS, GENESIS, StoredRow};
use super::{Anchor, Audit};
use crate::StoreError;

const BATCH: i64 = 1000;
/// One change can break many rows; the first ones say where.
const MOST_PROBLEMS: usize = 1000;
const TRIGGERS: [&str; 2] = ["audit_is_not_changed", "audit_is_not_deleted"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditVerdict {
    pub rows: u64,
    pub head: AuditHead,
    /// In the order of rows, at most a thousand; none means whole.
    pub problems: Vec<AuditProblem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditProblem {
    /// Zero for what is of no row.
    pub seq: i64,
    pub what: String,
}

impl AuditVerdict {
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Audit {
    /// Against the store's own anchors and these others. A chain that goes on beyond an anchor is whole: anchors follow.
    pub async fn verify(&self, others: &[PathBuf]) -> Result<AuditVerdict, StoreError> {
        let mut scan = Scan::default();
        // Anchors before rows: what an anchor speaks of was there before it.
        let beside = &self.anchor_paths()[0];
        for path in self.anchor_paths().iter().chain(others) {
            let looked_at = path.clone();
            match blocking(move || Anchor::read(&looked_at)).await {
                Ok(Some(anchor)) => scan.anchors.push((path.clone(), anchor)),
                Ok(None) if path == beside => scan.anchor_is_missing = true,
                Ok(None) => scan.problem(0, format!("the anchor {} is not there", path.display())),
                Err(error) => scan.problem(0, error.to_string()),
            }
        }
        let wanted = scan.anchors.iter().map(|(_, anchor)| (anchor.seq, None)).collect();
        scan.digests = wanted;
        let mut transaction = self.store.readers().begin().await?;
        scan.triggers(&mut transaction).await?;
        scan.rows(&mut transaction).await?;
        transaction.rollback().await?;
        Ok(scan.verdict())
    }
}

#[derive(Default)]
struct Scan {
    anchors: Vec<(PathBuf, Anchor)>,
    anchor_is_missing: bool,
    /// The stored digests of the rows that anchors speak of.
    digests: HashMap<i64, Option<String>>,
    rows: u64,
    /// The row before: its number, and its digest if that could be read.
    last: Option<(i64, Option<String>)>,
    problems: Vec<AuditProblem>,
}

impl Scan {
    fn problem(&mut self, seq: i64, what: impl Into<String>) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(AuditProblem { seq, what: what.into() });
        }
    }

    async fn triggers(&mut self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let found: Vec<(String, String)> = sqlx::query_as(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'",
        )
        .fetch_all(connection)
        .await?;
        for trigger in TRIGGERS {
            if !found.iter().any(|(name, sql)| name == trigger && sql.contains("RAISE(ABORT")) {
                self.problem(0, format!("the trigger {trigger}, which refuses changes, was taken away"));
            }
        }
        for (name, _) in &found {
            if !TRIGGERS.contains(&name.as_str()) {
                self.problem(0, format!("there is a trigger {name:?} on the audit that is not ours"));
            }
        }
        Ok(())
    }

    async fn rows(&mut self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let mut from = i64::MIN;
        loop {
            let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
            query.push(" WHERE seq >= ").push_bind(from).push(" ORDER BY seq LIMIT ").push_bind(BATCH);
            let batch: Vec<SqliteRow> = query.build().fetch_all(&mut *connection).await?;
            let Some(last) = batch.last() else { return Ok(()) };
            let next = last.try_get::<i64, _>("seq")?.checked_add(1);
            for row in &batch {
                self.row(row.try_get("seq")?, StoredRow::from_row(row));
            }
            let Some(next) = next else { return Ok(()) };
            from = next;
        }
    }

    fn row(&mut self, seq: i64, row: Result<StoredRow, sqlx::Error>) {
        self.rows += 1;
        let expected = self.last.as_ref().map_or(1, |(last, _)| last.saturating_add(1));
        let follows = seq == expected;
        if seq < 1 {
            self.problem(seq, "inserted: rows are counted from 1");
        } else if expected < 1 {
            // After rows that were inserted before the first one, the true ones may begin.
            if seq > 1 {
                self.problem(seq, format!("deleted: rows 1 to {} are missing before it", seq - 1));
            }
        } else if seq == expected + 1 {
            self.problem(seq, format!("deleted: row {expected} is missing before it"));
        } else if !follows {
            self.problem(seq, format!("deleted: rows {expected} to {} are missing before it", seq - 1));
        }
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                self.problem(seq, format!("edited: it can't be read: {error}"));
                self.last = Some((seq, None));
                return;
            }
        };
        if row.computed_digest() != row.digest {
            self.problem(seq, "edited: its content is not what its digest says");
        }
        let before = match &self.last {
            _ if seq == 1 => Some(GENESIS),
            Some((_, digest)) if follows => digest.as_deref(),
            _ => None,
        };
        if before.is_some_and(|before| before != row.previous) {
            self.problem(seq, "chain broken: the row before it is not the one that it was chained to");
        }
        if let Some(digest) = self.digests.get_mut(&seq) {
            *digest = Some(row.digest.clone());
        }
        self.last = Some((seq, Some(row.digest)));
    }

    fn verdict(mut self) -> AuditVerdict {
        let head = match &self.last {
            Some((seq, digest)) => AuditHead { seq: *seq, digest: digest.clone().unwrap_or_default() },
            None => AuditHead { seq: 0, digest: GENESIS.to_owned() },
        };
        if self.anchor_is_missing && self.rows > 0 {
            self.problem(0, "the anchor beside the database was taken away: the tail may be cut");
        }
        for (path, anchor) in std::mem::take(&mut self.anchors) {
            let path = path.display();
            let digest = match anchor.seq {
                0 => Some(GENESIS),
                seq => self.digests.get(&seq).and_then(Option::as_deref),
            };
            match digest {
                Some(digest) if digest == anchor.digest => {}
                Some(_) => self.problem(
                    anchor.seq,
                    format!("tail cut or rewritten: it is not the row that the anchor {path} speaks of"),
                ),
                None if anchor.seq > head.seq => self.problem(
                    anchor.seq,
                    format!(
                        "tail cut: the audit ends with row {}, and the anchor {path} knows {}",
                        head.seq, anchor.seq
                    ),
                ),
                None => {
                    self.problem(anchor.seq, format!("the row that the anchor {path} speaks of is missing"))
                }
            }
        }
        AuditVerdict { rows: self.rows, head, problems: self.problems }
    }
}
