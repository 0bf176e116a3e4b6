//! Ways out by sockets: each address family, the host's loopback, its unix sockets by path and by abstract name.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{AddressFamily, Protocol, SocketType};

use crate::verdict::{Attempted, Stop, held, number, word};

pub(crate) fn attempt(name: &str, args: &[String]) -> Option<Attempted> {
    Some(match name {
        "socket" => socket(args),
        "tcp" => tcp(args),
        "tcp-serve" => tcp_serve(args),
        "udp" => udp(args),
        "unix" => unix(args),
        "unix-serve" => unix_serve(args),
        "unix-hear" => unix_hear(args),
        "abstract" => abstract_name(args),
        "scan-abstract" => scan_abstract(args),
        "only-loopback" => only_loopback(),
        "has-route" => has_route(),
        _ => return None,
    })
}

/// `socket FAMILY TYPE PROTOCOL`, all as numbers.
fn socket(args: &[String]) -> Attempted {
    let family = AddressFamily::from_raw(number(args, 0)?);
    let kind = SocketType::from_raw(number(args, 1)?);
    let protocol = std::num::NonZeroU32::new(number(args, 2)?).map(Protocol::from_raw);
    rustix::net::socket(family, kind, protocol)?;
    Ok(format!("a socket of family {}", family.as_raw()))
}

fn address(args: &[String]) -> Result<SocketAddr, Stop> {
    let text = word(args, 0)?;
    text.parse().map_err(|_| Stop::Broken(format!("{text} is not an address with a port")))
}

/// `tcp ADDRESS TOKEN`: connect and be greeted with the token.
fn tcp(args: &[String]) -> Attempted {
    let stream = TcpStream::connect_timeout(&address(args)?, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    greeted(stream, word(args, 1)?)
}

/// `tcp-serve ADDRESS TOKEN`: greet everybody who connects; for the host's side of an attempt.
fn tcp_serve(args: &[String]) -> Attempted {
    let listener = TcpListener::bind(address(args)?)?;
    println!("ready");
    for stream in listener.incoming() {
        let _ = stream?.write_all(word(args, 1)?.as_bytes());
    }
    held("nobody came")
}

/// `udp ADDRESS TOKEN`: send a datagram and get the token back.
fn udp(args: &[String]) -> Attempted {
    let to = address(args)?;
    let socket = UdpSocket::bind(if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" })?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.send_to(b"hello", to)?;
    let mut bytes = [0u8; 256];
    let (length, _) = socket.recv_from(&mut bytes)?;
    match String::from_utf8_lossy(&bytes[..length]).contains(word(args, 1)?) {
        true => Ok("the host answered a datagram".into()),
        false => held("somebody else answered"),
    }
}

/// `unix PATH TOKEN`
fn unix(args: &[String]) -> Attempted {
    greeted(UnixStream::connect(word(args, 0)?)?, word(args, 1)?)
}

/// `unix-serve PATH TOKEN`: greet everybody who connects; for the host's side of an attempt.
fn unix_serve(args: &[String]) -> Attempted {
    let listener = std::os::unix::net::UnixListener::bind(word(args, 0)?)?;
    println!("ready");
    for stream in listener.incoming() {
        let _ = stream?.write_all(word(args, 1)?.as_bytes());
    }
    held("nobody came")
}

/// `unix-hear PATH TOKEN`: make a file when the token comes as a datagram; for the host's side of an attempt.
fn unix_hear(args: &[String]) -> Attempted {
    let token = word(args, 1)?;
    let socket = std::os::unix::net::UnixDatagram::bind(word(args, 0)?)?;
    println!("ready");
    let mut text = [0; 256];
    loop {
        let length = socket.recv(&mut text)?;
        if &text[..length] == token.as_bytes() {
            std::fs::write(format!("heard-{token}"), "")?;
        }
    }
}

/// `abstract NAME TOKEN`
fn abstract_name(args: &[String]) -> Attempted {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(word(args, 0)?)?;
    greeted(UnixStream::connect_addr(&address)?, word(args, 1)?)
}

/// `scan-abstract TOKEN`: the host's abstract sockets are listed in `/proc/net/unix`.
fn scan_abstract(args: &[String]) -> Attempted {
    let list = std::fs::read_to_string("/proc/net/unix")?;
    if list.contains(word(args, 0)?) {
        return Ok("the host's sockets are listed".into());
    }
    held("the socket is not listed")
}

/// Whether there is another network interface than `lo`.
fn only_loopback() -> Attempted {
    let text = std::fs::read_to_string("/proc/net/dev")?;
    let other =
        text.lines().skip(2).filter_map(|line| line.split(':').next()).find(|name| name.trim() != "lo");
    match other {
        Some(name) => Ok(format!("there is {}", name.trim())),
        None => held("there is only lo"),
    }
}

/// Whether there is a route out.
fn has_route() -> Attempted {
    match std::fs::read_to_string("/proc/net/route")?.lines().count() {
        0 | 1 => held("there is no route"),
        lines => Ok(format!("{} routes", lines - 1)),
    }
}

fn greeted(mut stream: impl Read, token: &str) -> Attempted {
    let mut greeting = vec![0u8; token.len()];
    stream.read_exact(&mut greeting)?;
    if greeting == token.as_bytes() { Ok("the host answered".into()) } else { held("somebody else answered") }
}
