//! The schema, step by step. A step that was released is never changed: its checksum is in every database.

use std::path::Path;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{SqlSafeStr, Sqlite, Transaction};

use crate::StoreError;

const STEPS: &[(i64, &str, &str)] = &[
    (1, "first", include_str!("../migrations/0001_first.sql")),
    (2, "decisions and answers", include_str!("../migrations/0002_decisions_and_answers.sql")),
    (3, "requests and ports", include_str!("../migrations/0003_requests_and_ports.sql")),
    (4, "what is enforced", include_str!("../migrations/0004_enforced.sql")),
    (5, "who made whom", include_str!("../migrations/0005_makers.sql")),
];

/// All steps that are missing, in the one transaction that the caller holds the write lock with: of two processes that
/// open a new file at the same time, the second finds the work done, and one that is killed has done nothing.
pub(crate) async fn migrate(
    transaction: &mut Transaction<'_, Sqlite>,
    path: &Path,
) -> Result<(), StoreError> {
    let known = STEPS.last().map_or(0, |(version, ..)| *version);
    if let Some(found) = newest_applied(transaction).await?.filter(|found| *found > known) {
        return Err(StoreError::TooNew { path: path.to_owned(), found, known });
    }
    let steps = STEPS.iter().map(|(version, description, sql)| {
        Migration::new(*version, (*description).into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let migrator = Migrator::with_migrations(steps.collect());
    migrator.run_direct(None, &mut **transaction, false).await.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        other => StoreError::Corrupt { what: path.display().to_string(), why: other.to_string() },
    })
}

async fn newest_applied(transaction: &mut Transaction<'_, Sqlite>) -> Result<Option<i64>, StoreError> {
    let table: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'")
            .fetch_optional(&mut **transaction)
            .await?;
    if table.is_none() {
        return Ok(None);
    }
    Ok(sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(&mut **transaction).await?)
}
