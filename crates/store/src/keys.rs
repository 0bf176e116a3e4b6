//! API keys. A key is known by the hash of its secret; the secret is shown once, by whoever made it, and is never here.

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row, Sqlite};

use crate::makers::kept;
use crate::page::word;
use crate::{Maker, Role, Store, StoreError, User};

/// `last_used` is written at most this often for each key, so that reading stays reading.
const TOUCH_EVERY: i64 = 60_000;

const KEY_AND_USER: &str =
    "SELECT k.id, k.user_name, k.role, k.label, k.created, k.expires, k.last_used, k.revoked,
            u.role AS user_role, u.created AS user_created, u.disabled AS user_disabled
     FROM api_keys k JOIN users u ON u.name = k.user_name";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub id: String,
    pub user: String,
    /// What the key was made for. The user's role may have changed since: see `Role::shared_with`.
    pub role: Role,
    pub label: Option<String>,
    pub created: i64,
    pub expires: Option<i64>,
    pub last_used: Option<i64>,
    pub revoked: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct NewKey {
    pub id: String,
    pub user: String,
    pub role: Role,
    pub label: Option<String>,
    pub expires: Option<i64>,
    pub secret_hash: [u8; 32],
    /// None: it is made on the machine itself.
    pub maker: Option<Maker>,
}

impl Key {
    /// Is it worth writing down that it was used? A time in the future is from a clock that was wrong.
    pub fn is_touch_due(&self, now: i64) -> bool {
        self.last_used.is_none_or(|used| used <= now - TOUCH_EVERY || used > now)
    }
}

impl FromRow<'_, SqliteRow> for Key {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            user: row.try_get("user_name")?,
            role: word(row, "role")?,
            label: row.try_get("label")?,
            created: row.try_get("created")?,
            expires: row.try_get("expires")?,
            last_used: row.try_get("last_used")?,
            revoked: row.try_get("revoked")?,
        })
    }
}

impl Store {
    /// Refused if its role is more than its user's.
    pub async fn add_key(&self, new: NewKey) -> Result<Key, StoreError> {
        self.add_key_of(new, None).await
    }

    /// The same where a user has at most so many keys that are good.
    pub async fn add_key_of(&self, new: NewKey, most: Option<u64>) -> Result<Key, StoreError> {
        let mut transaction = self.write().await?;
        let owner: User = sqlx::query_as("SELECT name, role, created, disabled FROM users WHERE name = $1")
            .bind(&new.user)
            .fetch_optional(&mut *transaction)
            .await?
            .ok_or_else(|| StoreError::not_found("user", &new.user))?;
        if !owner.role.covers(new.role) {
            return Err(StoreError::Conflict {
                what: "key",
                name: new.id,
                wanted: "made",
                why: format!("{:?} is {}, and a key for {} would be more", owner.name, owner.role, new.role),
                next: "ask for a role that they have",
            });
        }
        if let Some(most) = most {
            let good: i64 = sqlx::query_scalar(
                "SELECT COUNT(*) FROM api_keys
                 WHERE user_name = $1 AND revoked IS NULL AND (expires IS NULL OR expires > $2)",
            )
            .bind(&owner.name)
            .bind(self.now())
            .fetch_one(&mut *transaction)
            .await?;
            if u64::try_from(good).unwrap_or(u64::MAX) >= most {
                return Err(StoreError::Quota { what: "keys that are good for one user", limit: most });
            }
        }
        let makers = kept(&mut transaction, new.maker.as_ref()).await?;
        let key = Key {
            id: new.id,
            user: new.user,
            role: new.role,
            label: new.label,
            created: self.now(),
            expires: new.expires,
            last_used: None,
            revoked: None,
        };
        sqlx::query(
            "INSERT INTO api_keys (id, user_name, role, label, secret_hash, created, expires, makers)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&key.id)
        .bind(&key.user)
        .bind(key.role.as_str())
        .bind(&key.label)
        .bind(hex(&new.secret_hash))
        .bind(key.created)
        .bind(key.expires)
        .bind(makers)
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::from)
        .map_err(|error| match error.is_unique_violation() {
            true => StoreError::Taken { what: "key", name: key.id.clone(), why: "there is such a key" },
            false => error,
        })?;
        transaction.commit().await?;
        Ok(key)
    }

