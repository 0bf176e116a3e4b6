//! How many connections at one time, and how many bytes a second.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ringfence_policy::NetworkReason;
use tokio::time::{Instant, Sleep, sleep};

use crate::lock::Lock;

/// So many connections have as much memory as their speed takes.
pub(crate) const CROWD: u32 = 32;

/// Places for connections.
pub(crate) struct Connections {
    limit: u32,
    open: Arc<AtomicU32>,
}

/// One place; free again when dropped.
pub(crate) struct Place(Arc<AtomicU32>);

impl Connections {
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, open: Arc::default() }
    }

    /// Are there more than a program that is no flood has at one time? Then each gets less of what they share.
    pub(crate) fn is_crowded(&self) -> bool {
        self.open.load(Ordering::Relaxed) > CROWD
    }

    pub(crate) fn take(&self) -> Result<Place, NetworkReason> {
        let taken = self.open.fetch_add(1, Ordering::Relaxed);
        // Made first, so that its drop gives the place back where there was none.
        let place = Place(self.open.clone());
        if taken < self.limit { Ok(place) } else { Err(NetworkReason::Connections { limit: self.limit }) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes that all connections together may hold of one kind.
pub(crate) struct Budget(Arc<AtomicUsize>);

/// A part of it; back again when dropped.
pub(crate) struct Held {
    left: Arc<AtomicUsize>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(bytes.into()))
    }

    pub(crate) fn take(&self, bytes: usize) -> Option<Held> {
        let less = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Held { left: self.0.clone(), bytes })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes a second for the whole sandbox, in each direction.
#[derive(Clone, Default)]
pub(crate) struct Bandwidth {
    inward: Option<Arc<Bucket>>,
    outward: Option<Arc<Bucket>>,
}

impl Bandwidth {
    pub(crate) fn new(bytes_a_second: Option<u64>) -> Self {
        let bucket = || bytes_a_second.map(|rate| Arc::new(Bucket::new(rate)));
        Self { inward: bucket(), outward: bucket() }
    }

    /// One connection's share of what comes from hosts.
    pub(crate) fn inward(&self) -> Share {
        Share { bucket: self.inward.clone(), wait: None }
    }

    /// One connection's share of what goes to hosts.
    pub(crate) fn outward(&self) -> Share {
        Share { bucket: self.outward.clone(), wait: None }
    }
}

/// A token bucket that holds a tenth of a second's worth. It may be overdrawn by what one call used: the next ones wait
/// longer, so that the rate holds over time and nobody has to split what the kernel hands over at once.
struct Bucket {
    rate: u64,
    level: Lock<Level>,
}

struct Level {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(rate: u64) -> Self {
        let rate = rate.max(1);
        Self { rate, level: Lock::new(Level { tokens: Self::most(rate), at: Instant::now() }) }
    }

    fn most(rate: u64) -> f64 {
        (rate as f64 / 10.0).max(1.0)
    }

    /// How many bytes may pass now, or how long until some may.
    fn allowance(&self) -> Result<usize, Duration> {
        let mut level = self.level.lock();
        let now = Instant::now();
        let gained = now.duration_since(level.at).as_secs_f64() * self.rate as f64;
        level.tokens = (level.tokens + gained).min(Self::most(self.rate));
        level.at = now;
        // Not byte by byte: a wait is worth a twentieth of a second's bytes.
        let worthwhile = (Self::most(self.rate) / 2.0).clamp(1.0, 65_536.0);
        if level.tokens >= 1.0 {
            return Ok(level.tokens as usize);
        }
        Err(Duration::from_secs_f64((worthwhile - level.tokens) / self.rate as f64))
    }

    fn use_up(&self, bytes: usize) {
        self.level.lock().tokens -= bytes as f64;
    }
}

/// One direction of one connection.
pub(crate) struct Share {
    bucket: Option<Arc<Bucket>>,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Share {
    pub(crate) fn is_limited(&self) -> bool {
        self.bucket.is_some()
    }

    /// How many of `wanted` bytes may pass now: at least one, unless none is wanted.
    pub(crate) fn poll_allowance(&mut self, context: &mut Context<'_>, wanted: usize) -> Poll<usize> {
        let Some(bucket) = &self.bucket else { return Poll::Ready(wanted) };
        loop {
            if let Some(wait) = &mut self.wait {
                if wait.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.wait = None;
            }
            match bucket.allowance() {
                Ok(allowed) => return Poll::Ready(allowed.min(wanted)),
                Err(time) => self.wait = Some(Box::pin(sleep(time))),
            }
        }
    }

    pub(crate) async fn allowance(&mut self, wanted: usize) -> usize {
        std::future::poll_fn(|context| self.poll_allowance(context, wanted)).await
    }

    pub(crate) fn used(&self, bytes: usize) {
        if let Some(bucket) = &self.bucket {
            bucket.use_up(bytes);
        }
    }
}

/// So many events a second, with a second's worth at once.
pub(crate) struct Rate {
    a_second: f64,
    level: Lock<Level>,
}

impl Rate {
    pub(crate) fn new(a_second: u64) -> Self {
        let a_second = a_second as f64;
        Self { a_second, level: Lock::new(Level { tokens: a_second, at: Instant::now() }) }
    }

    pub(crate) fn take(&self) -> bool {
        let mut level = self.level.lock();
        let now = Instant::now();
        let gained = now.duration_since(level.at).as_secs_f64() * self.a_second;
        level.tokens = (level.tokens + gained).min(self.a_second);
        level.at = now;
        let there = level.tokens >= 1.0;
        if there {
            level.tokens -= 1.0;
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_come_back() {
        let connections = Connections::new(2);
        let first = connections.take().ok().unwrap();
        let _second = connections.take().ok().unwrap();
        for _ in 0..3 {
            assert_eq!(connections.take().err(), Some(NetworkReason::Connections { limit: 2 }));
        }
        drop(first);
        assert!(connections.take().is_ok());
    }

    #[test]
    fn a_crowd_is_known() {
        let connections = Connections::new(u32::MAX);
        let few: Vec<_> = (0..CROWD).map(|_| connections.take().ok().unwrap()).collect();
        assert!(!connections.is_crowded());
        let one_more = connections.take().ok().unwrap();
        assert!(connections.is_crowded());
        drop((few, one_more));
        assert!(!connections.is_crowded());
    }

    #[test]
    fn a_budget_is_used_up_and_comes_back() {
        let budget = Budget::new(10);
        let most = budget.take(8).unwrap();
        assert!(budget.take(3).is_none());
        let rest = budget.take(2).unwrap();
        assert!(budget.take(1).is_none());
        drop((most, rest));
        assert!(budget.take(10).is_some());
    }

    #[tokio::test]
    async fn a_share_is_what_the_rate_allows() {
        const RATE: u64 = 100_000;
        let bandwidth = Bandwidth::new(Some(RATE));
        let (mut one, mut other) = (bandwidth.inward(), bandwidth.inward());
        let started = Instant::now();
        let mut all = 0;
        // Two connections have one bucket.
        while all < RATE as usize / 2 {
            for share in [&mut one, &mut other] {
                let allowed = share.allowance(30_000).await;
                assert!((1..=30_000).contains(&allowed));
                share.used(allowed);
                all += allowed;
            }
        }
        let least = (all as f64 - RATE as f64 / 10.0) / RATE as f64;
        assert!(started.elapsed().as_secs_f64() >= least - 0.01);
        // The other direction has its own.
        assert_eq!(bandwidth.outward().allowance(5000).await, 5000);
        assert_eq!(Bandwidth::new(None).inward().allowance(usize::MAX).await, usize::MAX);
    }

    #[tokio::test]
    async fn a_rate_ends_a_flood() {
        let rate = Rate::new(100);
        let taken = (0..10_000).filter(|_| rate.take()).count();
        assert!((100..200).contains(&taken), "{taken}");
    }
}
