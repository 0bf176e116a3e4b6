//! The one place that decides, counts and records: every front end asks it, and nothing is dialled without it.
//!
//! `Gate::admit` gives an `Admission`. A refusal is recorded before the caller hears of it, so that a front end only has
//! to say no in its own protocol.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_policy::{Host, NetworkReason, NetworkRules};

use crate::admission::{Admission, Asked};
use crate::event::{Event, Via};
use crate::limits::{Bandwidth, Budget, Connections};
use crate::lock::Lock;
use crate::meter::Counts;
use crate::names::{Names, is_fake};
use crate::outbox::Outbox;
use crate::resolve::Resolver;
use crate::terminate::Terminator;
use crate::upstream::Proxies;

/// Shared by everything in this process; a clone is another handle.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) rules: NetworkRules,
    pub(crate) names: Names,
    pub(crate) outbox: Outbox,
    pub(crate) connections: Connections,
    pub(crate) bandwidth: Bandwidth,
    /// For the heads of requests that wait for their answer.
    pub(crate) heads: Budget,
    pub(crate) resolver: Resolver,
    pub(crate) proxies: Proxies,
    /// There if some host's TLS is terminated or some secret is to be swapped.
    pub(crate) terminator: Option<Terminator>,
    pub(crate) next_id: AtomicU64,
    /// What has gone through each connection that is open.
    pub(crate) open: Lock<BTreeMap<u64, Arc<Counts>>>,
    /// Tests dial their own loopback servers by name; there is no such thing outside tests.
    #[cfg(test)]
    pub(crate) stand_ins: std::collections::BTreeMap<String, SocketAddr>,
}

impl Gate {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    pub(crate) fn rules(&self) -> &NetworkRules {
        &self.0.rules
    }

    pub(crate) fn names(&self) -> &Names {
        &self.0.names
    }

    pub(crate) fn terminator(&self) -> Option<&Terminator> {
        self.0.terminator.as_ref()
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    pub(crate) fn open(&self) -> &Lock<BTreeMap<u64, Arc<Counts>>> {
        &self.0.open
    }

    pub(crate) fn bandwidth(&self) -> &Bandwidth {
        &self.0.bandwidth
    }

    pub(crate) fn heads(&self) -> &Budget {
        &self.0.heads
    }

    /// See [`Connections::is_crowded`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.connections.is_crowded()
    }

    pub(crate) fn resolver(&self) -> &Resolver {
        &self.0.resolver
    }

    pub(crate) fn proxies(&self) -> &Proxies {
        &self.0.proxies
    }

    #[cfg(test)]
    pub(crate) fn stand_in(&self, name: &str, port: u16) -> Option<SocketAddr> {
        let on_port = self.0.stand_ins.get(&format!("{name}:{port}"));
        on_port.or_else(|| self.0.stand_ins.get(name)).copied()
    }

    /// May this connection be? An `Err` is recorded already.
    pub(crate) fn admit(
        &self,
        host: &Host,
        port: u16,
        from: SocketAddr,
        via: Via,
    ) -> Result<Admission, NetworkReason> {
        let host = self.meant(host, port);
        let place = self.decide(&host, port).and_then(|()| self.0.connections.take());
        match place {
            Ok(place) => {
                let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
                Ok(Admission::open(self.clone(), id, Asked { host, port, from, via }, place))
            }
            Err(reason) => {
                self.refuse(&host.to_string(), Some(port), Some(from), reason.clone());
                Err(reason)
            }
        }
    }

    /// What the rules say, and that an address which stands for names only is nobody's before it was given to one.
    pub(crate) fn decide(&self, host: &Host, port: u16) -> Result<(), NetworkReason> {
        match host {
            Host::Address(address) if is_fake(*address) && !self.rules().has_literal(*address) => {
                Err(NetworkReason::NotGranted)
            }
            host => self.rules().decide(host, port).map(|_| ()),
        }
    }

    /// An address that was given for a name means that name, whoever is told of it: some programs look a name up first
    /// and ask a proxy then.
    pub(crate) fn named(&self, host: Host) -> Host {
        match &host {
            Host::Address(address) => self.names().name_of(address.to_canonical()).map_or(host, Host::Name),
            Host::Name(_) => host,
        }
    }

    /// `localhost` is a name for the caller's own loopback, where that port of it is granted.
    fn meant(&self, host: &Host, port: u16) -> Host {
        match self.named(host.clone()) {
            Host::Name(name) if name.is_localhost() && self.rules().local().contains(&port) => {
                Host::from(Ipv4Addr::LOCALHOST)
            }
            host => host,
        }
    }

    /// Record a refusal. `host` is what was asked for, as far as it could be read.
    pub(crate) fn refuse(
        &self,
        host: &str,
        port: Option<u16>,
        from: Option<SocketAddr>,
        reason: NetworkReason,
    ) {
        let reason = shorten_reason(reason);
        self.0.outbox.push(Event::Denied { from, host: shorten(host), port, reason });
    }
}

/// What a hostile program sends may be long; a packet to the owner is not.
fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}

fn shorten_reason(reason: NetworkReason) -> NetworkReason {
    match reason {
        NetworkReason::Sni { found } => NetworkReason::Sni { found: shorten(&found) },
        NetworkReason::HostHeader { found } => NetworkReason::HostHeader { found: shorten(&found) },
        NetworkReason::BadName { why } => NetworkReason::BadName { why: shorten(&why) },
        NetworkReason::Malformed { why } => NetworkReason::Malformed { why: shorten(&why) },
        NetworkReason::Certificate { why } => NetworkReason::Certificate { why: shorten(&why) },
        NetworkReason::Http { method, path } => {
            NetworkReason::Http { method: shorten(&method), path: shorten(&path) }
        }
        NetworkReason::Port { mut granted } => {
            granted.truncate(100);
            NetworkReason::Port { granted }
        }
        reason => reason,
    }
}
