//! Datagrams that a program inside sent to somebody outside. None is carried: the kernel itself tells the sender at once
//! that nobody is there, by an ICMP message which quotes the datagram. Here those messages are read, so that each is a
//! denial with its target.

// What is in here meets hostile bytes, and a release build ends with a panic: every connection would.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::{Host, NetworkReason};
use tokio::net::UdpSocket;
use tokio::time::sleep;

use crate::addresses::{DNS, HTTP_PROXY};
use crate::gate::Gate;
use crate::limits::Rate;
use crate::lock::Lock;
use crate::stock::Family;

/// Denials a second; beyond that they are not told apart any more.
const MOST_A_SECOND: u64 = 2000;
/// Headers, and the headers of what they quote. The rest of a message is cut off.
const LONGEST: usize = 256;
/// At the end, what was not read yet is read, but not for ever.
const MOST_AT_THE_END: usize = 4096;

pub(crate) struct Datagrams {
    gate: Gate,
    rate: Rate,
    sockets: Lock<Vec<(Family, Arc<UdpSocket>)>>,
}

/// A datagram that nobody took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    from: SocketAddr,
    to: SocketAddr,
}

impl Datagrams {
    pub(crate) fn new(gate: Gate) -> Self {
        Self { gate, rate: Rate::new(MOST_A_SECOND), sockets: Lock::default() }
    }

    pub(crate) fn watch(self: &Arc<Self>, family: Family, socket: UdpSocket) {
        let socket = Arc::new(socket);
        self.sockets.lock().push((family, socket.clone()));
        let datagrams = self.clone();
        tokio::spawn(async move {
            let mut message = [0; LONGEST];
            loop {
                datagrams.gate.outbox().room().await;
                match socket.recv(&mut message).await {
                    Ok(length) => datagrams.hear(family, message.get(..length).unwrap_or_default()),
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
    }

    /// What has come and was not heard yet: a command may send and end at once.
    pub(crate) fn drain(&self) {
        let mut message = [0; LONGEST];
        for (family, socket) in self.sockets.lock().iter() {
            for _ in 0..MOST_AT_THE_END {
                let Ok(length) = socket.try_recv(&mut message) else { break };
                self.hear(*family, message.get(..length).unwrap_or_default());
            }
        }
    }

    fn hear(&self, family: Family, message: &[u8]) {
        let refused = match family {
            Family::V4 => read_v4(message),
            Family::V6 => read_v6(message),
        };
        let Some(Refused { from, to }) = refused.filter(leads_out) else { return };
        if self.rate.take() {
            let host = self.gate.named(Host::from(to.ip())).to_string();
            self.gate.refuse(&host, Some(to.port()), Some(from), NetworkReason::Udp);
        }
    }
}

/// Programs inside may speak to each other by UDP, and our own answers may come too late for who asked.
fn leads_out(Refused { from, to }: &Refused) -> bool {
    let ours = [DNS.ip(), HTTP_PROXY.ip()];
    let inside = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified() || ours.contains(&ip);
    from.ip() != DNS.ip() && !inside(to.ip().to_canonical())
}

const UDP: u8 = 17;

/// As a raw socket gets it: with the IP header.
fn read_v4(message: &[u8]) -> Option<Refused> {
    const UNREACHABLE: u8 = 3;
    let (_, icmp) = split_v4(message)?;
    let [UNREACHABLE, _, _, _, _, _, _, _, quoted @ ..] = icmp else { return None };
    let (header, udp) = split_v4(quoted)?;
    if *header.get(9)? != UDP {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 4] = header.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets).into())
    };
    between(address(12)?, address(16)?, udp)
}

/// The header of a packet, and what follows it.
fn split_v4(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(packet.first()? & 15) * 4;
    (length >= 20).then(|| packet.split_at_checked(length)).flatten()
}

/// As a raw socket gets it: without the IP header.
fn read_v6(message: &[u8]) -> Option<Refused> {
    const UNREACHABLE: u8 = 1;
    let [UNREACHABLE, _, _, _, _, _, _, _, quoted @ ..] = message else { return None };
    let (header, udp) = quoted.split_at_checked(40)?;
    if *header.get(6)? != UDP {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(octets).into())
    };
    between(address(8)?, address(24)?, udp)
}

