//! Relaying TLS that is not ended here.
//!
//! A server of TLS 1.3 may ask for a second client hello, and that one names a server again. So what follows the first
//! hello is held until the server has answered it, which costs an honest client nothing but the head start of early data.

use std::io;

use ringfence_policy::NetworkReason;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::judge::judge_hello;
use crate::admission::Admission;
use crate::relay::{Pump, Way};
use crate::sniff::{MOST_BYTES, NoHello, Records};

/// The "random" of a server hello that is a request to retry (RFC 8446, 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Record header, handshake header, version, random.
const SERVER_HELLO_START: usize = 5 + 4 + 2 + 32;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Why a relay ended.
pub(super) enum Ended {
    Done(io::Result<()>),
    /// What came later is for another host.
    Refused(NetworkReason),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io(error) => Self::Done(Err(error)),
            Failure::Refused(reason) => Self::Refused(reason),
        }
    }
}

/// `held`: what the client has sent, of which the first hello took `hello` bytes.
pub(super) async fn relay_tls(
    client: &TcpStream,
    upstream: &TcpStream,
    admission: &Admission,
    held: &[u8],
    hello: usize,
) -> Ended {
    let (tell, told) = oneshot::channel();
    let (first, rest) = held.split_at_checked(hello).unwrap_or((held, &[]));
    let inward = async {
        let start = read_start(upstream).await?;
        let _ = tell.send(may_be_retry(&start));
        let mut pump = Pump::new(upstream, client, Way::In, admission);
        pump.send(&start).await?;
        pump.run().await.map_err(Failure::Io)
    };
    let outward = async {
        let mut pump = Pump::new(client, upstream, Way::Out, admission);
        pump.send(first).await?;
        let mut rest = rest.to_vec();
        // The sender is gone only where the other direction has failed, and that ends this one.
        if told.await.unwrap_or(true) {
            rest = second_hello(client, &mut pump, rest, admission).await?;
        }
        pump.send(&rest).await?;
        pump.run().await.map_err(Failure::Io)
    };
    match tokio::try_join!(outward, inward) {
        Ok(_) => Ended::Done(Ok(())),
        Err(failure) => failure.into(),
    }
}

pub(super) enum Failure {
    Io(io::Error),
    Refused(NetworkReason),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The server's first bytes, as many as it takes to know its answer.
async fn read_start(upstream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(4096);
    while start.len() < SERVER_HELLO_START && start.first().is_none_or(|&kind| kind == HANDSHAKE) {
        if read_more(upstream, &mut start).await? == 0 {
            break;
        }
    }
    Ok(start)
}

/// In doubt, yes: then a second hello is looked for, and nothing else changes.
fn may_be_retry(start: &[u8]) -> bool {
    match start {
        [HANDSHAKE, _, _, high, low, rest @ ..] => {
            let whole = usize::from(u16::from_be_bytes([*high, *low])) >= SERVER_HELLO_START - 5;
            !whole || rest.get(6..SERVER_HELLO_START - 5).is_none_or(|random| random == RETRY)
        }
        // An alert, or not TLS at all.
        [_, ..] => false,
        [] => false,
    }
}

/// Pass records on until the one that must be the second hello, and judge that. Returns what was read and not sent.
async fn second_hello(
    client: &TcpStream,
    pump: &mut Pump<'_>,
    mut held: Vec<u8>,
    admission: &Admission,
) -> Result<Vec<u8>, Failure> {
    let mut records = Records::default();
    loop {
        let kind = held.first().copied();
        match (kind, held.get(3..5)) {
            (Some(CHANGE_CIPHER_SPEC | ALERT | APPLICATION_DATA), Some(&[high, low])) => {
                let length = 5 + usize::from(u16::from_be_bytes([high, low]));
                if held.len() >= length {
                    let rest = held.split_off(length);
                    pump.send(&held).await?;
                    held = rest;
                    continue;
                }
            }
            (Some(HANDSHAKE), _) => match records.look(&held) {
                Ok(Some(hello)) => {
                    judge_hello(admission, &hello).map_err(Failure::Refused)?;
                    return Ok(held);
                }
                Ok(None) if held.len() < MOST_BYTES => {}
                Ok(None) => return Err(Failure::Refused(broken("it has no end"))),
                // It was no request to retry: the handshake goes on.
                Err(NoHello::Other) => return Ok(held),
                Err(NoHello::Broken(why)) => return Err(Failure::Refused(broken(why))),
            },
            (Some(CHANGE_CIPHER_SPEC | ALERT | APPLICATION_DATA), None) | (None, _) => {}
            // No TLS server takes that.
            _ => return Ok(held),
        }
        match read_more(client, &mut held).await {
            Ok(0) => return Ok(held),
            Ok(_) => {}
            Err(error) => {
                admission.settle();
                return Err(error.into());
            }
        }
    }
}

pub(super) fn broken(why: &str) -> NetworkReason {
    NetworkReason::BadName { why: format!("the TLS client hello can't be read: {why}") }
}

pub(super) async fn read_more(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        bytes.reserve(4096);
        match stream.try_read_buf(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
pub(super) mod tests;
