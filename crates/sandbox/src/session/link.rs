//! One connection between a client and a keeper: JSON in datagrams, and in a sealed file where it is too long for one.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringfence_linux::{recv_with_fds, send_with_fds};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What fits into one datagram on every kernel's default buffers.
const INLINE: usize = 8_000;
/// The longest message: a command's arguments and variables.
const MOST: u64 = 8 << 20;
/// Stands for a message that is in the first descriptor.
const ELSEWHERE: &[u8] = b"@";

#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Wait no longer than this for an answer.
    pub(crate) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Recv, patience)?)
    }

    /// What the other end said before it closed: the kernel tells of an unread message first.
    pub(crate) fn receive_last<T: DeserializeOwned>(&self) -> Option<T> {
        let said = self.receive().or_else(|_| self.receive());
        said.ok().flatten().map(|(message, _)| message)
    }

    pub(crate) fn send<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() <= INLINE {
            return send_with_fds(self.0.as_fd(), &bytes, fds);
        }
        let file = in_memory(&bytes)?;
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(file.as_fd()).chain(fds.iter().copied()).collect();
        send_with_fds(self.0.as_fd(), ELSEWHERE, &fds)
    }

    /// The next message; `None` when the other end is closed.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let Some((bytes, fds)) = self.receive_bytes()? else { return Ok(None) };
        Ok(Some((serde_json::from_slice(&bytes)?, fds)))
    }

    pub(crate) fn receive_bytes(&self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let message = recv_with_fds(self.0.as_fd())?;
        if message.bytes.is_empty() {
            return Ok(None);
        }
        let mut fds = message.fds.into_iter();
        let bytes = match &message.bytes[..] {
            ELSEWHERE => read_back(fds.next().ok_or(io::ErrorKind::InvalidData)?)?,
            _ => message.bytes,
        };
        Ok(Some((bytes, fds.collect())))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Bytes as a file that is nowhere.
pub(crate) fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("ringfence", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn read_back(file: OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(file);
    // A pipe would let this wait for ever.
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}
