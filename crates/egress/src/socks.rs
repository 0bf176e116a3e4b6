//! A SOCKS5 proxy inside (RFC 1928), for programs that insist on one: no login, CONNECT only.
//!
//! Names go through the same gate as everything else; they are never looked up for the client.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use ringfence_policy::{Host, NetworkReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::carry::carry_to;
use crate::dial::{DialError, dial};
use crate::event::Via;
use crate::gate::Gate;

const VERSION: u8 = 5;
/// A client says at once what it wants.
const GREETING: Duration = Duration::from_secs(15);
/// To read a refusal, before the connection goes.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    Refused = 5,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

/// Why there is no request to carry out.
enum Bad {
    /// Say so.
    Reply(Reply),
    /// A name that can't be one; recorded, then said.
    Name { text: String, why: String },
    /// It does not speak SOCKS5, or broke off.
    Silence,
}

impl From<io::Error> for Bad {
    fn from(_: io::Error) -> Self {
        Self::Silence
    }
}

/// One client's connection to the proxy, to its end.
pub(crate) async fn serve(gate: Gate, mut client: TcpStream, from: SocketAddr) {
    let (host, port) = match timeout(GREETING, read_request(&mut client)).await {
        Ok(Ok(target)) => target,
        Ok(Err(Bad::Reply(reply))) => return refuse(client, reply).await,
        Ok(Err(Bad::Name { text, why })) => {
            gate.refuse(&text, None, Some(from), NetworkReason::BadName { why });
            return refuse(client, Reply::NotAllowed).await;
        }
        Ok(Err(Bad::Silence)) | Err(_) => return,
    };
    let admission = match gate.admit(&host, port, from, Via::Socks) {
        Ok(admission) => admission,
        Err(NetworkReason::Connections { .. }) => return refuse(client, Reply::Failed).await,
        Err(_) => return refuse(client, Reply::NotAllowed).await,
    };
    let upstream = match dial(&gate, &admission).await {
        Ok(upstream) => upstream,
        Err(error) => return refuse(client, reply_to(&error)).await,
    };
    match client.write_all(&written(Reply::Succeeded)).await {
        Ok(()) => carry_to(upstream, client, Bytes::new(), admission).await,
        Err(error) => admission.fail(error),
    }
}

/// Greeting and request. Nothing more than these is read: what follows is the tunnel's.
async fn read_request(client: &mut TcpStream) -> Result<(Host, u16), Bad> {
    const NO_LOGIN: u8 = 0;
    const NO_METHOD: u8 = 0xff;
    const CONNECT: u8 = 1;
    let [version, count] = read(client).await?;
    if version != VERSION {
        return Err(Bad::Silence);
    }
    let methods = read_text(client, count).await?;
    if !methods.contains(&NO_LOGIN) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(Bad::Silence);
    }
    client.write_all(&[VERSION, NO_LOGIN]).await?;
    let [version, command, _, kind] = read(client).await?;
    if version != VERSION {
        return Err(Bad::Silence);
    }
    let host = match kind {
        1 => Ok(Host::from(Ipv4Addr::from(read::<4>(client).await?))),
        3 => {
            let [length] = read(client).await?;
            read_name(&read_text(client, length).await?)
        }
        4 => Ok(Host::from(Ipv6Addr::from(read::<16>(client).await?))),
        _ => return Err(Bad::Reply(Reply::AddressNotSupported)),
    };
    let port = u16::from_be_bytes(read(client).await?);
    if command != CONNECT {
        return Err(Bad::Reply(Reply::CommandNotSupported));
    }
    if port == 0 {
        return Err(Bad::Reply(Reply::Refused));
    }
    Ok((host?, port))
}

/// Some clients write an address here; with more than ASCII nothing is a name any more.
fn read_name(bytes: &[u8]) -> Result<Host, Bad> {
    let bad = |why: String| Bad::Name { text: String::from_utf8_lossy(bytes).into_owned(), why };
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii());
    let text = text.ok_or_else(|| bad("it is not ASCII text".to_owned()))?;
    Host::parse(text).map_err(|error| bad(error.to_string()))
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn read_text(client: &mut TcpStream, length: u8) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(length)];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn reply_to(error: &DialError) -> Reply {
    match error {
        DialError::Refused(NetworkReason::Unresolved) | DialError::TimedOut => Reply::HostUnreachable,
        DialError::Refused(_) => Reply::NotAllowed,
        DialError::Failed(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Reply::Refused,
            io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
            io::ErrorKind::HostUnreachable | io::ErrorKind::TimedOut => Reply::HostUnreachable,
            _ => Reply::Failed,
        },
        DialError::Proxy(_) => Reply::Failed,
    }
}

/// The bound address is nobody's business inside.
fn written(reply: Reply) -> [u8; 10] {
    [VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Closing over unread bytes would be a reset that overtakes the reply: what still comes is read for a moment.
async fn refuse(mut client: TcpStream, reply: Reply) {
    let _ = timeout(FAREWELL, async {
        client.write_all(&written(reply)).await?;
        client.shutdown().await?;
        let mut rest = [0; 1024];
        while client.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    })
    .await;
}

#[cfg(test)]
#[path = "socks_tests.rs"]
mod tests;
