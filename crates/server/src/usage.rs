//! What a user's sandboxes and runs may use together: processors and memory by their limits, and time as it passes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use ringfence_policy::{Layer, Origin, ProfileName, Span, merge};
use ringfence_store::Claim;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Answer, ApiError};

const HOUR: Duration = Duration::from_secs(3600);
/// Commands' times are kept by the minute.
const MINUTE: Duration = Duration::from_secs(60);

/// What runs now, beside the sandboxes that the store knows, and what has run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    claims: HashMap<String, Claim>,
    times: HashMap<String, Times>,
}

/// When commands of a user ended, and how long they took; and those that run.
#[derive(Debug, Default)]
struct Times {
    ended: VecDeque<(Instant, Duration)>,
    running: Vec<Instant>,
}

impl Times {
    fn in_the_last_hour(&mut self, now: Instant) -> Duration {
        while self.ended.front().is_some_and(|(at, _)| now.duration_since(*at) > HOUR) {
            self.ended.pop_front();
        }
        let ended: Duration = self.ended.iter().map(|(_, took)| *took).sum();
        let running: Duration = self.running.iter().map(|begun| now.duration_since(*begun).min(HOUR)).sum();
        ended + running
    }

    /// When some of it is more than an hour ago.
    fn next_free(&self, now: Instant) -> Duration {
        self.ended.front().map_or(HOUR, |(at, _)| HOUR.saturating_sub(now.duration_since(*at)))
    }

    fn add(&mut self, now: Instant, took: Duration) {
        match self.ended.back_mut() {
            Some((at, sum)) if now.duration_since(*at) < MINUTE => *sum += took,
            _ => self.ended.push_back((now, took)),
        }
    }
}

/// What a run may use, as long as it runs.
#[derive(Debug)]
pub(crate) struct Claimed {
    usage: Usage,
    user: String,
    claim: Claim,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut inner = self.usage.inner();
        if let Some(held) = inner.claims.get_mut(&self.user) {
            held.memory = held.memory.saturating_sub(self.claim.memory);
            held.cpus = held.cpus.saturating_sub(self.claim.cpus);
            if *held == Claim::default() {
                inner.claims.remove(&self.user);
            }
        }
    }
}

/// A command's time, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct RunClock {
    usage: Usage,
    user: String,
    begun: Instant,
}

impl Drop for RunClock {
    fn drop(&mut self) {
        let (now, begun) = (Instant::now(), self.begun);
        if let Some(times) = self.usage.inner().times.get_mut(&self.user) {
            if let Some(at) = times.running.iter().position(|one| *one == begun) {
                times.running.swap_remove(at);
            }
            times.add(now, now.duration_since(begun));
        }
    }
}

impl Usage {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Count a command's time, if there is some left: of the user's own, and of the server's.
    pub(crate) fn clock(
        &self,
        caller: &Caller,
        of_user: Option<Span>,
        of_all: Option<Span>,
    ) -> Answer<RunClock> {
        let now = Instant::now();
        let mut inner = self.inner();
        let times = inner.times.entry(caller.user.clone()).or_default();
        let used = times.in_the_last_hour(now);
        if let Some(most) = of_user.map(|most| most.duration()).filter(|most| used >= *most) {
            let beyond = format!(
                "your commands have taken {} s of the last hour, and {} s are your quota",
                used.as_secs(),
                most.as_secs()
            );
            return Err(no_time_left(beyond, times.next_free(now)));
        }
        if let Some(most) = of_all.map(|most| most.duration()) {
            let used: Duration = inner.times.values_mut().map(|times| times.in_the_last_hour(now)).sum();
            if used >= most {
                let until = inner.times.values().map(|times| times.next_free(now)).min().unwrap_or(MINUTE);
                let beyond = format!(
                    "the commands of all users have taken {} s of the last hour, and {} s are the server's quota",
                    used.as_secs(),
                    most.as_secs()
                );
                return Err(no_time_left(beyond, until));
            }
        }
        drop(inner);
        Ok(self.begin(&caller.user))
    }

    /// The same, whatever is left.
    pub(crate) fn begin(&self, user: &str) -> RunClock {
        let now = Instant::now();
        self.inner().times.entry(user.to_owned()).or_default().running.push(now);
        RunClock { usage: self.clone(), user: user.to_owned(), begun: now }
    }

    fn claim(&self, user: &str, claim: Claim, held: [Claim; 2], most: [Most; 2]) -> Answer<Claimed> {
        let mut inner = self.inner();
        let of_user = inner.claims.get(user).copied().unwrap_or_default();
        let of_all = inner.claims.values().fold(Claim::default(), |sum, one| plus(sum, *one));
        for ((running, held), (most, whose)) in
            [of_user, of_all].into_iter().zip(held).zip(most.into_iter().zip(["your", "the server's"]))
        {
            most.admits(plus(running, held), claim, whose)?;
        }
        let sum = plus(of_user, claim);
        inner.claims.insert(user.to_owned(), sum);
        Ok(Claimed { usage: self.clone(), user: user.to_owned(), claim })
    }
}

fn no_time_left(beyond: String, until: Duration) -> ApiError {
    let next = "wait until the oldest of them is more than an hour ago, or end some that run";
    ApiError::too_many(beyond, next, until.as_secs() + 1)
}

fn plus(one: Claim, other: Claim) -> Claim {
    Claim { memory: one.memory.saturating_add(other.memory), cpus: one.cpus.saturating_add(other.cpus) }
}

/// The most that may be claimed; none where nobody says.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    memory: Option<u64>,
    cpus: Option<u64>,
}

