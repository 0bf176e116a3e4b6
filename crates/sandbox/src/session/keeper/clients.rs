//! Who talks to a keeper: let in by their user id, answered without ever waiting for them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, accept_with};

use crate::session::link::Link;
use crate::session::wire::{Answer, Call, Envelope, VERSION};

pub(super) type ClientId = u64;

/// More are told so and turned away: each holds a descriptor.
const MOST: usize = 256;

pub(super) struct Client {
    link: Link,
    /// The port that it forwards, if it does.
    pub(super) forwards: Option<u16>,
    /// It has asked for more than how the session is.
    pub(super) wanted: bool,
}

#[derive(Default)]
pub(super) struct Clients {
    next: ClientId,
    all: BTreeMap<ClientId, Client>,
}

/// What came from a client.
pub(super) enum Heard {
    Call(Call, Vec<OwnedFd>),
    /// It can't be understood, which it has been told.
    Nothing,
    Gone,
}

impl Clients {
    /// Let those in who wait at the door. Where the room is full of some who have gone meanwhile, the rest wait until those
    /// have been heard.
    pub(super) fn accept(&mut self, door: BorrowedFd<'_>) -> Vec<ClientId> {
        let mut new = Vec::new();
        // It does not wait: the door itself is non-blocking.
        while (self.all.len() < MOST || !self.has_gone())
            && let Ok(socket) = accept_with(door, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        {
            if !is_own(&socket) {
                continue;
            }
            if self.all.len() >= MOST {
                // There is room for it in a socket that is new; if not, it is closed, as it is then.
                let _ = Link::new(socket).send(&Answer::Busy, &[]);
            } else {
                self.next += 1;
                self.all.insert(self.next, Client { link: Link::new(socket), forwards: None, wanted: false });
                new.push(self.next);
            }
        }
        new
    }

    /// Somebody has hung up, and it was not noticed yet.
    fn has_gone(&self) -> bool {
        let clients = self.all.values().map(|client| client.link.as_fd());
        let mut polled: Vec<PollFd<'_>> =
            clients.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)).collect();
        let _ = poll(&mut polled, Some(&Timespec::default()));
        polled.iter().any(|fd| !fd.revents().is_empty())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, BorrowedFd<'_>)> {
        self.all.iter().map(|(id, client)| (*id, client.link.as_fd()))
    }

    pub(super) fn get(&mut self, id: ClientId) -> Option<&mut Client> {
        self.all.get_mut(&id)
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.all.values().filter_map(|client| client.forwards).collect()
    }

    /// Who forwards this port.
    pub(super) fn forwarder(&self, port: u16) -> Option<ClientId> {
        self.all.iter().find_map(|(id, client)| (client.forwards == Some(port)).then_some(*id))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn hear(&mut self, id: ClientId) -> Heard {
        let Some(client) = self.all.get(&id) else { return Heard::Gone };
        let heard = client.link.receive_bytes().and_then(|heard| {
            heard.map(|(bytes, fds)| Ok((Envelope::<Call>::parse(&bytes)?, fds))).transpose()
        });
        match heard {
            Ok(Some((Envelope { version: VERSION, body }, fds))) => Heard::Call(body, fds),
            Ok(Some((Envelope { version, .. }, _))) => {
                let why = format!("this session's keeper speaks version {VERSION}, you speak {version}");
                let fix = "use the ringfence that made the session, or remove it and make another".into();
                self.answer(id, &Answer::Refused { why, fix, version: Some(VERSION) }, &[]);
                Heard::Nothing
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Heard::Nothing,
            Err(error) if error.kind() == io::ErrorKind::InvalidData || error.raw_os_error().is_none() => {
                let fix = "see docs/protocol.md".into();
                let why = format!("not a call: {error}");
                self.answer(id, &Answer::Refused { why, fix, version: None }, &[]);
                Heard::Nothing
            }
            Ok(None) | Err(_) => Heard::Gone,
        }
    }

    /// A client that does not take its answer is gone for us; its socket closes, which it sees.
    pub(super) fn answer(&mut self, id: ClientId, answer: &Answer, fds: &[BorrowedFd<'_>]) {
        let sent = self.all.get(&id).map(|client| client.link.send(answer, fds));
        if matches!(sent, Some(Err(_))) {
            self.remove(id);
        }
    }

    pub(super) fn remove(&mut self, id: ClientId) {
        self.all.remove(&id);
    }
}

/// The keeper's own user, or root.
fn is_own(socket: &OwnedFd) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(socket).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}
