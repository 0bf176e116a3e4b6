//! How fast a key may ask, and how fast all keys of a user together: otherwise a new key would be a new allowance.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

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
}

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
        count(&self.users, &caller.user, most, "your keys together have")
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