    /// The key and its user as they are, expired, revoked or disabled ones too: the caller says why it refuses.
    pub async fn key_by_hash(&self, secret_hash: &[u8; 32]) -> Result<Option<(Key, User)>, StoreError> {
        let mut query = QueryBuilder::new(KEY_AND_USER);
        query.push(" WHERE k.secret_hash = ").push_bind(hex(secret_hash));
        self.key_and_user(query).await
    }

    /// The same, by its id.
    pub async fn key_by_id(&self, id: &str) -> Result<Option<(Key, User)>, StoreError> {
        let mut query = QueryBuilder::new(KEY_AND_USER);
        query.push(" WHERE k.id = ").push_bind(id);
        self.key_and_user(query).await
    }

    async fn key_and_user(&self, mut query: QueryBuilder<Sqlite>) -> Result<Option<(Key, User)>, StoreError> {
        let Some(row) = query.build().fetch_optional(self.readers()).await? else { return Ok(None) };
        let key = Key::from_row(&row)?;
        let user = User {
            name: key.user.clone(),
            role: word(&row, "user_role")?,
            created: row.try_get("user_created")?,
            disabled: row.try_get("user_disabled")?,
        };
        Ok(Some((key, user)))
    }

    /// Notes that a key was used; says whether it was worth writing down.
    pub async fn touch_key(&self, id: &str) -> Result<bool, StoreError> {
        let now = self.now();
        // A time in the future is from a clock that was wrong.
        let due = |used: Option<i64>| used.is_none_or(|used| used <= now - TOUCH_EVERY || used > now);
        let used: Option<i64> = sqlx::query_scalar("SELECT last_used FROM api_keys WHERE id = $1")
            .bind(id)
            .fetch_optional(self.readers())
            .await?
            .ok_or_else(|| StoreError::not_found("key", id))?;
        if !due(used) {
            return Ok(false);
        }
        let mut transaction = self.write().await?;
        let changed = sqlx::query(
            "UPDATE api_keys SET last_used = $1
             WHERE id = $2 AND (last_used IS NULL OR last_used <= $3 OR last_used > $1)",
        )
        .bind(now)
        .bind(id)
        .bind(now - TOUCH_EVERY)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(changed.rows_affected() > 0)
    }

    /// All keys, or those of one user, oldest first; revoked ones too.
    pub async fn keys(&self, user: Option<&str>) -> Result<Vec<Key>, StoreError> {
        let query = match user {
            Some(user) => sqlx::query_as(
                "SELECT id, user_name, role, label, created, expires, last_used, revoked FROM api_keys
                 WHERE user_name = $1 ORDER BY created, id",
            )
            .bind(user),
            None => sqlx::query_as(
                "SELECT id, user_name, role, label, created, expires, last_used, revoked FROM api_keys
                 ORDER BY created, id",
            ),
        };
        Ok(query.fetch_all(self.readers()).await?)
    }

    /// For good. A key that was revoked before stays revoked since then.
    pub async fn revoke_key(&self, id: &str) -> Result<(), StoreError> {
        let mut transaction = self.write().await?;
        let changed = sqlx::query("UPDATE api_keys SET revoked = COALESCE(revoked, $1) WHERE id = $2")
            .bind(self.now())
            .bind(id)
            .execute(&mut *transaction)
            .await?;
        if changed.rows_affected() == 0 {
            return Err(StoreError::not_found("key", id));
        }
        Ok(transaction.commit().await?)
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*bytes).to_hex().to_string()
}
