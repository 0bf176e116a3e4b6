//! Reading the audit: page by page, or all of it as JSON lines.

use std::io::Write;
use std::path::Path;

use sqlx::{QueryBuilder, Sqlite};

use super::chain::COLUMNS;
use super::{Audit, AuditRow};
use crate::page::page_size;
use crate::{Store, StoreError};

/// Oldest first; `after_seq` is the number of the last row of the page before.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub user: Option<String>,
    pub kind: Option<String>,
    /// Not before this time.
    pub since: Option<i64>,
    /// Before this time.
    pub until: Option<i64>,
    pub after_seq: Option<i64>,
    pub limit: u32,
}

/// Some lines of an export.
#[derive(Debug, Clone)]
pub struct ExportPage {
    pub lines: Vec<u8>,
    pub rows: u64,
    /// The number to go on from.
    pub next: i64,
}

/// Rows that are read at once by what goes through all of them.
const BATCH: u32 = 500;

impl Audit {
    pub async fn query(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        rows(&self.store, filter).await
    }

    /// One line of JSON for each row from that number on, with its digest; says how many.
    pub async fn export(&self, writer: &mut (dyn Write + Send), from_seq: i64) -> Result<u64, StoreError> {
        let mut written = 0;
        let mut from = from_seq;
        loop {
            let page = self.export_page(from).await?;
            if page.rows == 0 {
                return Ok(written);
            }
            writer
                .write_all(&page.lines)
                .map_err(StoreError::file("can't write the", Path::new("export")))?;
            (from, written) = (page.next, written + page.rows);
        }
    }

    /// The first of those lines; none where there are no more rows.
    pub async fn export_page(&self, from_seq: i64) -> Result<ExportPage, StoreError> {
        let after_seq = Some(from_seq.saturating_sub(1));
        let filter = AuditFilter { after_seq, limit: BATCH, ..AuditFilter::default() };
        let batch = rows(&self.store, &filter).await?;
        let mut page = ExportPage { lines: Vec::new(), rows: 0, next: from_seq };
        for row in &batch {
            serde_json::to_writer(&mut page.lines, row).map_err(|error| StoreError::Corrupt {
                what: format!("row {} of the audit", row.seq),
                why: error.to_string(),
            })?;
            page.lines.push(b'\n');
            page.rows += 1;
            page.next = row.seq.saturating_add(1);
        }
        Ok(page)
    }
}

async fn rows(store: &Store, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
    let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
    query.push(" WHERE seq > ").push_bind(filter.after_seq.unwrap_or(0));
    if let Some(user) = &filter.user {
        query.push(" AND user_name = ").push_bind(user);
    }
    if let Some(kind) = &filter.kind {
        query.push(" AND kind = ").push_bind(kind);
    }
    if let Some(since) = filter.since {
        query.push(" AND at >= ").push_bind(since);
    }
    if let Some(until) = filter.until {
        query.push(" AND at < ").push_bind(until);
    }
    query.push(" ORDER BY seq LIMIT ").push_bind(page_size(filter.limit));
    Ok(query.build_query_as().fetch_all(store.readers()).await?)
}
