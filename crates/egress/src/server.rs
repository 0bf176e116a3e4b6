//! Carrying out the owner's orders: sockets that were made inside find their use, and open mode's listeners are made.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringfence_policy::{Host, NetworkReason};
use tokio::net::TcpListener;

use crate::channel::{Channel, Received};
use crate::connection::Front;
use crate::datagrams::Datagrams;
use crate::dns::Dns;
use crate::event::{Event, Order, SocketRole};
use crate::gate::Gate;
use crate::listeners::{Caps, Listeners, Stay};
use crate::stock::{Family, Stock};

/// From a socket that is ready to a connection that is counted and ended, there are a few wake-ups.
const ROUNDS: usize = 12;
const MOST_ROUNDS: usize = 48;

pub(crate) struct Server {
    gate: Gate,
    stock: Arc<Stock>,
    listeners: Arc<Listeners>,
    dns: Arc<Dns>,
    datagrams: Arc<Datagrams>,
}

impl Server {
    pub(crate) fn new(gate: Gate, learn: bool, caps: Caps) -> Self {
        let stock = Arc::new(Stock::new(gate.outbox().clone()));
        let listeners = Arc::new(Listeners::new(gate.clone(), stock.clone(), caps));
        let dns = Arc::new(Dns::new(gate.clone(), listeners.clone(), learn));
        let datagrams = Arc::new(Datagrams::new(gate.clone()));
        Self { gate, stock, listeners, dns, datagrams }
    }

    /// Until the owner closes its end.
    pub(crate) async fn serve(&self, channel: &Channel) -> io::Result<()> {
        let ended = tokio::select! {
            ended = self.take_orders(channel) => ended,
            error = self.gate.outbox().deliver() => Err(error),
            never = self.listeners.expire() => never,
        };
        self.datagrams.drain();
        ended
    }

    async fn take_orders(&self, channel: &Channel) -> io::Result<()> {
        while let Some(received) = channel.receive().await? {
            match received {
                Received::Sockets(sockets) => {
                    for (role, socket) in sockets {
                        self.take(role, socket)?;
                    }
                }
                Received::Order(Order::Listen { id, address }) => self.listen(id, address),
                Received::Order(Order::Settle { id }) => {
                    tokio::spawn(settle(self.gate.clone(), id));
                }
                Received::Order(Order::Sockets { .. }) => {}
            }
        }
        Ok(())
    }

    fn take(&self, role: SocketRole, socket: OwnedFd) -> io::Result<()> {
        match role {
            SocketRole::DnsUdp => {
                tokio::spawn(self.dns.clone().serve_udp(messages(socket)?));
            }
            SocketRole::DnsTcp => {
                let listener = std::net::TcpListener::from(socket);
                listener.set_nonblocking(true)?;
                tokio::spawn(self.dns.clone().serve_tcp(TcpListener::from_std(listener)?));
            }
            SocketRole::HttpProxy => self.accept_on(socket, Front::HttpProxy)?,
            SocketRole::SocksProxy => self.accept_on(socket, Front::SocksProxy)?,
            SocketRole::Literal(at) => self.accept_on(socket, target(at))?,
            SocketRole::Local(port) => {
                let at: SocketAddr = rustix::net::getsockname(&socket)?.try_into()?;
                self.accept_on(socket, target(SocketAddr::new(at.ip(), port)))?;
            }
            SocketRole::SpareV4 => self.stock.add(Family::V4, socket),
            SocketRole::SpareV6 => self.stock.add(Family::V6, socket),
            SocketRole::IcmpV4 => self.datagrams.watch(Family::V4, messages(socket)?),
            SocketRole::IcmpV6 => self.datagrams.watch(Family::V6, messages(socket)?),
        }
        Ok(())
    }

    fn accept_on(&self, socket: OwnedFd, front: Front) -> io::Result<()> {
        self.listeners.accept_on(socket, front).map(|_| ())
    }

    /// The command waits meanwhile, and the sockets that this needs may have to be ordered: not in this loop.
    fn listen(&self, id: u64, address: SocketAddr) {
        let (gate, listeners) = (self.gate.clone(), self.listeners.clone());
        tokio::spawn(async move {
            let refused = listen(&gate, &listeners, address).await.err();
            gate.outbox().push(Event::Listening { id, refused });
        });
    }
}

/// The owner waits meanwhile. What the kernel has for us already is dealt with first, as far as that leads at once: a program
/// that has ended has closed its connections, and the end of each is there to be seen.
async fn settle(gate: Gate, id: u64) {
    for round in 0..MOST_ROUNDS {
        // Behind all that is ready, and a look at every socket.
        tokio::task::yield_now().await;
        if round >= ROUNDS && gate.open().lock().is_empty() {
            break;
        }
    }
    for (id, counts) in gate.open().lock().iter() {
        gate.outbox().push(Event::Passed { id: *id, sent: counts.sent(), received: counts.received() });
    }
    gate.outbox().push(Event::Settled { id });
}

async fn listen(gate: &Gate, listeners: &Listeners, address: SocketAddr) -> Result<(), NetworkReason> {
    let at = SocketAddr::new(address.ip().to_canonical(), address.port());
    let host = gate.named(Host::from(at.ip()));
    gate.decide(&host, at.port())?;
    listeners.ensure(at, &host, Stay::WhileUsed).await
}

/// A socket that gives whole messages; to what is asked of it here, a raw one is the same.
fn messages(socket: OwnedFd) -> io::Result<tokio::net::UdpSocket> {
    let socket = UdpSocket::from(socket);
    socket.set_nonblocking(true)?;
    tokio::net::UdpSocket::from_std(socket)
}

fn target(at: SocketAddr) -> Front {
    Front::Target(Host::from(at.ip()), at.port())
}
