//! What egress and the sandbox's owner say to each other: JSON in one packet each, descriptors beside it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringfence_policy::NetworkReason;
use serde::{Deserialize, Serialize};

/// From the owner. The channel's end is the order to finish: report what is open as closed, then exit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Sockets made inside; the message carries one descriptor for each role, in order. At most 32 at a time.
    Sockets { roles: Vec<SocketRole> },
    /// Open mode: the command is about to connect there. Answered by `Event::Listening`.
    Listen { id: u64, address: SocketAddr },
    /// Tell now what there is to tell: of connections that have ended, and how much has gone through those that are open.
    /// Answered by `Event::Settled`, after all of it.
    Settle { id: u64 },
}

/// What a socket that was made inside is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketRole {
    /// Bound.
    DnsUdp,
    /// Listening, as the next ones.
    DnsTcp,
    HttpProxy,
    SocksProxy,
    /// A granted address.
    Literal(SocketAddr),
    /// A port of the caller's own loopback.
    Local(u16),
    /// A TCP socket, not bound yet.
    SpareV4,
    SpareV6,
    /// Hears of datagrams that nobody took.
    IcmpV4,
    IcmpV6,
}

/// How a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    Direct,
    HttpProxy,
    Socks,
}

/// From egress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Secrets are loaded, privileges are dropped. `authority`: the certificate (PEM) to trust inside.
    Ready {
        authority: Option<String>,
    },
    /// It can't start; nothing may run.
    Failed {
        what: String,
        why: String,
        fix: String,
    },
    /// A name has these addresses from now on. Sent before the answer.
    Named {
        name: String,
        v4: Ipv4Addr,
        v6: Ipv6Addr,
    },
    /// Make so many more spare sockets.
    NeedSockets {
        v4: u8,
        v6: u8,
    },
    /// Order `Listen` was dealt with; `refused` if nothing may be there.
    Listening {
        id: u64,
        refused: Option<NetworkReason>,
    },
    Denied {
        from: Option<SocketAddr>,
        host: String,
        port: Option<u16>,
        reason: NetworkReason,
    },
    Opened {
        id: u64,
        from: SocketAddr,
        host: String,
        port: u16,
        via: Via,
    },
    /// `address`: what was dialled. `error`: why it could not be, or broke.
    Closed {
        id: u64,
        address: Option<IpAddr>,
        sent: u64,
        received: u64,
        error: Option<String>,
    },
    /// What has gone through an open connection so far; as all counts, from its beginning.
    Passed {
        id: u64,
        sent: u64,
        received: u64,
    },
    /// Order `Settle` was carried out.
    Settled {
        id: u64,
    },
    /// What is in no hurry, in order. Holds no other `Several`.
    Several {
        events: Vec<Event>,
    },
}

impl Event {
    /// This event, or those that it holds.
    pub fn each(self) -> Vec<Event> {
        match self {
            Event::Several { events } => events,
            event => vec![event],
        }
    }
}
