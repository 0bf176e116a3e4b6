//! A client that says what it likes: the bare socket of a keeper.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringfence_testing::Session;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use serde_json::Value;

/// As many as one message carries at most, by the kernel's own limit.
pub(crate) const MOST_FDS: usize = 253;

/// Far longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Client(OwnedFd);

impl Client {
    pub(crate) fn connect(session: &Session<'_>) -> Self {
        Self::try_connect(session).expect("connect to the keeper")
    }

    pub(crate) fn try_connect(session: &Session<'_>) -> rustix::io::Result<Self> {
        let directory = open(session.place(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/socket", directory.as_raw_fd()))?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &address)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        Ok(Self(socket))
    }

    pub(crate) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(
                ancillary.push(SendAncillaryMessage::ScmRights(fds)),
                "too many descriptors for a message"
            );
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).map(|_| ())
    }

    /// What the keeper says next; `None` when it has closed the connection.
    pub(crate) fn receive(&self) -> Option<Value> {
        let mut bytes = vec![0; 1 << 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(&self.0, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) if received.bytes == 0 => None,
            Ok(received) => {
                Some(serde_json::from_slice(&bytes[..received.bytes]).unwrap_or(Value::String("@".into())))
            }
            Err(Errno::CONNRESET | Errno::PIPE) => None,
            Err(error) => panic!("the keeper says nothing: {error}"),
        }
    }

    /// One call, one answer.
    pub(crate) fn ask(&self, call: &str, fds: &[BorrowedFd<'_>]) -> Option<Value> {
        match self.send(call.as_bytes(), fds) {
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {}
            Err(error) => panic!("the keeper does not listen: {error}"),
        }
        self.receive()
    }
}

/// A call to run `true` with three pipes.
pub(crate) const EXEC: &str = r#"{"version":1,"call":"exec","argv":["true"],"environment":{},"directory":null,"timeout_ms":null,"stdio":{"kind":"pipes"}}"#;