impl Most {
    fn admits(self, held: Claim, more: Claim, whose: &str) -> Answer<()> {
        self.ever_admits(more, whose)?;
        let sum = plus(held, more);
        let beyond = if self.memory.is_some_and(|most| sum.memory > most) {
            let most = self.memory.unwrap_or_default() >> 20;
            format!(
                "{} of {most} MiB of memory are in use, and this needs {}",
                held.memory >> 20,
                more.memory >> 20
            )
        } else if self.cpus.is_some_and(|most| sum.cpus > most) {
            let most = processors(self.cpus.unwrap_or_default());
            let (held, more) = (processors(held.cpus), processors(more.cpus));
            format!("{held} of {most} processors are in use, and this needs {more}")
        } else {
            return Ok(());
        };
        let mut error = ApiError::too_many(
            format!("{beyond}: that is {whose} quota"),
            "wait until a command has ended, end a sandbox, or ask for less with `policy.limits`",
            2,
        );
        error.code = "quota".into();
        Err(error)
    }

    /// What is more than all of a quota is not worth waiting for.
    fn ever_admits(self, more: Claim, whose: &str) -> Answer<()> {
        let beyond = match self {
            Self { memory: Some(most), .. } if more.memory > most => {
                format!(
                    "{} MiB of memory are asked for, and all of {whose} quota is {} MiB",
                    more.memory >> 20,
                    most >> 20
                )
            }
            Self { cpus: Some(most), .. } if more.cpus > most => {
                let (more, most) = (processors(more.cpus), processors(most));
                format!("{more} processors are asked for, and all of {whose} quota is {most}")
            }
            _ => return Ok(()),
        };
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "beyond_quota",
            beyond,
            "ask for less with `policy.limits`, or ask an admin for a larger quota",
        ))
    }
}

/// A number of processors, from thousandths.
fn processors(thousandths: u64) -> f64 {
    thousandths as f64 / 1000.0
}

/// What a sandbox with these layers may use; what has no limit counts as nothing here, and as everything where there is a
/// quota.
pub(crate) fn claim_of(layers: &[Layer]) -> Answer<Claim> {
    let layers: Vec<_> = layers.iter().map(|layer| (Origin::flag("request"), layer.clone())).collect();
    let merged = merge(ProfileName::default(), &layers)
        .map_err(|error| ApiError::bad(error.to_string(), "correct the policy"))?;
    let limits = merged.policy.limits;
    Ok(Claim {
        memory: limits.memory.map_or(0, |memory| memory.bytes()),
        cpus: limits.cpus.map_or(0, |cpus| (cpus * 1000.0) as u64),
    })
}

impl App {
    /// The right to use what these layers say, beside what the caller's other runs and sandboxes may.
    pub(crate) async fn claim(&self, caller: &Caller, layers: &[Layer]) -> Answer<Claimed> {
        let (own, all) = (self.config.role(caller.role).quotas, self.config.server);
        let most = |memory: Option<ringfence_policy::ByteSize>, cpus: Option<u32>| Most {
            memory: memory.map(|memory| memory.bytes()),
            cpus: cpus.map(|cpus| u64::from(cpus) * 1000),
        };
        let most = [most(own.memory, own.cpus), most(all.memory, all.cpus)];
        if most.iter().all(|most| most.memory.is_none() && most.cpus.is_none()) {
            return self.usage.claim(&caller.user, Claim::default(), [Claim::default(); 2], most);
        }
        let mut claim = claim_of(layers)?;
        let least = |values: [Option<u64>; 2]| values.into_iter().flatten().min().unwrap_or_default();
        if claim.memory == 0 {
            claim.memory = least(most.map(|most| most.memory));
        }
        if claim.cpus == 0 {
            claim.cpus = least(most.map(|most| most.cpus));
        }
        let held = [self.store.claimed(Some(&caller.user)).await?, self.store.claimed(None).await?];
        self.usage.claim(&caller.user, claim, held, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_store::Role;

    #[test]
    fn what_is_claimed_comes_back_when_it_is_let_go() {
        let usage = Usage::default();
        let claim = Claim { memory: 60 << 20, cpus: 1000 };
        let most = [Most { memory: Some(100 << 20), cpus: None }, Most { memory: None, cpus: Some(2000) }];
        let none = [Claim::default(); 2];
        let first = usage.claim("ada", claim, none, most).unwrap();
        assert_eq!(usage.claim("ada", claim, none, most).unwrap_err().code, "quota");
        let other = usage.claim("bob", claim, none, most).unwrap();
        assert!(usage.claim("eve", claim, none, most).unwrap_err().message.contains("the server's"));
        drop((first, other));
        assert!(usage.inner().claims.is_empty());
        // What living sandboxes hold counts too.
        assert!(usage.claim("ada", claim, [claim, claim], most).is_err());
    }

    #[test]
    fn time_is_counted_while_it_passes_and_afterwards() {
        let usage = Usage::default();
        let caller = Caller::without_key("ada", Role::Operator);
        let most = Some(Span::from_millis(1));
        let running = usage.clock(&caller, most, None).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        assert!(usage.clock(&caller, most, None).is_err(), "it runs");
        drop(running);
        let refused = usage.clock(&caller, most, None).unwrap_err();
        assert!(refused.retry_after.is_some_and(|wait| wait > 3000), "{refused:?}");
        // Of what all may take together, nobody has any left.
        let other = Caller::without_key("bob", Role::Operator);
        let refused = usage.clock(&other, None, most).unwrap_err();
        assert!(refused.message.contains("the server's"), "{refused:?}");
        assert!(usage.clock(&caller, None, None).is_ok());
    }
}
