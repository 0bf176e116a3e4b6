//! A port inside, reached from a socket outside: connections are accepted here and carried to new ones inside.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use ringfence_linux::{close_except, fork_copy, move_fd, start_session};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};

use super::client::{Exposed, Sandbox};

const BUFFER: usize = 64 << 10;
/// More wait to be accepted.
const MOST: usize = 256;

/// Bytes on their way in one direction.
struct Half {
    waiting: Vec<u8>,
    /// No more comes.
    ended: bool,
    /// That was passed on.
    closed: bool,
}

impl Half {
    fn new() -> Self {
        Self { waiting: Vec::new(), ended: false, closed: false }
    }

    fn wants(&self) -> bool {
        !self.ended && self.waiting.len() < BUFFER
    }

    /// Move what can be moved now. An error ends both directions.
    fn carry(&mut self, from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
        let mut buffer = [0; BUFFER];
        if self.wants() {
            match from.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(read) => self.waiting.extend_from_slice(&buffer[..read]),
                Err(error) if is_nothing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        while !self.waiting.is_empty() {
            match to.write(&self.waiting) {
                Ok(written) => drop(self.waiting.drain(..written)),
                Err(error) if is_nothing(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if self.ended && self.waiting.is_empty() && !self.closed {
            self.closed = true;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

struct Connection {
    outside: TcpStream,
    inside: TcpStream,
    inwards: Half,
    outwards: Half,
}

impl Connection {
    fn polled(&self) -> [PollFd<'_>; 2] {
        let flags = |reads: &Half, writes: &Half| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads.wants());
            flags.set(PollFlags::OUT, !writes.waiting.is_empty());
            flags
        };
        [
            PollFd::from_borrowed_fd(self.outside.as_fd(), flags(&self.inwards, &self.outwards)),
            PollFd::from_borrowed_fd(self.inside.as_fd(), flags(&self.outwards, &self.inwards)),
        ]
    }

    /// False when it is over.
    fn carry(&mut self) -> bool {
        let Self { outside, inside, inwards, outwards } = self;
        let carried = inwards.carry(outside, inside).and_then(|()| outwards.carry(inside, outside));
        carried.is_ok() && !(inwards.closed && outwards.closed)
    }
}

/// Forward until the session ends or the port is not to be forwarded any more.
pub fn forward(sandbox: &Sandbox, port: u16, listener: TcpListener, exposed: Exposed) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let accepts = if connections.len() < MOST { PollFlags::IN } else { PollFlags::empty() };
        let mut polled = vec![
            PollFd::from_borrowed_fd(exposed.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.as_fd(), accepts),
        ];
        polled.extend(connections.iter().flat_map(Connection::polled));
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (gone, knocks) = (!polled[0].revents().is_empty(), !polled[1].revents().is_empty());
        let ready: Vec<bool> =
            polled[2..].chunks(2).map(|two| two.iter().any(|fd| !fd.revents().is_empty())).collect();
        if gone {
            return Ok(());
        }
        let mut ready = ready.into_iter();
        connections.retain_mut(|connection| !ready.next().unwrap_or(false) || connection.carry());
        if knocks && let Ok((outside, _)) = listener.accept() {
            // Nobody listens inside: the connection is closed, which is what they see of any such port.
            if let Ok(inside) = sandbox.connect_port(port) {
                outside.set_nonblocking(true)?;
                inside.set_nonblocking(true)?;
                connections.push(Connection { outside, inside, inwards: Half::new(), outwards: Half::new() });
            }
        }
    }
}

/// Fork: true in the process that goes on without a terminal, false in the one that was called. Only for a process with one
/// thread.
pub fn into_background(keep: &[BorrowedFd<'_>]) -> io::Result<bool> {
    if fork_copy()?.is_some() {
        return Ok(false);
    }
    start_session()?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for number in 0..3 {
        move_fd(null.as_fd(), number)?;
    }
    close_except(keep)?;
    std::mem::forget(null);
    Ok(true)
}
