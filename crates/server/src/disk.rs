//! What a user holds on the server's disk, what all do, and the bounds of both.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_sandbox::BEYOND_QUOTA;
use ringfence_service::tenant_usage;
use ringfence_store::{Role, SandboxFilter, SandboxState};
use serde_json::Value;

use crate::app::App;
use crate::blocking;
use crate::error::{Answer, ApiError};

/// Entries cost too: a disk has only so many.
const MOST_FILES: u64 = 1_000_000;
/// Starting a command does not count every file again.
const FRESH: Duration = Duration::from_secs(3);

/// What users held when that was last looked at.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    each: Mutex<HashMap<String, (Instant, Held)>>,
    /// All together.
    all: Mutex<Option<Together>>,
    /// Of those who want to know, one counts.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug)]
struct Together {
    at: Instant,
    /// Counting took so long.
    took: Duration,
    bytes: u64,
}

impl Together {
    /// Counting takes no more than a tenth of the time.
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH.max(self.took * 10)
    }
}

impl Measured {
    fn fresh(&self, user: &str) -> Option<Held> {
        let all = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(user).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, held)| *held)
    }

    fn keep(&self, user: &str, held: Held) {
        let mut all = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (at, _)| at.elapsed() < FRESH);
        all.insert(user.to_owned(), (Instant::now(), held));
    }

    /// A command has ended: if it was for want of room, what was measured before it is no longer so.
    pub(crate) fn ended(&self, user: &str, denials: &Value) {
        if denials.as_array().into_iter().flatten().any(|denial| denial["what"] == BEYOND_QUOTA) {
            self.each.lock().unwrap_or_else(PoisonError::into_inner).remove(user);
            *self.together() = None;
        }
    }

    /// The server itself writes so much for them.
    pub(crate) fn add(&self, user: &str, bytes: u64) {
        let mut all = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, held)) = all.get_mut(user) {
            held.bytes = held.bytes.saturating_add(bytes);
        }
        if let Some(together) = self.together().as_mut() {
            together.bytes = together.bytes.saturating_add(bytes);
        }
    }

    fn together(&self) -> MutexGuard<'_, Option<Together>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What somebody holds, and may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) limit: u64,
}

impl Held {
    /// Bytes that are left, or what to do about it.
    fn left(self) -> Answer<u64> {
        let beyond = |what: String| {
            let mut error = ApiError::too_many(
                format!("your workspaces, snapshots and sandboxes hold {what}, and that is your quota"),
                "remove files, snapshots, sandboxes or workspaces that you no longer need",
                5,
            );
            error.code = "quota".into();
            error
        };
        match self.limit.checked_sub(self.bytes) {
            None | Some(0) => Err(beyond(format!("{} of {} MiB", self.bytes >> 20, self.limit >> 20))),
            Some(_) if self.files >= MOST_FILES => Err(beyond(format!("{} files", self.files))),
            Some(left) => Ok(left),
        }
    }
}

impl App {
    /// What a user holds now.
    pub(crate) async fn held(&self, user: &str) -> Answer<Held> {
        let sandboxes = self.living(user).await?;
        let (places, name) = (self.places.clone(), user.to_owned());
        let (bytes, files) = blocking(move || Ok(tenant_usage(&places, &name, &sandboxes))).await?;
        // The user's own role, not that of the key in use: another of their keys may have filled the disk.
        let role = self.store.user(user).await?.map_or(Role::Operator, |user| user.role);
        let limit = self.config.role(role).quotas.disk.bytes();
        let held = Held { bytes, files, limit };
        self.disk.keep(user, held);
        Ok(held)
    }

    /// Whether a user may begin something that writes, and how much they may hold meanwhile at most: what runs is watched by
    /// whoever owns its sandbox.
    pub(crate) async fn may_write(&self, user: &str) -> Answer<u64> {
        let held = match self.disk.fresh(user) {
            Some(held) => held,
            None => self.held(user).await?,
        };
        Ok(held.bytes.saturating_add(self.left(held).await?))
    }

    /// Whether a user may write more, and how much.
    pub(crate) async fn room(&self, user: &str) -> Answer<u64> {
        let held = self.held(user).await?;
        self.left(held).await
    }

    /// Of the user's own quota, and of the server's.
    async fn left(&self, held: Held) -> Answer<u64> {
        let left = held.left()?;
        let Some(most) = self.config.server.disk.map(|most| most.bytes()) else { return Ok(left) };
        let bytes = self.held_by_all().await?;
        match most.checked_sub(bytes) {
            None | Some(0) => {
                let mut error = ApiError::too_many(
                    format!(
                        "what all users of this server hold is {} of {} MiB, and that is the server's quota",
                        bytes >> 20,
                        most >> 20
                    ),
                    "wait until somebody has removed something, remove what you no longer need, or ask an admin",
                    30,
                );
                error.code = "quota".into();
                Err(error)
            }
            Some(of_all) => Ok(left.min(of_all)),
        }
    }

    /// What all users hold together. Counting takes its time where there is much: then it is done more seldom.
    async fn held_by_all(&self) -> Answer<u64> {
        let fresh = || self.disk.together().filter(Together::is_fresh).map(|together| together.bytes);
        if let Some(bytes) = fresh() {
            return Ok(bytes);
        }
        let _counting = self.disk.counting.lock().await;
        if let Some(bytes) = fresh() {
            return Ok(bytes);
        }
        let begun = Instant::now();
        let mut all = Vec::new();
        for user in self.store.users().await? {
            let sandboxes = self.living(&user.name).await?;
            all.push((user.name, sandboxes));
        }
        let places = self.places.clone();
        let bytes = blocking(move || {
            Ok(all.iter().map(|(user, sandboxes)| tenant_usage(&places, user, sandboxes).0).sum())
        })
        .await?;
        let at = Instant::now();
        *self.disk.together() = Some(Together { at, took: at.duration_since(begun), bytes });
        Ok(bytes)
    }

    /// The ids of a user's living sandboxes, and of those that have ended and keep their files.
    async fn living(&self, user: &str) -> Answer<Vec<String>> {
        let filter = SandboxFilter {
            user: Some(user.to_owned()),
            state: Some(SandboxState::Alive),
            after: None,
            limit: 1000,
        };
        let mut ids = self.endings.kept_of(user);
        ids.extend(self.store.sandboxes(&filter).await?.into_iter().map(|row| row.id));
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_quota_nothing_is_left() {
        let held = |bytes, files| Held { bytes, files, limit: 100 };
        assert_eq!(held(40, 1).left().unwrap(), 60);
        for full in [held(100, 1), held(101, 1), held(0, MOST_FILES)] {
            assert_eq!(full.left().unwrap_err().code, "quota");
        }
    }
}
