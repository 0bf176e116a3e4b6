//! The socket to the owner: one packet an order or an event, with descriptors beside orders.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ringfence_linux::{recv_with_fds, send_with_fds};
use rustix::net::sockopt::Timeout;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use crate::event::{Order, SocketRole};

/// An owner that does not read its last news within this time does not get them.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// Packets are not datagrams, but a socket is a socket: only its descriptor and its readiness are used.
pub(crate) struct Channel(UnixDatagram);

/// An order with the sockets that came with it, each with its role.
#[derive(Debug)]
pub(crate) enum Received {
    Sockets(Vec<(SocketRole, OwnedFd)>),
    Order(Order),
}

impl Channel {
    /// Takes the socket over; it does not block from now on.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixDatagram::from_std(socket)?))
    }

    pub(crate) fn try_send(&self, packet: &[u8]) -> io::Result<()> {
        self.0.try_io(Interest::WRITABLE, || send_with_fds(self.0.as_fd(), packet, &[]))
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    /// For the end, without a runtime.
    pub(crate) fn send_blocking(&self, packet: &[u8]) -> io::Result<()> {
        let socket = self.0.as_fd();
        rustix::io::ioctl_fionbio(socket, false)?;
        rustix::net::sockopt::set_socket_timeout(socket, Timeout::Send, Some(LAST_WAIT))?;
        send_with_fds(socket, packet, &[])
    }

    /// The next order; `None` at the end of the channel.
    pub(crate) async fn receive(&self) -> io::Result<Option<Received>> {
        let message = self.0.async_io(Interest::READABLE, || recv_with_fds(self.0.as_fd())).await?;
        if message.bytes.is_empty() {
            return Ok(None);
        }
        let order: Order = serde_json::from_slice(&message.bytes)?;
        Ok(Some(match order {
            Order::Sockets { roles } if roles.len() == message.fds.len() => {
                Received::Sockets(roles.into_iter().zip(message.fds).collect())
            }
            Order::Sockets { .. } => return Err(io::ErrorKind::InvalidData.into()),
            order => Received::Order(order),
        }))
    }
}
