//! Reaching what was admitted: look up outside, check every address, dial a checked one, or ask the user's own proxy.
//!
//! Invariant: an address that was not checked for this host is never dialled, and what is dialled is the very address
//! that was checked.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use ringfence_policy::{Host, NetworkReason};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::admission::Admission;
use crate::gate::Gate;
use crate::own::is_own_address;
use crate::relay::{bound_buffers, prepare};
use crate::resolve::LookupError;
use crate::upstream::{Proxy, ProxyKind, Purpose};

/// Looking up, connecting and a proxy's answer together may take this long.
const DEADLINE: Duration = Duration::from_secs(30);
/// The next address is tried beside a slow one after this time (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);
/// A name with more addresses is not tried on all of them.
const MOST_ADDRESSES: usize = 16;

/// Why nothing was reached. A `Refused` is recorded already.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("refused")]
    Refused(NetworkReason),
    #[error("{0}")]
    Failed(#[from] io::Error),
    #[error("no answer within {} seconds", DEADLINE.as_secs())]
    TimedOut,
    #[error("the upstream proxy refused: {0}")]
    Proxy(String),
}

/// A dial that goes on while it is polled.
pub(crate) type Dialling = Pin<Box<dyn Future<Output = Result<TcpStream, DialError>> + Send>>;

/// The same for plain HTTP.
pub(crate) type HttpDialling = Pin<Box<dyn Future<Output = Result<HttpUpstream, DialError>> + Send>>;

/// Where requests of plain HTTP go.
pub(crate) struct HttpUpstream {
    pub(crate) stream: TcpStream,
    /// The stream leads to the user's own proxy: requests go in absolute form.
    pub(crate) proxy: Option<ForwardProxy>,
}

pub(crate) struct ForwardProxy {
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: Option<String>,
}

/// A raw stream to the admitted host and port.
pub(crate) async fn dial(gate: &Gate, admission: &Admission) -> Result<TcpStream, DialError> {
    let proxy = gate.proxies().for_target(admission.host(), admission.port(), Purpose::Tunnel);
    let reached = timeout(DEADLINE, async {
        match proxy {
            Some(proxy) => through(gate, admission, proxy).await,
            None => directly(gate, admission).await,
        }
    });
    finish(admission, reached.await.unwrap_or(Err(DialError::TimedOut)))
}

/// For plain HTTP: an HTTP proxy of the user's is spoken to in absolute form, since few let CONNECT reach port 80.
pub(crate) async fn dial_http(gate: &Gate, admission: &Admission) -> Result<HttpUpstream, DialError> {
    let proxy = gate.proxies().for_target(admission.host(), admission.port(), Purpose::PlainHttp);
    let reached = timeout(DEADLINE, async {
        Ok(match proxy {
            Some(proxy) if proxy.kind == ProxyKind::Http => {
                check_literal(gate, admission)?;
                let stream = reach_proxy(gate, proxy).await?;
                HttpUpstream { stream, proxy: Some(ForwardProxy { authorization: proxy.authorization() }) }
            }
            Some(proxy) => HttpUpstream { stream: through(gate, admission, proxy).await?, proxy: None },
            None => HttpUpstream { stream: directly(gate, admission).await?, proxy: None },
        })
    });
    finish(admission, reached.await.unwrap_or(Err(DialError::TimedOut)))
}

fn finish<T>(admission: &Admission, reached: Result<T, DialError>) -> Result<T, DialError> {
    match &reached {
        Err(DialError::Refused(reason)) => admission.refuse(reason.clone()),
        Err(error) => admission.fail(error),
        Ok(_) => {}
    }
    reached
}

async fn directly(gate: &Gate, admission: &Admission) -> Result<TcpStream, DialError> {
    let addresses = addresses(gate, admission).await?;
    let stream = connect(&addresses).await?;
    if gate.is_crowded() {
        bound_buffers(&stream);
    }
    admission.dialled(stream.peer_addr()?.ip());
    Ok(stream)
}

