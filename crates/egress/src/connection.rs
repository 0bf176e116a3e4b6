//! Connections that a program inside makes: whose target the address it was made to tells.

use std::net::SocketAddr;

use bytes::Bytes;
use ringfence_policy::Host;
use tokio::net::TcpStream;

use crate::addresses::{HTTP_PROXY, SOCKS_PROXY};
use crate::carry::{carry, turn_away};
use crate::event::Via;
use crate::gate::Gate;
use crate::{proxy, socks};

/// What a listener is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// A host and port.
    Target(Host, u16),
    HttpProxy,
    SocksProxy,
}

impl Front {
    /// What a connection to it asks for, as far as it has said.
    pub(crate) fn asked(&self) -> (String, u16) {
        match self {
            Self::Target(host, port) => (host.to_string(), *port),
            Self::HttpProxy => (HTTP_PROXY.ip().to_string(), HTTP_PROXY.port()),
            Self::SocksProxy => (SOCKS_PROXY.ip().to_string(), SOCKS_PROXY.port()),
        }
    }
}

/// From accept to the end. A failure here is only this connection's.
pub(crate) async fn serve(gate: Gate, front: Front, client: TcpStream, from: SocketAddr) {
    match front {
        Front::Target(host, port) => match gate.admit(&host, port, from, Via::Direct) {
            Ok(admission) => carry(client, Bytes::new(), admission).await,
            Err(_) => turn_away(&client),
        },
        Front::HttpProxy => proxy::serve(gate, client, from).await,
        Front::SocksProxy => socks::serve(gate, client, from).await,
    }
}
