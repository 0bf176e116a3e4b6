//! A connection to a port of the sandbox's own loopback, while it is being made. What listens inside may let nobody in, ever:
//! it is waited for beside everything else, and not for long.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::connect;
use rustix::net::sockopt::socket_error;

/// Longer than a program takes that lets anybody in.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Dial {
    /// Those that were not tried, in the opposite order.
    left: Vec<(OwnedFd, SocketAddr)>,
    trying: Option<OwnedFd>,
    deadline: Instant,
    /// Why the last one failed.
    why: Errno,
}

/// How far it is.
pub(super) enum Dialed {
    Through(TcpStream),
    Waiting,
    Failed(io::Error),
}

impl Dial {
    /// With two sockets of the inside, IPv4 and IPv6: they belong to its network wherever they are used from.
    pub(super) fn new(sockets: Vec<OwnedFd>, port: u16) -> Self {
        let addresses: [SocketAddr; 2] =
            [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
        let mut left: Vec<_> = sockets.into_iter().zip(addresses).collect();
        left.reverse();
        Self { left, trying: None, deadline: Instant::now() + PATIENCE, why: Errno::CONNREFUSED }
    }

    /// As far as it gets now. The stream that comes of it does not wait.
    pub(super) fn go_on(&mut self) -> Dialed {
        loop {
            if let Some(socket) = self.trying.take() {
                if !is_settled(socket.as_fd()) {
                    if Instant::now() >= self.deadline {
                        return Dialed::Failed(Errno::TIMEDOUT.into());
                    }
                    self.trying = Some(socket);
                    return Dialed::Waiting;
                }
                match socket_error(&socket).and_then(|error| error) {
                    Ok(()) => return Dialed::Through(socket.into()),
                    Err(error) => self.why = error,
                }
            }
            let Some((socket, address)) = self.left.pop() else { return Dialed::Failed(self.why.into()) };
            match rustix::io::ioctl_fionbio(&socket, true).and_then(|()| connect(&socket, &address)) {
                Ok(()) => return Dialed::Through(socket.into()),
                Err(Errno::INPROGRESS) => self.trying = Some(socket),
                Err(error) => self.why = error,
            }
        }
    }

    /// Wait for its end.
    pub(super) fn finish(mut self) -> io::Result<TcpStream> {
        loop {
            match self.go_on() {
                Dialed::Through(stream) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Dialed::Waiting => {}
                Dialed::Failed(error) => return Err(error),
            }
            let patience = self.patience();
            let mut polled: Vec<PollFd<'_>> = self.polled().into_iter().collect();
            match poll(&mut polled, Some(&patience)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ready when it gets further.
    pub(super) fn polled(&self) -> Option<PollFd<'_>> {
        self.trying.as_ref().map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT))
    }

    /// Until it has taken too long.
    pub(super) fn patience(&self) -> Timespec {
        let left = self.deadline.saturating_duration_since(Instant::now());
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    }
}

fn is_settled(socket: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
