//! Relaying what is neither TLS nor HTTP at its start, to a host that was granted by name or address.
//!
//! Until the host has answered, a client of such a protocol may still turn out to speak HTTP, to a server that skips what
//! it can't read; that is refused. PostgreSQL agrees on TLS in its own way first, and its client hello is held to the
//! same rules as one from the start.

use std::io;
use std::time::Duration;

use ringfence_policy::NetworkReason;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::judge::judge_hello;
use super::tls::{Ended, Failure, broken, read_more, relay_tls};
use crate::admission::Admission;
use crate::relay::{Pump, Way};
use crate::sniff::{MOST_BYTES, NoHello, Records, is_empty, is_late_request, is_request, starts_with_digit};

/// How a client of PostgreSQL asks for TLS, and for encryption by Kerberos.
const REQUESTS: [[u8; 8]; 2] = [[0, 0, 0, 8, 4, 210, 22, 47], [0, 0, 0, 8, 4, 210, 22, 48]];
const AGREED_ON_TLS: u8 = b'S';
const REFUSED: u8 = b'N';
/// For the server to say whether it has what was asked for.
const ANSWER: Duration = Duration::from_secs(60);

/// Lines are looked at in so many bytes of a client whose server says nothing.
const LOOKED_AT: u64 = 256 << 10;
const LONGEST_LINE: usize = 16 << 10;

/// `held`: what the client has sent.
pub(super) async fn relay_raw(
    client: &TcpStream,
    upstream: &TcpStream,
    admission: &Admission,
    held: &[u8],
) -> Ended {
    let mut held = held.to_vec();
    match negotiate(client, upstream, admission, &mut held).await {
        Ok(Some(hello)) => return relay_tls(client, upstream, admission, &held, hello).await,
        Ok(None) => {}
        Err(failure) => return failure.into(),
    }
    let outward = async {
        let mut pump = Pump::new(client, upstream, Way::Out, admission);
        send_first(client, &mut pump, held, admission).await?;
        pump.run().await.map_err(Failure::Io)
    };
    let inward = async { Pump::new(upstream, client, Way::In, admission).run().await.map_err(Failure::Io) };
    match tokio::try_join!(outward, inward) {
        Ok(_) => Ended::Done(Ok(())),
        Err(failure) => failure.into(),
    }
}

/// Pass on how a client of PostgreSQL and its server agree on TLS. If they do: how many bytes of `held`, which begins
/// with it, the client hello took. What others say stays in `held`.
async fn negotiate(
    client: &TcpStream,
    upstream: &TcpStream,
    admission: &Admission,
    held: &mut Vec<u8>,
) -> Result<Option<usize>, Failure> {
    loop {
        while REQUESTS
            .iter()
            .any(|request| held.len() < request.len() && request.starts_with(held.as_slice()))
        {
            if from_client(client, held, admission).await? == 0 {
                return Ok(None);
            }
        }
        if !REQUESTS.iter().any(|request| held.starts_with(request)) {
            return Ok(None);
        }
        let rest = held.split_off(REQUESTS[0].len());
        Pump::new(client, upstream, Way::Out, admission).send(held).await?;
        // Nothing of what follows gets there before the server has answered.
        *held = rest;
        let mut answer = Vec::new();
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the server does not say whether it has TLS");
        timeout(ANSWER, read_more(upstream, &mut answer)).await.map_err(|_| late())??;
        Pump::new(upstream, client, Way::In, admission).send(&answer).await?;
        match answer.first() {
            Some(&AGREED_ON_TLS) => return read_hello(client, admission, held).await,
            Some(&REFUSED) => {}
            _ => return Ok(None),
        }
    }
}

/// The length of the client hello, which is for the right host.
async fn read_hello(
    client: &TcpStream,
    admission: &Admission,
    held: &mut Vec<u8>,
) -> Result<Option<usize>, Failure> {
    let mut records = Records::default();
    loop {
        match records.look(held) {
            Ok(Some(hello)) => {
                judge_hello(admission, &hello).map_err(Failure::Refused)?;
                return Ok(Some(records.length()));
            }
            Ok(None) if held.len() < MOST_BYTES => {}
            Ok(None) => return Err(Failure::Refused(broken("it has no end"))),
            Err(NoHello::Other) => {
                return Err(Failure::Refused(broken("it does not start with a client hello")));
            }
            Err(NoHello::Broken(why)) => return Err(Failure::Refused(broken(why))),
        }
        if from_client(client, held, admission).await? == 0 {
            return if held.is_empty() { Ok(None) } else { Err(Failure::Refused(broken("it is not whole"))) };
        }
    }
}

/// Pass on what the client says until the server answers it.
async fn send_first(
    client: &TcpStream,
    pump: &mut Pump<'_>,
    mut held: Vec<u8>,
    admission: &Admission,
) -> Result<(), Failure> {
    let mut lines = Lines::default();
    loop {
        let counts = admission.counts();
        let is_over = counts.received() > 0 || counts.sent() > LOOKED_AT;
        if !is_over && lines.hold_request(&held) {
            return Err(Failure::Refused(request_behind()));
        }
        // A line that may become a request gets there, but not its end.
        pump.send(&held).await?;
        if is_over {
            return Ok(());
        }
        held.clear();
        if from_client(client, &mut held, admission).await? == 0 {
            // The end of the connection is an end of the line too, to some.
            return if lines.end_in_request() { Err(Failure::Refused(request_behind())) } else { Ok(()) };
        }
    }
}

fn request_behind() -> NetworkReason {
    NetworkReason::Malformed { why: "it follows bytes that are no part of a request".to_owned() }
}

/// A client that can't be read from has gone, which it may.
async fn from_client(client: &TcpStream, held: &mut Vec<u8>, admission: &Admission) -> io::Result<usize> {
    let read = read_more(client, held).await;
    if read.is_err() {
        admission.settle();
    }
    read
}

/// The lines of a stream, one after the other.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    /// No server's request line is as long as this one; the rest of it is not kept.
    is_long: bool,
    /// The connection's first line, empty ones aside, has ended.
    is_later: bool,
}

impl Lines {
    fn hold_request(&mut self, bytes: &[u8]) -> bool {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST_LINE - self.line.len();
            self.is_long |= part.len() > room;
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            if self.begins_request() {
                return true;
            }
            if part.ends_with(b"\n") {
                if self.end_in_request() {
                    return true;
                }
                self.is_later |= !is_empty(&self.line);
                self.line.clear();
                self.is_long = false;
            }
        }
        false
    }

    /// Of the first line the sniffer may have seen no more than how it begins. Not all servers wait for its end.
    fn begins_request(&self) -> bool {
        let is_long = || self.is_long && starts_with_digit(&self.line);
        !self.is_later && (is_late_request(&self.line) || is_long())
    }

    fn end_in_request(&self) -> bool {
        !self.is_long && is_request(&self.line)
    }
}

#[cfg(test)]
#[path = "raw_tests.rs"]
mod tests;
