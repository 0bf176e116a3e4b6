//! CONNECT through a SOCKS5 proxy (RFC 1928), with a user name and password (RFC 1929) where there is one.

use std::net::IpAddr;

use ringfence_policy::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::dial::DialError;

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const LOGIN: u8 = 2;

pub(super) async fn tunnel(
    stream: &mut TcpStream,
    host: &Host,
    port: u16,
    login: Option<(&str, &str)>,
) -> Result<(), DialError> {
    let methods: &[u8] =
        if login.is_some() { &[VERSION, 2, NO_LOGIN, LOGIN] } else { &[VERSION, 1, NO_LOGIN] };
    stream.write_all(methods).await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match (chosen, login) {
        ([VERSION, NO_LOGIN], _) => {}
        ([VERSION, LOGIN], Some((user, password))) => log_in(stream, user, password).await?,
        ([VERSION, _], _) => return Err(refused("it wants a login")),
        _ => return Err(refused("it does not speak SOCKS5")),
    }
    let mut request = vec![VERSION, 1, 0];
    match host {
        Host::Address(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
        Host::Name(name) => {
            request.push(3);
            push_text(&mut request, name.as_str())?;
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    read_answer(stream).await
}

async fn log_in(stream: &mut TcpStream, user: &str, password: &str) -> Result<(), DialError> {
    let mut request = vec![1];
    push_text(&mut request, user)?;
    push_text(&mut request, password)?;
    stream.write_all(&request).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    if answer == [1, 0] { Ok(()) } else { Err(refused("it did not take the login")) }
}

async fn read_answer(stream: &mut TcpStream) -> Result<(), DialError> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, code, _, kind] = head;
    if version != VERSION {
        return Err(refused("it does not speak SOCKS5"));
    }
    if code != 0 {
        return Err(refused(match code {
            1 => "general failure",
            2 => "not allowed by its rules",
            3 => "network unreachable",
            4 => "host unreachable",
            5 => "connection refused",
            6 => "time to live expired",
            7 => "it does not know the command",
            8 => "it does not know the kind of address",
            _ => "unknown failure",
        }));
    }
    // Its own address, which nobody asked for.
    let length = match kind {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(refused("it does not speak SOCKS5")),
    };
    let mut bound = vec![0; length + 2];
    stream.read_exact(&mut bound).await?;
    Ok(())
}

fn push_text(request: &mut Vec<u8>, text: &str) -> Result<(), DialError> {
    let length = u8::try_from(text.len()).map_err(|_| refused("a name or a login is too long for it"))?;
    request.push(length);
    request.extend(text.as_bytes());
    Ok(())
}

fn refused(why: &str) -> DialError {
    DialError::Proxy(why.to_owned())
}
