//! How fast a key may ask.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::auth::Caller;
use crate::config::ServerConfig;
use crate::error::{Answer, ApiError};

#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<String, Arc<DefaultDirectRateLimiter>>>);

impl Rates {
    /// Count one request of a key; for each key apart, so that one of a user's programs can't starve another.
    pub(crate) fn take(&self, config: &ServerConfig, caller: &Caller) -> Answer<()> {
        let Some(most) = NonZeroU32::new(config.role(caller.role).quotas.requests_per_minute) else {
            return Ok(());
        };
        let name = caller.key.as_deref().unwrap_or(&caller.user);
        let limiter = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(RateLimiter::direct(Quota::per_minute(most)));
            Arc::clone(all.entry(name.to_owned()).or_insert_with(new))
        };
        limiter.check().map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            ApiError::too_many(
                format!("this key has asked {most} times in a minute, and that is its quota"),
                "wait as long as Retry-After says",
                wait.as_secs() + 1,
            )
        })
    }
}
