//! Leave for one connection: it holds a place among the connections, says `Opened` when it is made and `Closed`, with
//! what was carried, when its last handle is dropped.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ringfence_policy::{Host, NetworkReason};

use crate::event::{Event, Via};
use crate::gate::Gate;
use crate::limits::Place;
use crate::lock::Lock;
use crate::meter::{Counts, Metered};

/// A clone is another handle on the same leave.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Leave>);

struct Leave {
    gate: Gate,
    id: u64,
    asked: Asked,
    counts: Arc<Counts>,
    ending: Lock<Ending>,
    _place: Place,
}

/// What a connection is for, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) from: SocketAddr,
    pub(crate) via: Via,
}

#[derive(Default)]
struct Ending {
    address: Option<IpAddr>,
    error: Option<String>,
    /// One side has said all it had to say, or the client has gone.
    settled: bool,
}

impl Admission {
    /// Only for the gate, which has decided.
    pub(crate) fn open(gate: Gate, id: u64, asked: Asked, place: Place) -> Self {
        let Asked { host, port, from, via } = &asked;
        gate.outbox().push(Event::Opened { id, from: *from, host: host.to_string(), port: *port, via: *via });
        let counts = Arc::default();
        gate.open().lock().insert(id, Arc::clone(&counts));
        Self(Arc::new(Leave { gate, id, asked, counts, ending: Lock::default(), _place: place }))
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    pub(crate) fn host(&self) -> &Host {
        &self.0.asked.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.asked.port
    }

    pub(crate) fn from(&self) -> SocketAddr {
        self.0.asked.from
    }

    /// Is it a port of the caller's own loopback?
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.host(), Host::Address(address) if address.is_loopback())
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// The outer side of this connection, counted and held to the bandwidth.
    pub(crate) fn meter<S>(&self, stream: S) -> Metered<S> {
        Metered::new(stream, self.0.counts.clone(), self.gate().bandwidth())
    }

    /// The address that was dialled.
    pub(crate) fn dialled(&self, address: IpAddr) {
        self.0.ending.lock().address = Some(address);
    }

    /// One side has ended in order, or the client went away, which it may at any time. What breaks after that broke
    /// nothing that anybody waited for: many programs close over unread bytes, which is a reset.
    pub(crate) fn settle(&self) {
        self.0.ending.lock().settled = true;
    }

    /// Carrying bytes failed: an error unless the exchange was over.
    pub(crate) fn break_off(&self, error: &std::io::Error) {
        if !self.0.ending.lock().settled {
            self.fail(error);
        }
    }

    /// Why it broke; the first reason stays.
    pub(crate) fn fail(&self, error: impl std::fmt::Display) {
        self.0.ending.lock().error.get_or_insert_with(|| error.to_string().chars().take(300).collect());
    }

    /// Record that what this connection tried is refused (address, SNI, Host, method, certificate).
    pub(crate) fn refuse(&self, reason: NetworkReason) {
        self.fail("refused");
        self.gate().refuse(&self.host().to_string(), Some(self.port()), Some(self.from()), reason);
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let ending = std::mem::take(&mut *self.ending.lock());
        self.gate.open().lock().remove(&self.id);
        self.gate.outbox().push(Event::Closed {
            id: self.id,
            address: ending.address,
            sent: self.counts.sent(),
            received: self.counts.received(),
            error: ending.error,
        });
    }
}
