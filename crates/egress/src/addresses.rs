//! The reserved addresses that mean something inside a sandbox and nothing outside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Benchmark addresses (RFC 2544): routed to loopback inside. Address and prefix length.
pub const FAKE_V4: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// A unique local prefix of our own.
pub const FAKE_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd72, 0x6664, 0, 0, 0, 0, 0, 0), 48);

pub const DNS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), 53);
pub const HTTP_PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)), 3128);
pub const SOCKS_PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)), 1080);

/// Both addresses of the name with this index; `None` when the range is used up.
pub fn fake_address(index: u32) -> Option<(Ipv4Addr, Ipv6Addr)> {
    // The first 256 are for our own servers.
    let offset = index.checked_add(256).filter(|offset| *offset < 1 << 17)?;
    let v4 = Ipv4Addr::from(u32::from(FAKE_V4.0) + offset);
    let v6 = Ipv6Addr::from(u128::from(FAKE_V6.0) | 1 << 64 | u128::from(offset));
    Some((v4, v6))
}
