//! Keeping the anchors up to date, behind the appends and never ahead of what a power cut would leave.
//!
//! An anchor is only ever moved along the chain that it anchors: one that the database contradicts, or that has vanished,
//! stays as it is and is reported, however much is appended. Only `reset_anchors`, a person's decision, gets over that.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Row;
use tokio::sync::Notify;

use super::anchor::{AuditHead, sync_log};
use super::chain::GENESIS;
use super::{Anchor, Audit};
use crate::StoreError;

const NAME: &str = "audit.anchor";

#[derive(Debug)]
pub(crate) struct Anchors {
    database: PathBuf,
    /// The one beside the database comes first.
    paths: Vec<PathBuf>,
    progress: Mutex<Progress>,
    idle: Notify,
    /// Somebody waits for the anchors.
    hurry: Notify,
}

#[derive(Debug, Default)]
struct Progress {
    wanted: Option<AuditHead>,
    working: bool,
    trouble: Option<String>,
    /// When they were last written.
    written: Option<Instant>,
}

/// They are not written more often than this: each time the disk is waited for, and what is appended meanwhile shares one.
const APART: Duration = Duration::from_millis(50);

impl Anchors {
    pub(crate) fn new(database: &Path, others: Vec<PathBuf>) -> Self {
        let mut paths = vec![database.with_file_name(NAME)];
        paths.extend(others);
        Self {
            database: database.to_owned(),
            paths,
            progress: Mutex::default(),
            idle: Notify::new(),
            hurry: Notify::new(),
        }
    }

    /// Waits until the anchors have caught up, or can't.
    pub(crate) async fn settled(&self) {
        loop {
            let woken = self.idle.notified();
            if !self.progress().working {
                return;
            }
            self.hurry.notify_one();
            woken.await;
        }
    }

