//! The sockets that accept inside: handed in ready, or bound here when a name is first asked for.
//!
//! Bounded: each is a descriptor outside. In open mode those that were not used for a while go first, and come back when
//! the command connects again.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ringfence_policy::{Host, NetworkReason};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::connection::{Front, serve};
use crate::gate::Gate;
use crate::limits::CROWD;
use crate::lock::Lock;
use crate::names::Chosen;
use crate::relay::{bound_buffers, prepare_listener};
use crate::stock::{Family, Stock};

const BACKLOG: i32 = 1024;
/// A listener that was made for one connect is kept this long after it was last asked for.
const IDLE: Duration = Duration::from_secs(60);
/// One that was asked for so recently may have its connect still to come.
const FRESH: Duration = Duration::from_secs(10);
/// After a failed accept: the process is out of descriptors, and some connection will end.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Listeners {
    gate: Gate,
    stock: Arc<Stock>,
    bound: Lock<Bounds>,
    /// One listener is bound at a time, so that two questions for a name do not bind twice.
    binding: Mutex<()>,
    most: usize,
    /// So many of those are kept for names that have rules of their own.
    kept: usize,
    /// Connections that a proxy or a listener has accepted and not finished; beyond the cap they are refused at once.
    accepted: Arc<AtomicUsize>,
    most_accepted: usize,
}

#[derive(Default)]
struct Bounds {
    by_address: HashMap<SocketAddr, Bound>,
    /// How many of them are for names with rules of their own.
    by_rule: usize,
}

struct Bound {
    task: AbortHandle,
    stay: Stay,
    asked: Instant,
}

/// How long a listener stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// As long as the sandbox: its name may be connected to without another question.
    Always(Chosen),
    /// Open mode: each connect asks first.
    WhileUsed,
}

/// What may be had at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) listeners: usize,
    pub(crate) accepted: usize,
}

impl Caps {
    /// A connection takes two descriptors, and a few more are for lookups, pipes and spare sockets.
    pub(crate) fn for_descriptors(files: u64) -> Self {
        let files = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(256).max(64);
        Self { listeners: (files / 2).min(32_768), accepted: (files / 5).min(16_384) }
    }
}

impl Listeners {
    pub(crate) fn new(gate: Gate, stock: Arc<Stock>, caps: Caps) -> Self {
        // One for each family. A policy that lists more names than that leaves the rest to whoever comes first.
        let kept = (gate.rules().exact_pairs() * 2).min(caps.listeners / 2);
        Self {
            gate,
            stock,
            bound: Lock::default(),
            binding: Mutex::default(),
            most: caps.listeners,
            kept,
            accepted: Arc::default(),
            most_accepted: caps.accepted,
        }
    }

    /// Can anything listen in this family?
    pub(crate) fn knows(&self, family: Family) -> bool {
        self.stock.knows(family)
    }

    /// Accept on a socket that listens already.
    pub(crate) fn accept_on(&self, socket: OwnedFd, front: Front) -> io::Result<AbortHandle> {
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        prepare_listener(&listener);
        let listener = TcpListener::from_std(listener)?;
        let gate = self.gate.clone();
        let (accepted, most) = (self.accepted.clone(), self.most_accepted);
        let task = tokio::spawn(async move {
            loop {
                gate.outbox().room().await;
                let (client, from) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(_) => {
                        sleep(PAUSE).await;
                        continue;
                    }
                };
                let place = Accepted::new(&accepted);
                if place.count() > most {
                    let (host, port) = front.asked();
                    gate.refuse(&host, Some(port), Some(from), too_many(most));
                    crate::carry::turn_away(&client);
                    continue;
                }
                if place.count() > CROWD as usize {
                    bound_buffers(&client);
                }
                let (gate, front) = (gate.clone(), front.clone());
                tokio::spawn(async move {
                    serve(gate, front, client, from).await;
                    drop(place);
                });
            }
        });
        Ok(task.abort_handle())
    }

    /// Have something listen at this address for this host. `Ok` also where a program inside was there first: then it is
    /// that program that a connect reaches.
    pub(crate) async fn ensure(&self, at: SocketAddr, host: &Host, stay: Stay) -> Result<(), NetworkReason> {
        let _one = self.binding.lock().await;
        if let Some(bound) = self.bound.lock().by_address.get_mut(&at) {
            bound.asked = Instant::now();
            return Ok(());
        }
        self.make_room(stay)?;
        let socket = self.stock.take(Family::of(at.ip())).await.ok_or(NetworkReason::EgressGone)?;
        match bind(&socket, at) {
            Ok(()) => {}
            Err(rustix::io::Errno::ADDRINUSE) => return Ok(()),
            Err(_) => return Err(NetworkReason::EgressGone),
        }
        let front = Front::Target(host.clone(), at.port());
        let task = self.accept_on(socket, front).map_err(|_| NetworkReason::EgressGone)?;
        let mut bound = self.bound.lock();
        bound.by_rule += usize::from(stay == Stay::Always(Chosen::ByRule));
        bound.by_address.insert(at, Bound { task, stay, asked: Instant::now() });
        Ok(())
    }

    /// Close what open mode has not used for a while; for ever.
    pub(crate) async fn expire<T>(&self) -> T {
        loop {
            sleep(IDLE / 4).await;
            self.close_older_than(IDLE, usize::MAX);
        }
    }

    fn make_room(&self, stay: Stay) -> Result<(), NetworkReason> {
        if self.has_room(stay) {
            return Ok(());
        }
        self.close_older_than(FRESH, self.most / 8 + 1);
        if self.has_room(stay) {
            return Ok(());
        }
        Err(NetworkReason::Names { limit: u32::try_from(self.most).unwrap_or(u32::MAX) })
    }

    /// What is kept for names with rules of their own, and not used by them yet, is nobody else's.
    fn has_room(&self, stay: Stay) -> bool {
        let bound = self.bound.lock();
        let kept = match stay {
            Stay::Always(Chosen::ByRule) => 0,
            Stay::Always(Chosen::ByCommand) | Stay::WhileUsed => self.kept.saturating_sub(bound.by_rule),
        };
        bound.by_address.len() + kept < self.most
    }

    /// Close listeners of open mode, those first that were asked for longest ago.
    fn close_older_than(&self, age: Duration, most: usize) {
        let bound = &mut self.bound.lock().by_address;
        let mut old: Vec<(Instant, SocketAddr)> = bound
            .iter()
            .filter(|(_, bound)| bound.stay == Stay::WhileUsed && bound.asked.elapsed() >= age)
            .map(|(at, bound)| (bound.asked, *at))
            .collect();
        old.sort_unstable();
        for (_, at) in old.into_iter().take(most) {
            if let Some(bound) = bound.remove(&at) {
                bound.task.abort();
            }
        }
    }
}

/// No limit of the policy's, which a flag would raise.
fn too_many(most: usize) -> NetworkReason {
    let why =
        format!("{most} connections are open, as many as this machine's limit of open files leaves room for");
    NetworkReason::BadName { why }
}

fn bind(socket: &OwnedFd, at: SocketAddr) -> Result<(), rustix::io::Errno> {
    let socket = socket.as_fd();
    // A connection of an earlier listener there may still be closing.
    rustix::net::sockopt::set_socket_reuseaddr(socket, true)?;
    rustix::net::bind(socket, &at)?;
    rustix::net::listen(socket, BACKLOG)
}

/// One accepted connection, counted.
struct Accepted(Arc<AtomicUsize>, usize);

impl Accepted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        Self(count.clone(), count.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn count(&self) -> usize {
        self.1
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