fn between(from: IpAddr, to: IpAddr, udp: &[u8]) -> Option<Refused> {
    let [high, low, to_high, to_low, ..] = *udp else { return None };
    Some(Refused {
        from: SocketAddr::new(from, u16::from_be_bytes([high, low])),
        to: SocketAddr::new(to, u16::from_be_bytes([to_high, to_low])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(from: [u8; 4], to: [u8; 4], protocol: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from.iter().chain(&to).chain(rest));
        packet
    }

    fn told_v4(from: [u8; 4], to: [u8; 4], protocol: u8) -> Vec<u8> {
        let quoted = v4(from, to, protocol, &[0x9c, 0x40, 1, 187, 0, 9, 0, 0, b'x']);
        let icmp = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
        v4(to, from, 1, &icmp)
    }

    fn told_v6(to: &str) -> Vec<u8> {
        let mut message = vec![1, 4, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 9, UDP, 64];
        message.extend("fd72:6664::9".parse::<Ipv6Addr>().unwrap().octets());
        message.extend(to.parse::<Ipv6Addr>().unwrap().octets());
        message.extend([0x9c, 0x40, 1, 187, 0, 9, 0, 0]);
        message
    }

    #[test]
    fn what_is_quoted_is_what_was_sent() {
        let refused = read_v4(&told_v4([198, 18, 1, 0], [192, 0, 2, 66], UDP)).unwrap();
        assert_eq!(refused.from, "198.18.1.0:40000".parse().unwrap());
        assert_eq!(refused.to, "192.0.2.66:443".parse().unwrap());
        let refused = read_v6(&told_v6("2001:db8::66")).unwrap();
        assert_eq!(refused.from, "[fd72:6664::9]:40000".parse().unwrap());
        assert_eq!(refused.to, "[2001:db8::66]:443".parse().unwrap());
    }

    #[test]
    fn anything_else_is_nothing() {
        assert_eq!(read_v4(&told_v4([198, 18, 1, 0], [192, 0, 2, 66], 6)), None);
        let mut echo = told_v4([198, 18, 1, 0], [192, 0, 2, 66], UDP);
        echo[20] = 8;
        assert_eq!(read_v4(&echo), None);
        // However it is cut short, or its lengths lie.
        for (whole, read) in [
            (told_v4([198, 18, 1, 0], [192, 0, 2, 66], UDP), read_v4 as fn(&[u8]) -> Option<Refused>),
            (told_v6("2001:db8::66"), read_v6),
        ] {
            for length in 0..whole.len() {
                let _ = read(&whole[..length]);
                for value in [0, 0x41, 0x4f, 255] {
                    let mut other = whole.clone();
                    other[length] = value;
                    let _ = read(&other);
                }
            }
        }
        assert_eq!(read_v4(&[]), None);
        assert_eq!(read_v6(&[1, 4]), None);
    }

    #[test]
    fn what_stays_inside_is_no_attempt() {
        let to = |to: [u8; 4]| read_v4(&told_v4([198, 18, 1, 0], to, UDP)).unwrap();
        assert!(leads_out(&to([192, 0, 2, 66])) && leads_out(&to([198, 18, 1, 0])));
        for inside in [[127, 0, 0, 1], [198, 18, 0, 1], [198, 18, 0, 2], [0, 0, 0, 0]] {
            assert!(!leads_out(&to(inside)), "{inside:?}");
        }
        // An answer of our name server that nobody waited for.
        assert!(!leads_out(&read_v4(&told_v4([198, 18, 0, 1], [198, 18, 1, 0], UDP)).unwrap()));
    }
}