/// Checked addresses, in the order in which they are tried.
async fn addresses(gate: &Gate, admission: &Admission) -> Result<Vec<SocketAddr>, DialError> {
    let (host, port) = (admission.host(), admission.port());
    #[cfg(test)]
    if let Some(stand_in) = gate.stand_in(&host.to_string(), port) {
        return Ok(vec![stand_in]);
    }
    let found = match host {
        Host::Address(address) if admission.is_local() => {
            // A service of the caller's may be on either; what the program asked for comes first.
            let other: IpAddr = match address {
                IpAddr::V4(_) => Ipv6Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
            };
            gate.rules().check_address(host, port, *address).map_err(DialError::Refused)?;
            return Ok([*address, other].map(|address| SocketAddr::new(address, port)).to_vec());
        }
        Host::Address(address) => vec![*address],
        Host::Name(name) => gate.resolver().lookup(name).await.map_err(|error| match error {
            LookupError::Unknown => DialError::Refused(NetworkReason::Unresolved),
            LookupError::Failed(_) => DialError::Failed(io::Error::other(error.to_string())),
        })?,
    };
    let mut refused = DialError::Refused(NetworkReason::Unresolved);
    let mut checked = Vec::new();
    for address in found {
        match check(gate, host, port, address) {
            Ok(()) => checked.push(address.to_canonical()),
            Err(error) => refused = error,
        }
    }
    if checked.is_empty() {
        return Err(refused);
    }
    Ok(in_turn(checked).into_iter().map(|address| SocketAddr::new(address, port)).collect())
}

/// By its class, and that it is not this machine's own. What can't be told is not dialled.
fn check(gate: &Gate, host: &Host, port: u16, address: IpAddr) -> Result<(), DialError> {
    gate.rules().check_address(host, port, address).map_err(DialError::Refused)?;
    if is_own_address(address)? {
        gate.rules().check_own(host, port, address).map_err(DialError::Refused)?;
    }
    Ok(())
}

/// IPv6 and IPv4 by turns, IPv6 first; each family as DNS gave it.
fn in_turn(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let (six, four): (Vec<IpAddr>, Vec<IpAddr>) = addresses.into_iter().partition(IpAddr::is_ipv6);
    let (mut six, mut four) = (six.into_iter(), four.into_iter());
    let mut turns = Vec::new();
    loop {
        let pair = [six.next(), four.next()];
        if pair == [None, None] || turns.len() >= MOST_ADDRESSES {
            return turns;
        }
        turns.extend(pair.into_iter().flatten());
    }
}

/// A connection to the first of these that answers, which sends at once what is written: nothing waits for an
/// acknowledgement.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let stream = race(addresses).await?;
    prepare(&stream);
    Ok(stream)
}

/// The first that answers; the next one is started when one fails or is slow.
async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect(only).await;
    }
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.iter().copied();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        let slow =
            async { if waiting.len() == 0 { std::future::pending().await } else { sleep(STAGGER).await } };
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last = error,
                Some(Err(_)) => {}
                None => return Err(last),
            },
            () = slow => {}
        }
    }
}

async fn through(gate: &Gate, admission: &Admission, proxy: &Proxy) -> Result<TcpStream, DialError> {
    check_literal(gate, admission)?;
    let mut stream = reach_proxy(gate, proxy).await?;
    proxy.reach(&mut stream, admission.host(), admission.port()).await?;
    Ok(stream)
}

/// A proxy gets names as names; an address can be checked here.
fn check_literal(gate: &Gate, admission: &Admission) -> Result<(), DialError> {
    match admission.host() {
        Host::Address(address) => check(gate, admission.host(), admission.port(), *address),
        Host::Name(name) if name.is_localhost() => Err(DialError::Refused(NetworkReason::Unresolved)),
        Host::Name(_) => Ok(()),
    }
}

/// The user chose the proxy: its own address may be anywhere.
async fn reach_proxy(gate: &Gate, proxy: &Proxy) -> Result<TcpStream, DialError> {
    let unreachable = |why: String| DialError::Proxy(format!("{}:{}: {why}", proxy.host, proxy.port));
    let addresses = match &proxy.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            gate.resolver().lookup(name).await.map_err(|error| unreachable(error.to_string()))?
        }
    };
    let addresses: Vec<_> =
        in_turn(addresses).into_iter().map(|address| SocketAddr::new(address, proxy.port)).collect();
    let stream = connect(&addresses).await.map_err(|error| unreachable(error.to_string()))?;
    if gate.is_crowded() {
        bound_buffers(&stream);
    }
    Ok(stream)
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
