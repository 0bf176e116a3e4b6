//! A port inside, reached from a socket outside: connections are accepted here and carried to new ones inside.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use ringfence_linux::{close_except, fork_copy, move_fd, start_session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};

use super::client::{Exposed, Sandbox};
use super::dial::{Dial, Dialed};

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

struct End {
    stream: TcpStream,
    /// It has failed, or is closed both ways. `poll` tells of that for ever, wanted or not.
    hung: bool,
}

impl End {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, hung: false })
    }

    fn is_polled(&self, wanted: PollFlags) -> bool {
        !self.hung || !wanted.is_empty()
    }
}

struct Connection {
    outside: End,
    inside: End,
    inwards: Half,
    outwards: Half,
}

impl Connection {
    fn new(outside: TcpStream, inside: TcpStream) -> io::Result<Self> {
        let (outside, inside) = (End::new(outside)?, End::new(inside)?);
        Ok(Self { outside, inside, inwards: Half::new(), outwards: Half::new() })
    }

    /// Of the outer end and of the inner one.
    fn wanted(&self) -> [PollFlags; 2] {
        let flags = |reads: &Half, writes: &Half| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads.wants());
            flags.set(PollFlags::OUT, !writes.waiting.is_empty());
            flags
        };
        [flags(&self.inwards, &self.outwards), flags(&self.outwards, &self.inwards)]
    }

    fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let polled = [&self.outside, &self.inside].into_iter().zip(self.wanted());
        let polled = polled.filter(|(end, wanted)| end.is_polled(*wanted));
        polled.map(|(end, wanted)| PollFd::from_borrowed_fd(end.stream.as_fd(), wanted))
    }

    /// What `poll` said of those, in the same order. False when it is over.
    fn hear(&mut self, heard: &mut impl Iterator<Item = PollFlags>) -> bool {
        let wanted = self.wanted();
        let mut is_ready = false;
        for (end, wanted) in [&mut self.outside, &mut self.inside].into_iter().zip(wanted) {
            if end.is_polled(wanted) {
                let heard = heard.next().unwrap_or(PollFlags::empty());
                is_ready |= !heard.is_empty();
                end.hung |= heard.intersects(PollFlags::ERR | PollFlags::HUP);
            }
        }
        !is_ready || self.carry()
    }

    /// False when it is over.
    fn carry(&mut self) -> bool {
        let Self { outside, inside, inwards, outwards } = self;
        let carried = inwards.carry(&mut outside.stream, &mut inside.stream);
        let carried = carried.and_then(|()| outwards.carry(&mut inside.stream, &mut outside.stream));
        // All that came from there was passed on, and nothing gets there any more.
        let is_dead = |end: &End, from: &Half| end.hung && from.ended && from.waiting.is_empty();
        let is_over =
            inwards.closed && outwards.closed || is_dead(outside, inwards) || is_dead(inside, outwards);
        carried.is_ok() && !is_over
    }
}

/// Connections on their way, and those that nobody inside has let in yet.
#[derive(Default)]
struct Carried {
    dialing: Vec<(TcpStream, Dial)>,
    connections: Vec<Connection>,
}

impl Carried {
    fn len(&self) -> usize {
        self.dialing.len() + self.connections.len()
    }

    fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let connections = self.connections.iter().flat_map(Connection::polled);
        connections.chain(self.dialing.iter().filter_map(|(_, dial)| dial.polled()))
    }

    fn patience(&self) -> Option<Timespec> {
        let patience = self.dialing.iter().map(|(_, dial)| dial.patience());
        patience.min_by_key(|patience| (patience.tv_sec, patience.tv_nsec))
    }

    /// What `poll` said of those, in the same order.
    fn hear(&mut self, heard: &mut impl Iterator<Item = PollFlags>) {
        self.connections.retain_mut(|connection| connection.hear(heard));
        for (outside, dial) in std::mem::take(&mut self.dialing) {
            self.dial(outside, dial);
        }
    }

    /// Nobody listens inside: the connection is closed, which is what they see of any such port.
    fn dial(&mut self, outside: TcpStream, mut dial: Dial) {
        match dial.go_on() {
            Dialed::Through(inside) => self.connections.extend(Connection::new(outside, inside)),
            Dialed::Waiting => self.dialing.push((outside, dial)),
            Dialed::Failed(_) => {}
        }
    }
}

/// Forward until the session ends or the port is not to be forwarded any more.
pub fn forward(sandbox: &Sandbox, port: u16, listener: TcpListener, exposed: Exposed) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut carried = Carried::default();
    loop {
        let accepts = if carried.len() < MOST { PollFlags::IN } else { PollFlags::empty() };
        let mut polled = vec![
            PollFd::from_borrowed_fd(exposed.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.as_fd(), accepts),
        ];
        polled.extend(carried.polled());
        match poll(&mut polled, carried.patience().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let heard: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        if !heard[0].is_empty() {
            return Ok(());
        }
        carried.hear(&mut heard[2..].iter().copied());
        if !heard[1].is_empty()
            && let Ok((outside, _)) = listener.accept()
            && let Ok(dial) = sandbox.dial(port)
        {
            carried.dial(outside, dial);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::net::sockopt::set_socket_linger;

    use super::*;

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Turns of `forward` until there is nothing to do: true if that came, and the connection is there.
    fn settles(connection: &mut Connection) -> bool {
        for _ in 0..10_000 {
            let mut polled: Vec<PollFd<'_>> = connection.polled().collect();
            let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            if poll(&mut polled, Some(&moment)).unwrap() == 0 {
                return true;
            }
            let heard: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
            if !connection.hear(&mut heard.into_iter()) {
                return false;
            }
        }
        panic!("it turns round and round");
    }

    /// A program inside must not have the forwarder run for ever, outside of all limits.
    #[test]
    fn a_reset_after_the_end_of_what_it_said_ends_the_connection() {
        let ((client, outside), (inside, server)) = (pair(), pair());
        let mut connection = Connection::new(outside, inside).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        assert!(settles(&mut connection), "a client may go on to speak");
        set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
        drop(server);
        assert!(!settles(&mut connection));
        drop(client);
    }

    #[test]
    fn what_a_slow_client_has_not_read_is_waited_for_at_rest() {
        const BYTES: usize = 32 << 20;
        let ((mut client, outside), (inside, mut server)) = (pair(), pair());
        let mut connection = Connection::new(outside, inside).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        server.set_nonblocking(true).unwrap();
        let mut sent = 0;
        // Until all buffers on the way are full.
        loop {
            assert!(settles(&mut connection));
            match server.write(&[7; 1 << 16]) {
                Ok(written) => sent += written,
                Err(error) if is_nothing(&error) => break,
                Err(error) => panic!("{error}"),
            }
            assert!(sent < BYTES);
        }
        drop(server);
        assert!(settles(&mut connection), "it is not all there yet");
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            client.read_to_end(&mut read).map(|_| read.len())
        });
        while settles(&mut connection) {}
        drop(connection);
        assert_eq!(reader.join().unwrap().unwrap(), sent);
    }
}
