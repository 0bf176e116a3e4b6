//! Carrying bytes both ways between two TCP streams, half-closes kept.
//!
//! A direction starts with plain copies through one shared buffer, which costs an idle connection nothing; one that
//! turns out to be bulk goes on by `splice`, through a pipe that it gives back when it falls quiet.

// What is in here meets hostile bytes, and a release build ends with a panic: every connection would.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod pipes;
mod pump;

use std::io;
use std::os::fd::AsFd;

use rustix::net::Shutdown;
use tokio::net::TcpStream;

pub(crate) use pump::{Pump, Way};

/// For each of the four that a connection has. The kernel doubles it.
const BUFFER: usize = 64 << 10;

/// Wait for both directions. If one fails the other end hears of it as a reset, as it would without us between.
pub(crate) async fn both(
    outward: impl Future<Output = io::Result<()>>,
    inward: impl Future<Output = io::Result<()>>,
    client: &TcpStream,
    upstream: &TcpStream,
) -> io::Result<()> {
    let ended = tokio::try_join!(outward, inward);
    if ended.is_err() {
        reset_on_close(client);
        reset_on_close(upstream);
    }
    ended.map(|_| ())
}

/// Closing this stream will reset it: a refusal that nobody has to wait for.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // It may be closed by the other side already; then there is nothing to reset.
    let _ = rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(std::time::Duration::ZERO));
}

/// Bytes are passed on as they come, and a peer that vanished is noticed some day.
pub(crate) fn prepare(socket: impl AsFd) {
    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
}

/// One of a crowd: what the kernel holds of it, where somebody does not read, is bounded. That costs speed over long ways.
pub(crate) fn bound_buffers(socket: impl AsFd) {
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, BUFFER);
}

/// The same for what listens inside: what is accepted has its options. The way to a client is this machine's memory, which
/// loses nothing and is never full, so a host's pacing (BBR) would only make it wait.
pub(crate) fn prepare_listener(listener: impl AsFd) {
    prepare(&listener);
    let _ = rustix::net::sockopt::set_tcp_congestion(&listener, "reno");
}

fn end_writing(stream: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(stream.as_fd(), Shutdown::Write) {
        // The other side has gone entirely.
        Err(rustix::io::Errno::NOTCONN) => Ok(()),
        ended => Ok(ended?),
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{tcp_congestion, tcp_nodelay};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn what_the_kernel_holds_of_one_of_a_crowd_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (client, (accepted, _)) = (client.unwrap(), accepted.unwrap());
        let fill = || {
            let mut sent = 0;
            while let Ok(count) = client.try_write(&[0; 64 << 10]) {
                sent += count;
            }
            sent
        };
        bound_buffers(&client);
        bound_buffers(&accepted);
        client.writable().await.unwrap();
        let mut sent = 0;
        // The kernel moves what is sent to the other side by and by.
        for _ in 0..50 {
            sent += fill();
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        assert!((64 << 10..=4 * BUFFER).contains(&sent), "{sent}");
    }

    #[tokio::test]
    async fn what_is_accepted_inside_is_not_paced() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        prepare_listener(&listener);
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (_client, accepted) = tokio::join!(client, listener.accept());
        let (accepted, _) = accepted.unwrap();
        assert_eq!(tcp_congestion(&accepted).unwrap(), "reno");
        assert!(tcp_nodelay(&accepted).unwrap());
    }
}
