//! Who made whom. It is written down when a user or a key is made, with the makers of the maker, and never changed: also
//! when one of them is removed it is known whose hand is behind a decision.

use std::collections::BTreeSet;

use sqlx::{Sqlite, Transaction};

use crate::{Store, StoreError};

/// Who makes a user or a key: somebody who came to a server with a key of their own, or of somebody else's making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maker {
    pub user: String,
    /// The id of the key that they use, if it is one of ours.
    pub key: Option<String>,
}

impl Store {
    /// Whether this one, or the key that they use, is there by the doing of `maker`.
    pub async fn is_made_by(&self, who: &Maker, maker: &str) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        Ok(makers_of(&mut transaction, who).await?.contains(maker))
    }
}

/// As it is kept of what `maker` makes.
pub(crate) async fn kept(
    transaction: &mut Transaction<'_, Sqlite>,
    maker: Option<&Maker>,
) -> Result<String, StoreError> {
    let Some(maker) = maker else { return Ok("[]".to_owned()) };
    let mut all = makers_of(transaction, maker).await?;
    all.insert(maker.user.clone());
    Ok(serde_json::json!(all).to_string())
}

async fn makers_of(
    transaction: &mut Transaction<'_, Sqlite>,
    who: &Maker,
) -> Result<BTreeSet<String>, StoreError> {
    let of_user: Option<String> = sqlx::query_scalar("SELECT makers FROM users WHERE name = $1")
        .bind(&who.user)
        .fetch_optional(&mut **transaction)
        .await?;
    let of_key: Option<String> = sqlx::query_scalar("SELECT makers FROM api_keys WHERE id = $1")
        .bind(&who.key)
        .fetch_optional(&mut **transaction)
        .await?;
    let mut all = BTreeSet::new();
    for text in of_user.into_iter().chain(of_key) {
        let some: Vec<String> = serde_json::from_str(&text).map_err(|error| StoreError::Corrupt {
            what: format!("the makers of {}", who.user),
            why: error.to_string(),
        })?;
        all.extend(some);
    }
    Ok(all)
}
