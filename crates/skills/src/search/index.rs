//! The index file: where it is, its tables, and making it anew.
//!
//! A damaged index is never deleted under those who have it open: the next one has a higher number in its name, and no
//! number comes back.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

/// Of the tables, the tokenizer and what is put in: another format is another file.
const FORMAT: u32 = 1;
const SUFFIX: &str = ".sqlite3";
/// The first indexing of a large library by another process is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("the search index: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Nothing is in it now; the next sync fills it.
    #[error("the search index was damaged and is made anew")]
    Damaged,
    #[error(transparent)]
    Library(#[from] crate::LibraryError),
}

impl SearchError {
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged => true,
            Self::Sqlite(error) => is_damage(error),
            _ => false,
        }
    }
}

/// An index over skills. Several processes may have the same one open.
#[derive(Debug)]
pub struct SearchIndex {
    directory: PathBuf,
    /// What the file's name begins with: one index for each library.
    prefix: String,
    number: u64,
    pub(super) connection: Connection,
}

impl SearchIndex {
    /// Open the index of `subject` (a library's path, say) in a cache directory, or make it.
    pub fn open(cache: &Path, subject: &str) -> Result<Self, SearchError> {
        let failed = |source| SearchError::Io { path: cache.display().to_string(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(cache).map_err(failed)?;
        // The file itself must not be a link; the way to it may have some.
        let cache = &fs::canonicalize(cache).map_err(failed)?;
        let prefix = format!("skills-{}-{FORMAT}-", &blake3::hash(subject.as_bytes()).to_hex()[..16]);
        let mut number = newest(cache, &prefix).map_err(failed)?.unwrap_or(1);
        let started = Instant::now();
        loop {
            match connect(&cache.join(format!("{prefix}{number}{SUFFIX}"))) {
                Ok(connection) => {
                    return Ok(Self { directory: cache.to_owned(), prefix, number, connection });
                }
                Err(error) if is_damage(&error) => {
                    number = replace(cache, &prefix, number).map_err(failed)?
                }
                // While another makes it, some steps say so at once, whatever patience they were given.
                Err(error) if is_busy(&error) && started.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Leave a damaged index behind, for an empty one.
    pub(super) fn make_anew(&mut self) -> Result<(), SearchError> {
        let failed = |source| SearchError::Io { path: self.directory.display().to_string(), source };
        let number = replace(&self.directory, &self.prefix, self.number).map_err(failed)?;
        self.connection = connect(&self.directory.join(format!("{}{number}{SUFFIX}", self.prefix)))?;
        self.number = number;
        Ok(())
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // A cache: what the machine loses when it crashes is made again.
    connection.execute_batch(
        "PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
    )?;
    connection.set_prepared_statement_cache_capacity(32);
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Deferred)?;
    let ready: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    drop(transaction);
    if ready != FORMAT {
        // Under the write lock there is one who makes the tables.
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let ready: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if ready != FORMAT {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
        }
        transaction.commit()?;
    }
    // A first look at each table: a file that is something else shows here.
    connection.query_row("SELECT count(*) FROM skill WHERE id < 0", [], |_| Ok(()))?;
    connection
        .query_row("SELECT count(*) FROM texts WHERE texts MATCH '\"a\"' AND rowid < 0", [], |_| Ok(()))?;
    Ok(connection)
}

/// Three tables of text, each with more in it than the one before: a common word is found in enough names, and only a
/// rare one is looked for in bodies. Ranking costs by the number of matches, and nearly every body has a common word.
///
/// `porter` finds *converting* for *convert*; `unicode61` knows case and accents of every script.
const TABLES: &str = r#"
CREATE TABLE skill (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    stamp TEXT NOT NULL,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    description TEXT NOT NULL
);
CREATE INDEX skill_folded ON skill (folded);
CREATE TABLE word (length INTEGER NOT NULL, word TEXT NOT NULL, letters INTEGER NOT NULL, PRIMARY KEY (length, word)) WITHOUT ROWID;
CREATE VIRTUAL TABLE names USING fts5 (
    name, tags, content = '', contentless_delete = 1,
    prefix = '2 3', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE heads USING fts5 (
    name, tags, description, content = '', contentless_delete = 1,
    prefix = '2 3', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE texts USING fts5 (
    name, tags, description, body, prefix = '2 3', tokenize = 'porter unicode61 remove_diacritics 2'
);
"#;

/// The number of the index after a damaged one. The first to come makes it; the damaged files go.
fn replace(directory: &Path, prefix: &str, damaged: u64) -> io::Result<u64> {
    let lock = File::options().create(true).append(true).open(directory.join(format!("{prefix}lock")))?;
    lock.lock()?;
    if let Some(number) = newest(directory, prefix)?.filter(|number| *number > damaged) {
        return Ok(number);
    }
    let next = damaged + 1;
    File::options().create(true).append(true).open(directory.join(format!("{prefix}{next}{SUFFIX}")))?;
    for suffix in ["", "-wal", "-shm"] {
        match fs::remove_file(directory.join(format!("{prefix}{damaged}{SUFFIX}{suffix}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(next)
}

fn newest(directory: &Path, prefix: &str) -> io::Result<Option<u64>> {
    let mut newest = None;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(SUFFIX)?.parse().ok());
        newest = newest.max(number);
    }
    Ok(newest)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
                // A table that is not there, or not what it was.
                || (failure.code == ErrorCode::Unknown
                    && message.as_ref().is_some_and(|text| text.contains("no such") || text.contains("already exists")))
        }
        rusqlite::Error::SqlInputError { msg, .. } => {
            msg.contains("no such") || msg.contains("already exists")
        }
        _ => false,
    }
}
