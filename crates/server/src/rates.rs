//! How fast a key may ask, and how fast all keys of a user together: otherwise a new key would be a new allowance.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::auth::Caller;
use crate::config::ServerConfig;
use crate::error::{Answer, ApiError};

type Limiters = HashMap<String, Arc<DefaultDirectRateLimiter>>;

#[derive(Debug, Default)]
pub(crate) struct Rates {
    keys: Mutex<Limiters>,
    users: Mutex<Limiters>,
    /// Of all together, and of keys that are not known to be good: one name each.
    server: Mutex<Limiters>,
    /// Hashes of keys and tokens that were good when they were last looked up.
    good: Mutex<HashSet<[u8; 32]>>,
}

/// So many keys are remembered to be good; then all are looked up anew.
const MOST_GOOD: usize = 16_384;

/// A user's programs have a key each, as a rule, and few of them ask as fast as they may.
const KEYS_AT_ONCE: u32 = 4;

impl Rates {
    /// Count one request of a key; for each key apart, so that one of a user's programs can't starve another.
    pub(crate) fn take(&self, config: &ServerConfig, caller: &Caller) -> Answer<()> {
        let quotas = config.role(caller.role).quotas;
        let most = quotas.requests_per_minute;
        let key = caller.key.as_deref().unwrap_or(&caller.user);
        count(&self.keys, key, most, "this key has")?;
        let most = quotas.user_requests_per_minute.unwrap_or(most.saturating_mul(KEYS_AT_ONCE));
        count(&self.users, &caller.user, most, "your keys together have")?;
        count(&self.server, "all", config.server.requests_per_minute, "all users of this server have")
    }

    /// Before a key is looked up: those that were never good share a rate, so that who tries keys does not keep the database
    /// busy; one that was good is held by its own.
    pub(crate) fn try_key(&self, config: &ServerConfig, hash: &[u8; 32]) -> Answer<()> {
        if self.good().contains(hash) {
            return Ok(());
        }
        let most = config.server.unknown_keys_per_minute;
        count(&self.server, "unknown", most, "clients with keys that are not known here have")
    }

    /// What came of it.
    pub(crate) fn tried(&self, hash: [u8; 32], was_good: bool) {
        let mut good = self.good();
        match was_good {
            true => {
                if good.len() >= MOST_GOOD {
                    good.clear();
                }
                good.insert(hash);
            }
            false => drop(good.remove(&hash)),
        }
    }

    fn good(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Zero is no limit.
fn count(limiters: &Mutex<Limiters>, name: &str, most: u32, who: &str) -> Answer<()> {
    let Some(most) = NonZeroU32::new(most) else { return Ok(()) };
    let limiter = {
        let mut all = limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(RateLimiter::direct(Quota::per_minute(most)));
        Arc::clone(all.entry(name.to_owned()).or_insert_with(new))
    };
    limiter.check().map_err(|until| {
        let wait = until.wait_time_from(DefaultClock::default().now());
        ApiError::too_many(
            format!("{who} asked {most} times in a minute, and that is the quota"),
            "wait as long as Retry-After says",
            wait.as_secs() + 1,
        )
    })
}
