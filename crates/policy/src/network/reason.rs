//! Why a connection, a lookup or a request was refused.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::address::AddressClass;

/// One reason, as data; `remedy` has the words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum NetworkReason {
    /// The sandbox has no network.
    Off,
    /// No rule names the host.
    NotGranted,
    /// It is loopback, which the sandbox has one of its own of, and nothing listens there.
    OwnLoopback,
    /// A rule of `network.deny` names it.
    Denied {
        rule: String,
    },
    /// The host is granted, with other ports.
    Port {
        granted: Vec<u16>,
    },
    /// The name leads to an address that names must not lead to.
    Address {
        address: IpAddr,
        class: AddressClass,
    },
    /// TLS without a server name.
    NoSni,
    /// TLS with another server name.
    Sni {
        found: String,
    },
    /// An HTTP request for another host.
    HostHeader {
        found: String,
    },
    /// An HTTP request that no HTTP rule of the host allows.
    Http {
        method: String,
        path: String,
    },
    BadName {
        why: String,
    },
    /// An HTTP request that no careful server would take.
    Malformed {
        why: String,
    },
    Udp,
    /// Too many connections at one time.
    Connections {
        limit: u32,
    },
    /// Too many different names.
    Names {
        limit: u32,
    },
    /// Neither TLS nor HTTP, to a host with secrets or HTTP rules.
    NotHttp,
    /// The name has no address outside.
    Unresolved,
    /// The server's certificate does not hold.
    Certificate {
        why: String,
    },
    /// The process that carries the traffic has ended.
    EgressGone,
}
