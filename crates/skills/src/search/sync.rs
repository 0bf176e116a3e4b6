//! Bringing the index up to date: only what changed is read.

use std::collections::BTreeSet;

use rusqlite::{Transaction, TransactionBehavior, params};
use serde::Serialize;

use crate::library::Unreadable;

use super::index::{SearchError, SearchIndex};
use super::text::SkillText;
use super::words::{fold, fold_name, humps, is_unspaced, letters, prepare, words};

const MOST_NAME: usize = 512;
const MOST_DESCRIPTION: usize = 8 << 10;
/// What a body says beyond is not searched.
const MOST_BODY: usize = 32 << 10;
const MOST_WORD: usize = 32;
const MANY: usize = 1000;

/// How many skills were brought up to date.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Synced {
    pub written: usize,
    pub removed: usize,
    /// What of a library could not be looked at.
    pub unreadable: Vec<Unreadable>,
}

/// One skill's part in a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its text is read again.
    Write {
        key: String,
        stamp: String,
    },
    /// Its text is the same; only the stamp is another.
    Restamp {
        key: String,
        stamp: String,
    },
    Remove {
        key: String,
    },
}

impl SearchIndex {
    /// Make the index hold exactly these: a key for each skill, and a stamp that changes when the skill does. `read` is
    /// asked only for those whose stamp is new; one that it can't read is not indexed.
    pub fn sync(
        &mut self,
        present: &[(String, String)],
        read: impl FnMut(&str) -> Option<SkillText>,
    ) -> Result<Synced, SearchError> {
        let mut known: std::collections::BTreeMap<_, _> = self.stamps()?.into_iter().collect();
        let mut steps = Vec::new();
        for (key, stamp) in present {
            if known.remove(key).as_ref() != Some(stamp) {
                steps.push(Step::Write { key: key.clone(), stamp: stamp.clone() });
            }
        }
        steps.extend(known.into_keys().map(|key| Step::Remove { key }));
        self.carry_out(&steps, read)
    }

    pub(super) fn stamps(&self) -> Result<Vec<(String, String)>, SearchError> {
        let mut statement = self.connection.prepare_cached("SELECT key, stamp FROM skill")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// All or nothing. Two processes that do the same at once come to the same.
    pub(super) fn carry_out(
        &mut self,
        steps: &[Step],
        mut read: impl FnMut(&str) -> Option<SkillText>,
    ) -> Result<Synced, SearchError> {
        let mut synced = Synced::default();
        if steps.is_empty() {
            return Ok(synced);
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut seen = BTreeSet::new();
        for step in steps {
            match step {
                Step::Write { key, stamp } => match read(key) {
                    Some(text) => {
                        remove(&transaction, key)?;
                        write(&transaction, key, stamp, &text, &mut seen)?;
                        synced.written += 1;
                    }
                    None => synced.removed += remove(&transaction, key)?,
                },
                Step::Restamp { key, stamp } => {
                    transaction
                        .prepare_cached("UPDATE skill SET stamp = ?2 WHERE key = ?1")?
                        .execute(params![key, stamp])?;
                }
                Step::Remove { key } => synced.removed += remove(&transaction, key)?,
            }
        }
        if steps.len() > MANY {
            // Many small pieces become one, which is faster to ask.
            for table in ["names", "heads", "texts"] {
                transaction.execute(&format!("INSERT INTO {table} ({table}) VALUES ('optimize')"), [])?;
            }
        }
        transaction.commit()?;
        if steps.len() > MANY {
            // The log is as large as what was written. Others who read may keep it; then it stays for a while.
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        Ok(synced)
    }
}

fn remove(transaction: &Transaction<'_>, key: &str) -> rusqlite::Result<usize> {
    let mut delete = transaction.prepare_cached("DELETE FROM skill WHERE key = ?1 RETURNING id")?;
    let ids: Vec<i64> = delete.query_map([key], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for id in &ids {
        for table in ["names", "heads", "texts"] {
            transaction.prepare_cached(&format!("DELETE FROM {table} WHERE rowid = ?1"))?.execute([id])?;
        }
    }
    Ok(ids.len())
}

fn write(
    transaction: &Transaction<'_>,
    key: &str,
    stamp: &str,
    text: &SkillText,
    seen: &mut BTreeSet<String>,
) -> rusqlite::Result<()> {
    let name = prepare(&text.name, MOST_NAME);
    let description = prepare(&text.description, MOST_DESCRIPTION);
    let tags = prepare(&text.tags.join(", "), MOST_DESCRIPTION);
    transaction
        .prepare_cached(
            "INSERT INTO skill (key, stamp, name, folded, description) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, stamp, name, fold_name(&name), description])?;
    let id = transaction.last_insert_rowid();
    let searched = match humps(&name) {
        Some(apart) => format!("{name} {apart}"),
        None => name,
    };
    transaction
        .prepare_cached("INSERT INTO names (rowid, name, tags) VALUES (?1, ?2, ?3)")?
        .execute(params![id, searched, tags])?;
    transaction
        .prepare_cached("INSERT INTO heads (rowid, name, tags, description) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, searched, tags, description])?;
    transaction
        .prepare_cached(
            "INSERT INTO texts (rowid, name, tags, description, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![id, searched, tags, description, prepare(&text.body, MOST_BODY)])?;
    let mut insert = transaction
        .prepare_cached("INSERT OR IGNORE INTO word (length, word, letters) VALUES (?1, ?2, ?3)")?;
    for word in [&searched, &tags, &description].into_iter().flat_map(|text| words(text)) {
        let word = fold(&word);
        let length = word.chars().count();
        if (3..=MOST_WORD).contains(&length) && !word.contains(is_unspaced) && !seen.contains(&word) {
            insert.execute(params![length as i64, word, letters(&word)])?;
            seen.insert(word);
        }
    }
    Ok(())
}