    /// Wait until it is time to write them again, or somebody waits for it.
    async fn pace(&self) {
        let next = self.progress().written.map(|written| written + APART);
        if let Some(next) = next {
            let _ = tokio::time::timeout_at(next.into(), self.hurry.notified()).await;
        }
        self.progress().written = Some(Instant::now());
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audit {
    /// The anchor beside the database first, then those of `StoreOptions`.
    pub fn anchor_paths(&self) -> &[PathBuf] {
        &self.store.anchors().paths
    }

    /// Why an anchor can't follow: it is gone, contradicts the database, or can't be written.
    pub fn anchor_trouble(&self) -> Option<String> {
        self.store.anchors().progress().trouble.clone()
    }

    /// Waits until the anchors have caught up with what was appended.
    pub async fn anchored(&self) {
        self.store.anchors().settled().await;
    }

    /// Where the chain ends.
    pub async fn head(&self) -> Result<AuditHead, StoreError> {
        let last = sqlx::query("SELECT seq, digest FROM audit ORDER BY seq DESC LIMIT 1")
            .fetch_optional(self.store.readers())
            .await?;
        Ok(match last {
            Some(row) => AuditHead { seq: row.try_get("seq")?, digest: row.try_get("digest")? },
            None => AuditHead { seq: 0, digest: GENESIS.to_owned() },
        })
    }

    /// Takes the database as it is for true, whatever the anchors say: after a person has looked into what `verify` found, or
    /// brought back an older copy. Append an entry that says so.
    pub async fn reset_anchors(&self) -> Result<AuditHead, StoreError> {
        self.anchored().await;
        let head = self.head().await?;
        let anchor = self.anchor_of(&head);
        let (database, paths) = (self.store.anchors().database.clone(), self.anchor_paths().to_vec());
        blocking(move || {
            sync_log(&database).map_err(StoreError::file("can't sync the log of", &database))?;
            paths.iter().try_for_each(|path| anchor.force(path))
        })
        .await?;
        self.store.anchors().progress().trouble = None;
        Ok(head)
    }

    /// Before anything is appended: an empty audit gets anchors that say so, so that a missing one always means something.
    pub(crate) async fn begin_anchors(&self) -> Result<(), StoreError> {
        let head = self.head().await?;
        let outcome = self.settle(&head).await;
        self.store.anchors().progress().trouble = match outcome {
            Ok(()) => None,
            Err(error @ (StoreError::Corrupt { .. } | StoreError::File { .. })) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// One task at a time; what is appended while it works is covered by its next round.
    pub(super) fn anchor_later(&self, head: AuditHead) {
        let mut progress = self.store.anchors().progress();
        if progress.wanted.as_ref().is_none_or(|wanted| wanted.seq < head.seq) {
            progress.wanted = Some(head);
        }
        if !progress.working {
            progress.working = true;
            tokio::spawn(Working { audit: self.clone(), finished: false }.work());
        }
    }

    async fn settle(&self, head: &AuditHead) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for (index, path) in self.anchor_paths().iter().enumerate() {
            let settled = self.settle_one(path, index == 0, head).await;
            outcome = outcome.and(settled);
        }
        outcome
    }

    async fn settle_one(&self, path: &Path, beside: bool, head: &AuditHead) -> Result<(), StoreError> {
        loop {
            // The head was read before the anchor, which is written before the first append and after each.
            let looked_at = path.to_owned();
            let found = blocking(move || Anchor::read(&looked_at)).await?;
            match &found {
                Some(anchor) => self.must_hold(path, anchor).await?,
                None if beside && head.seq > 0 => return Err(contradiction(path, "it is gone")),
                None => {}
            }
            if found.as_ref().is_some_and(|anchor| anchor.seq >= head.seq) {
                return Ok(());
            }
            let (anchor, path) = (self.anchor_of(head), path.to_owned());
            let database = self.store.anchors().database.clone();
            let replaced = blocking(move || {
                sync_log(&database).map_err(StoreError::file("can't sync the log of", &database))?;
                anchor.replace(&path, found.as_ref())
            });
            if replaced.await? {
                return Ok(());
            }
        }
    }

    async fn must_hold(&self, path: &Path, anchor: &Anchor) -> Result<(), StoreError> {
        let digest: Option<String> = match anchor.seq {
            0 => Some(GENESIS.to_owned()),
            seq => {
                sqlx::query_scalar("SELECT digest FROM audit WHERE seq = $1")
                    .bind(seq)
                    .fetch_optional(self.store.readers())
                    .await?
            }
        };
        match digest {
            Some(digest) if digest == anchor.digest => Ok(()),
            Some(_) => Err(contradiction(path, &format!("row {} is not the one it was", anchor.seq))),
            None => Err(contradiction(path, &format!("row {} is not there any more", anchor.seq))),
        }
    }

    fn anchor_of(&self, head: &AuditHead) -> Anchor {
        Anchor { seq: head.seq, digest: head.digest.clone(), at: self.store.now() }
    }
}

/// The task that writes anchors. However it ends, whoever waits for it is told.
struct Working {
    audit: Audit,
    finished: bool,
}

impl Working {
    async fn work(mut self) {
        while let Some(head) = self.next().await {
            let trouble = self.audit.settle(&head).await.err().map(|error| error.to_string());
            self.audit.store.anchors().progress().trouble = trouble;
        }
    }

    /// With nothing left to do, the next append starts another task.
    async fn next(&mut self) -> Option<AuditHead> {
        let anchors = self.audit.store.anchors();
        if anchors.progress().wanted.is_some() {
            anchors.pace().await;
        }
        let mut progress = anchors.progress();
        let wanted = progress.wanted.take();
        progress.working = wanted.is_some();
        self.finished = wanted.is_none();
        wanted
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let anchors = self.audit.store.anchors();
        if !self.finished {
            anchors.progress().working = false;
        }
        anchors.idle.notify_waiters();
    }
}

fn contradiction(path: &Path, why: &str) -> StoreError {
    StoreError::Corrupt {
        what: format!("the audit, as the anchor {} says,", path.display()),
        why: why.into(),
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(StoreError::file("no thread for", Path::new(NAME))(std::io::Error::other(error))),
    }
}
