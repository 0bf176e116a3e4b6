//! Whether who asked may still do so. A key is checked when a request comes; what stays open longer, or waits, looks again:
//! keys are revoked, users disabled or given another role, also by another process.

use std::time::Duration;

use ringfence_store::{Key, Role, User};
use tokio::sync::Notify;

use crate::app::{App, Shared};
use crate::auth::{Caller, wrong_key};
use crate::error::Answer;

/// What another process did is seen after so long; what this server did, at once.
const LOOK: Duration = Duration::from_secs(3);

/// Told when users or keys have changed.
#[derive(Debug, Default)]
pub(crate) struct People(Notify);

impl People {
    pub(crate) fn tell(&self) {
        self.0.notify_waiters();
    }
}

/// The role of who comes with this key now; none where it is good no longer.
pub(crate) fn role_of(key: &Key, user: &User, now: i64) -> Option<Role> {
    let ended = user.disabled || key.revoked.is_some() || key.expires.is_some_and(|expires| expires <= now);
    (!ended).then(|| key.role.shared_with(user.role))
}

impl App {
    /// As whoever they came as.
    pub(crate) async fn still_stands(&self, caller: &Caller) -> Answer<bool> {
        let Some(id) = &caller.key else { return Ok(true) };
        let now = crate::now();
        if caller.expires.is_some_and(|expires| expires <= now) {
            return Ok(false);
        }
        let role = match caller.by_token() {
            true => {
                let user = self.store.user(&caller.user).await?;
                user.filter(|user| !user.disabled).map(|user| user.role)
            }
            false => {
                let found = self.store.key_by_id(id).await?;
                found.and_then(|(key, user)| role_of(&key, &user, now))
            }
        };
        Ok(role.is_some_and(|role| role.covers(caller.role)))
    }

    /// For what is done after a wait.
    pub(crate) async fn check_standing(&self, caller: &Caller) -> Answer<()> {
        if self.still_stands(caller).await? { Ok(()) } else { Err(wrong_key()) }
    }
}

/// Until whoever asked may do so no longer: for streams, which end then.
pub(crate) async fn until_revoked(app: Shared, caller: Caller) {
    loop {
        let news = app.people.0.notified();
        tokio::pin!(news);
        // From here on nothing is missed.
        news.as_mut().enable();
        match app.still_stands(&caller).await {
            Ok(true) => {}
            Ok(false) => return,
            // The next look tells.
            Err(error) => tracing::warn!(why = error.message, "whether a key is still good can't be read"),
        }
        let _ = tokio::time::timeout(LOOK, news).await;
    }
}
