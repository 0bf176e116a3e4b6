//! One name looked up in DNS. The program is static, so it can't use the system's own resolver.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

const HEADER: usize = 12;
/// Type A, class IN.
const ADDRESS: [u8; 4] = [0, 1, 0, 1];

pub(crate) fn look_up(name: &str) -> Result<IpAddr> {
    let text = fs::read_to_string("/etc/resolv.conf").context("cannot read /etc/resolv.conf")?;
    let server: IpAddr = text
        .lines()
        .find_map(|line| line.strip_prefix("nameserver "))
        .context("/etc/resolv.conf names no server")?
        .trim()
        .parse()?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.send_to(&question(name), (server, 53))?;
    let mut answer = [0; 512];
    let read = socket.recv(&mut answer).context("no answer from the name server")?;
    address(&answer[..read]).with_context(|| format!("the name server knows no address of {name}"))
}

fn question(name: &str) -> Vec<u8> {
    // An id that nobody else is waiting for, and "recursion desired".
    let mut message = vec![0x72, 0x66, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(ADDRESS);
    message
}

fn address(message: &[u8]) -> Result<IpAddr> {
    ensure!(message.get(3).is_some_and(|byte| byte & 0xf == 0), "it says no");
    let mut rest = after_name(message.get(HEADER..).context("too short")?)?.get(4..).context("too short")?;
    loop {
        rest = after_name(rest)?;
        let (fixed, data) = rest.split_first_chunk::<10>().context("no address in it")?;
        let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let data = data.split_at_checked(length).context("too short")?;
        match (fixed.starts_with(&ADDRESS), data.0) {
            (true, &[a, b, c, d]) => return Ok(Ipv4Addr::new(a, b, c, d).into()),
            _ => rest = data.1,
        }
    }
}

/// A name is labels up to an empty one, or up to a pointer.
fn after_name(mut bytes: &[u8]) -> Result<&[u8]> {
    loop {
        let length = *bytes.first().context("no address in it")?;
        let (skip, last) = match length {
            0 => (1, true),
            0xc0.. => (2, true),
            length => (1 + usize::from(length), false),
        };
        bytes = bytes.get(skip..).context("too short")?;
        if last {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_behind_other_records() {
        let mut message = question("a.example");
        message[3] = 0x80;
        // An alias, then an address.
        message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 3, 1, b'b', 0]);
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 198, 18, 1, 0]);
        assert_eq!(address(&message).unwrap(), IpAddr::from([198, 18, 1, 0]));
        message.truncate(message.len() - 1);
        assert!(address(&message).is_err());
        message[3] = 0x83;
        assert!(address(&message).is_err());
    }
}
