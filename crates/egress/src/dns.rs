//! The name server inside: granted names have addresses, all others do not exist, and nothing is ever passed on.
//!
//! A name is looked up outside only when something connects to its address, so that questions carry nothing out.

// What is in here meets hostile bytes, and a release build ends with a panic: every connection would.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod answer;
mod question;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::{GrantedPorts, Host, HostName, NetworkReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::event::Event;
use crate::gate::Gate;
use crate::limits::Rate;
use crate::listeners::{Listeners, Stay};
use crate::lock::Lock;
use crate::names::Chosen;
use crate::stock::Family;
use answer::Answer;
use question::{Asked, Question, Reading, read};

/// No honest question is longer.
const LONGEST: usize = 1232;
/// Questions that are being answered at one time.
const MOST_AT_ONCE: usize = 256;
/// Questions a second; what is beyond is dropped and asked again.
const MOST_A_SECOND: u64 = 5000;
const MOST_STREAMS: usize = 64;
/// How long a TCP client may take for a question.
const PATIENCE: Duration = Duration::from_secs(10);
/// Refusals that are remembered, to tell a program's second question for the same name (A, then AAAA) from a new try.
const RECENT: usize = 64;

pub(crate) struct Dns {
    gate: Gate,
    listeners: Arc<Listeners>,
    learn: bool,
    at_once: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    rate: Rate,
    refused: Lock<VecDeque<(SocketAddr, String)>>,
}

impl Dns {
    pub(crate) fn new(gate: Gate, listeners: Arc<Listeners>, learn: bool) -> Self {
        Self {
            gate,
            listeners,
            learn,
            at_once: Arc::new(Semaphore::new(MOST_AT_ONCE)),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            rate: Rate::new(MOST_A_SECOND),
            refused: Lock::default(),
        }
    }

    pub(crate) async fn serve_udp(self: Arc<Self>, socket: UdpSocket) {
        let socket = Arc::new(socket);
        let mut buffer = [0; LONGEST + 1];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                sleep(Duration::from_millis(10)).await;
                continue;
            };
            if length > LONGEST || !self.rate.take() {
                continue;
            }
            let Ok(place) = self.at_once.clone().try_acquire_owned() else { continue };
            let packet = buffer.get(..length).unwrap_or_default().to_vec();
            let (dns, socket) = (self.clone(), socket.clone());
            tokio::spawn(async move {
                if let Some(answer) = dns.respond(&packet, from).await {
                    let _ = socket.send_to(&answer, from).await;
                }
                drop(place);
            });
        }
    }

    pub(crate) async fn serve_tcp(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = self.streams.clone().try_acquire_owned() else { continue };
            let dns = self.clone();
            tokio::spawn(async move {
                let _ = dns.serve_stream(stream, from).await;
                drop(place);
            });
        }
    }

    async fn serve_stream(&self, mut stream: TcpStream, from: SocketAddr) -> Option<()> {
        loop {
            let length = usize::from(timeout(PATIENCE, stream.read_u16()).await.ok()?.ok()?);
            if length > LONGEST {
                return None;
            }
            let mut packet = vec![0; length];
            timeout(PATIENCE, stream.read_exact(&mut packet)).await.ok()?.ok()?;
            while !self.rate.take() {
                sleep(Duration::from_millis(10)).await;
            }
            let answer = self.respond(&packet, from).await?;
            let mut framed = u16::try_from(answer.len()).ok()?.to_be_bytes().to_vec();
            framed.extend(answer);
            timeout(PATIENCE, stream.write_all(&framed)).await.ok()?.ok()?;
        }
    }

    /// `None`: not worth an answer.
    async fn respond(&self, packet: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        match read(packet) {
            Reading::Drop => None,
            Reading::Wrong(wrong) => Some(wrong),
            Reading::Question(question) => {
                let answer = self.answer(&question, from).await;
                answer::write(&question, &answer)
            }
        }
    }

    async fn answer(&self, question: &Question, from: SocketAddr) -> Answer {
        let name = match &question.name {
            Ok(name) => name,
            // Asked by habit.
            Err(question::BadName::Root) => return Answer::Nothing,
            Err(question::BadName::Text { shown, why }) => {
                self.refuse(shown, from, NetworkReason::BadName { why: why.clone() });
                return Answer::NoSuchName;
            }
        };
        if let Some(address) = question.reverse {
            return self.gate.names().name_of(address).map_or(Answer::NoSuchName, Answer::Name);
        }
        if name.is_localhost() {
            return match question.asked {
                Asked::V4 => Answer::Address(Ipv4Addr::LOCALHOST.into()),
                Asked::V6 => Answer::Address(Ipv6Addr::LOCALHOST.into()),
                Asked::Other => Answer::Nothing,
            };
        }
        let ports = match self.gate.rules().ports_of(name) {
            GrantedPorts::None if !self.learn => {
                let reason = self.gate.rules().decide(&Host::Name(name.clone()), 443);
                self.refuse(name.as_str(), from, reason.err().unwrap_or(NetworkReason::NotGranted));
                return Answer::NoSuchName;
            }
            GrantedPorts::Some(ports) => ports,
            // The owner hears of each connect before it is carried out.
            GrantedPorts::None | GrantedPorts::Any => Default::default(),
        };
        let none = match question.asked {
            Asked::Other => true,
            // A machine without IPv6 has sandboxes without.
            Asked::V6 => !self.listeners.knows(Family::V6),
            Asked::V4 => false,
        };
        if none {
            return Answer::Nothing;
        }
        match self.place(name, question.asked, ports.into_iter()).await {
            Ok(address) => Answer::Address(address),
            Err(NetworkReason::EgressGone) => Answer::Failure,
            Err(reason) => {
                self.refuse(name.as_str(), from, reason);
                Answer::Failure
            }
        }
    }

    /// The address of a name, with a listener on each of its ports.
    async fn place(
        &self,
        name: &HostName,
        asked: Asked,
        ports: impl Iterator<Item = u16>,
    ) -> Result<IpAddr, NetworkReason> {
        self.gate.outbox().room().await;
        let chosen = match self.gate.rules().names_exactly(name) {
            true => Chosen::ByRule,
            false => Chosen::ByCommand,
        };
        let found = self.gate.names().find_or_add(name, chosen)?;
        let (v4, v6) = found.pair;
        if found.new {
            self.gate.outbox().push(Event::Named { name: name.to_string(), v4, v6 });
        }
        let address = if asked == Asked::V4 { IpAddr::from(v4) } else { IpAddr::from(v6) };
        let host = Host::Name(name.clone());
        for port in ports {
            self.listeners.ensure(SocketAddr::new(address, port), &host, Stay::Always(chosen)).await?;
        }
        // The owner must know the name before anything can connect to it.
        self.gate.outbox().settled().await;
        Ok(address)
    }

    fn refuse(&self, host: &str, from: SocketAddr, reason: NetworkReason) {
        let this = (from, host.to_owned());
        let mut refused = self.refused.lock();
        if refused.contains(&this) {
            return;
        }
        refused.push_back(this);
        if refused.len() > RECENT {
            refused.pop_front();
        }
        drop(refused);
        self.gate.refuse(host, None, Some(from), reason);
    }
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
