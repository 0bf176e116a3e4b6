//! Is an address this machine's own? What listens there is the user's, as on loopback, and half of it trusts whoever
//! can reach it: so a name must not lead there, whatever class the address is of.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getsockname, socket_with};

/// Any port does: nothing is sent to it.
const PORT: u16 = 9;

/// The kernel's routes say so, now: a datagram socket that is connected to one of the machine's own addresses comes from
/// that address itself. An error is as good as an address that can't be reached.
pub fn is_own_address(address: IpAddr) -> io::Result<bool> {
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return Ok(true);
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddr::new(address, PORT))?;
    let from = SocketAddr::try_from(getsockname(&socket)?)?.ip().to_canonical();
    Ok(from == address || from.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_and_what_is_routed_elsewhere_is_not() {
        for own in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"] {
            assert!(is_own_address(own.parse().unwrap()).unwrap(), "{own}");
        }
        // Of a documentation range: nobody's. Without a route it can't be told, which is no yes either.
        assert!(!is_own_address("192.0.2.1".parse().unwrap()).unwrap_or(false));
    }
}
