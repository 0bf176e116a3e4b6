//! Ports of sandboxes that their owners show through the server.

use crate::{Store, StoreError};

/// What one sandbox may show at a time.
const MOST: i64 = 32;

impl Store {
    /// Says whether it was not shown before.
    pub async fn add_port(&self, sandbox: &str, port: u16) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        let shown: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM ports WHERE sandbox_id = $1 AND port <> $2")
                .bind(sandbox)
                .bind(i64::from(port))
                .fetch_one(&mut *transaction)
                .await?;
        if shown >= MOST {
            return Err(StoreError::Quota { what: "ports of one sandbox", limit: MOST as u64 });
        }
        let added = sqlx::query(
            "INSERT INTO ports (sandbox_id, port, created) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        )
        .bind(sandbox)
        .bind(i64::from(port))
        .bind(self.now())
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::from)
        .map_err(|error| match error.is_missing_reference() {
            true => StoreError::not_found("sandbox", sandbox),
            false => error,
        })?;
        transaction.commit().await?;
        Ok(added.rows_affected() > 0)
    }

    /// In their order.
    pub async fn ports(&self, sandbox: &str) -> Result<Vec<u16>, StoreError> {
        let ports: Vec<i64> =
            sqlx::query_scalar("SELECT port FROM ports WHERE sandbox_id = $1 ORDER BY port")
                .bind(sandbox)
                .fetch_all(self.readers())
                .await?;
        Ok(ports.into_iter().filter_map(|port| u16::try_from(port).ok()).collect())
    }

    /// Says whether it was shown.
    pub async fn remove_port(&self, sandbox: &str, port: u16) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        let removed = sqlx::query("DELETE FROM ports WHERE sandbox_id = $1 AND port = $2")
            .bind(sandbox)
            .bind(i64::from(port))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(removed.rows_affected() > 0)
    }
}
