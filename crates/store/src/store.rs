//! The open database: one connection that writes, a few that read, the clock, and the keeper of the anchors.
//!
//! WAL with `synchronous=NORMAL`: a commit is in the operating system's hands when it returns, so that a `kill -9` loses
//! nothing. A power cut can lose the commits since the last checkpoint (never the consistency of the file), but none that
//! an anchor speaks of: the log is synced before an anchor is written.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Sqlite, Transaction};

use crate::audit::{Anchors, AuditHead};
use crate::files::lock_beside;
use crate::migrations::migrate;
use crate::{Clock, StoreError};

/// How long a process waits for another one that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);
const READERS: u32 = 4;

#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    pub clock: Clock,
    /// Anchors of the audit besides the one beside the database: on another disk, where who can change the database can't
    /// change them.
    pub anchors: Vec<PathBuf>,
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// One connection: writers of this process queue fairly here instead of polling for SQLite's lock.
    writer: SqlitePool,
    readers: SqlitePool,
    clock: Clock,
    instance: String,
    anchors: Anchors,
    /// Where the audit ended when this process last wrote to it.
    head: Mutex<Option<AuditHead>>,
}

impl Store {
    /// Makes the file (0600) where there is none, and brings its schema up to date.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, StoreOptions::default()).await
    }

    pub async fn open_with(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        // One at a time: SQLite does not wait for others where it turns a new file to WAL.
        let locked = path.to_owned();
        let opening = tokio::task::spawn_blocking(move || lock_beside(&locked));
        let _opening = opening.await.unwrap_or_else(|error| {
            Err(StoreError::file("no thread to lock", path)(io::Error::other(error)))
        })?;
        make_private(path)?;
        let connection = connect_options(path);
        let writer = pool(1).connect_with(connection.clone()).await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await?;
        if let Err(error) = migrate(&mut transaction, path).await {
            drop(transaction);
            writer.close().await;
            return Err(error);
        }
        transaction.commit().await?;
        let readers = pool(READERS).connect_lazy_with(connection.pragma("query_only", "ON"));
        let anchors = Anchors::new(path, options.anchors);
        let inner = Inner {
            path: path.to_owned(),
            writer,
            readers,
            clock: options.clock,
            instance: random_name()?,
            anchors,
            head: Mutex::default(),
        };
        let store = Self { inner: Arc::new(inner) };
        store.audit().begin_anchors().await?;
        Ok(store)
    }

    /// Waits for what is being written, brings the anchors up to date and lets go of the file.
    pub async fn close(self) {
        self.inner.anchors.settled().await;
        self.inner.readers.close().await;
        self.inner.writer.close().await;
    }

    /// Known to no other opening of this database: what an earlier one left half done is told by it.
    pub fn instance(&self) -> &str {
        &self.inner.instance
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(crate) fn now(&self) -> i64 {
        self.inner.clock.now()
    }

    pub(crate) fn anchors(&self) -> &Anchors {
        &self.inner.anchors
    }

    pub(crate) fn readers(&self) -> &SqlitePool {
        &self.inner.readers
    }

    /// The write lock from the start: what is read in it is still so when it is committed.
    pub(crate) async fn write(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.inner.writer.begin_with("BEGIN IMMEDIATE").await?)
    }

    /// For a statement that is a transaction by itself.
    pub(crate) async fn writer(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        Ok(self.inner.writer.acquire().await?)
    }

    /// May be out of date: others write too.
    pub(crate) fn guessed_head(&self) -> Option<AuditHead> {
        self.inner.head.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn guess_head(&self, head: AuditHead) {
        *self.inner.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
    }
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(60))
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

fn connect_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // Nothing in the file may call functions that only our own SQL should.
        .pragma("trusted_schema", "OFF")
        .disable_statement_logging()
}

/// By name and never through a descriptor once the file exists: closing one would let go of the locks that SQLite holds on
/// it in this process.
fn make_private(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(StoreError::file("can't make the database", path)(error)),
    }
    let open_to_others = fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if open_to_others.map_err(StoreError::file("can't look at the database", path))? {
        fs::set_permissions(path, Permissions::from_mode(0o600))
            .map_err(StoreError::file("can't close the database to others", path))?;
    }
    Ok(())
}

/// 128 random bits.
pub(crate) fn random_name() -> Result<String, StoreError> {
    let mut bytes = [0_u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| {
                StoreError::file("no random numbers from", Path::new("getrandom"))(errno.into())
            })?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
