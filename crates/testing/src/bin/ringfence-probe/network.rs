//! The network as a static program sees it, which has no resolver of a library: it asks the name server of
//! `/etc/resolv.conf` itself, and connects to what it is told.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::verdict::{Attempted, Stop, held, number, word};

const PATIENCE: Duration = Duration::from_secs(5);
const A: u16 = 1;
const AAAA: u16 = 28;

pub(crate) fn attempt(name: &str, args: &[String]) -> Option<Attempted> {
    Some(match name {
        "http-get" => http_get(args),
        "udp-from-anywhere" => udp_from_anywhere(args),
        _ => return None,
    })
}

/// `http-get 4|6 HOST PORT PATH WORDS`: look the host up, ask for the page, find the words in it.
fn http_get(args: &[String]) -> Attempted {
    let (host, port, path, words) = (word(args, 1)?, number(args, 2)?, word(args, 3)?, word(args, 4)?);
    let address = look_up(host, if word(args, 0)? == "6" { AAAA } else { A })?;
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    if page.contains(words) { Ok(format!("{address}: {words}")) } else { held(page) }
}

/// `udp-from-anywhere ADDRESS DATA ANSWER`: send a datagram from whatever address the kernel takes.
fn udp_from_anywhere(args: &[String]) -> Attempted {
    let text = word(args, 0)?;
    let to: SocketAddr = text.parse().map_err(|_| Stop::Broken(format!("{text} is no address")))?;
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.send_to(word(args, 1)?.as_bytes(), to)?;
    let mut bytes = [0; 512];
    let (length, _) = socket.recv_from(&mut bytes)?;
    match String::from_utf8_lossy(&bytes[..length]).contains(word(args, 2)?) {
        true => Ok("the datagram was answered".into()),
        false => held("somebody else answered"),
    }
}

fn look_up(host: &str, kind: u16) -> Result<IpAddr, Stop> {
    let config = std::fs::read_to_string("/etc/resolv.conf")?;
    let server = config.lines().find_map(|line| line.strip_prefix("nameserver "));
    let Some(server) = server.and_then(|text| text.trim().parse::<IpAddr>().ok()) else {
        return held("there is no name server");
    };
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // An id, recursion wanted, one question.
    let mut query = vec![0x52, 0x46, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in host.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(kind.to_be_bytes());
    query.extend([0, 1]);
    socket.send_to(&query, (server, 53))?;
    let mut reply = [0; 1500];
    let (length, _) = socket.recv_from(&mut reply)?;
    match reply[3] & 15 {
        0 => first_address(&reply[query.len().min(length)..length], kind),
        code => held(format!("the name server said {code} of {host}")),
    }
}

/// The first address among the answers, whose names are pointers or spelt out.
fn first_address(mut rest: &[u8], kind: u16) -> Result<IpAddr, Stop> {
    loop {
        while let Some(&length) = rest.first() {
            rest = match length {
                0 => &rest[1..],
                0xc0.. => rest.get(2..).unwrap_or_default(),
                _ => {
                    rest = rest.get(usize::from(length) + 1..).unwrap_or_default();
                    continue;
                }
            };
            break;
        }
        let Some((head, tail)) = rest.split_at_checked(10) else { return held("there is no address") };
        let size = usize::from(u16::from_be_bytes([head[8], head[9]]));
        let Some((data, next)) = tail.split_at_checked(size) else { return held("a short answer") };
        if u16::from_be_bytes([head[0], head[1]]) == kind {
            let v4 = <[u8; 4]>::try_from(data).map(|octets| IpAddr::from(Ipv4Addr::from(octets)));
            let v6 = <[u8; 16]>::try_from(data).map(|octets| IpAddr::from(Ipv6Addr::from(octets)));
            return v4.or(v6).map_err(|_| Stop::Held("an address of another size".into()));
        }
        rest = next;
    }
}
