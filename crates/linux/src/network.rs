//! A network namespace that is more than loopback: addresses that lead nowhere else, and sockets in it for whoever
//! serves them from outside.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::net::sockopt::{set_ipv6_freebind, set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, ipproto, listen, recv,
    send, socket_with,
};

/// What to make in a namespace beside `lo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkShape {
    /// Addresses with prefix lengths that are local: a connection to them stays in the namespace.
    pub local: Vec<(IpAddr, u8)>,
    pub sockets: Vec<SocketShape>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketShape {
    /// Bound.
    Udp(SocketAddr),
    /// Listening.
    Tcp(SocketAddr),
    /// TCP, to be bound by whoever it is given to.
    SpareV4,
    SpareV6,
    /// Hears every ICMP message of the namespace, so also those that tell a sender that nobody took its datagram. Needs
    /// the right to make raw sockets.
    IcmpV4,
    IcmpV6,
}

/// How many connections wait for whoever accepts them.
const BACKLOG: i32 = 1024;
const NEW_ROUTE: u16 = 24;
const LOCAL_TABLE: u8 = 255;
const STATIC_ROUTE: u8 = 4;
const HOST_SCOPE: u8 = 254;
const LOCAL_ROUTE: u8 = 2;
const DESTINATION: u16 = 1;
const OUT_INTERFACE: u16 = 4;
/// `lo` is the first interface of every namespace.
const LOOPBACK: u32 = 1;

/// The kernel's settings, held while `/proc` is still the host's. What is opened below it is the setting of whichever
/// network namespace the opener is in then.
#[derive(Debug)]
pub struct Settings(OwnedFd);

impl Settings {
    pub fn hold() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(open("/proc/sys", flags, Mode::empty())?))
    }

    fn set(&self, name: &str, value: &str) -> io::Result<()> {
        let file = openat(&self.0, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(file, value.as_bytes())?;
        Ok(())
    }
}

/// Make this in the network namespace of this thread, which has the right to; the sockets in their order.
pub(crate) fn furnish(shape: &NetworkShape, settings: &Settings) -> io::Result<Vec<OwnedFd>> {
    if !shape.local.is_empty() {
        add_routes(&shape.local)?;
        // Who serves from outside has no privilege in here.
        settings.set("net/ipv4/ip_unprivileged_port_start", "0")?;
    }
    shape.sockets.iter().copied().map(make_socket).collect()
}

/// One socket in the network namespace of this thread.
pub fn make_socket(shape: SocketShape) -> io::Result<OwnedFd> {
    let make = |v6: bool, kind| -> io::Result<OwnedFd> {
        let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        if kind == SocketType::STREAM {
            // For datagrams it would let others bind the same address.
            set_socket_reuseaddr(&socket, true)?;
        }
        if v6 {
            set_ipv6_v6only(&socket, true)?;
            // A local route makes an IPv4 address one's own, but not an IPv6 one.
            set_ipv6_freebind(&socket, true)?;
        }
        Ok(socket)
    };
    match shape {
        SocketShape::SpareV4 => make(false, SocketType::STREAM),
        SocketShape::SpareV6 => make(true, SocketType::STREAM),
        SocketShape::Udp(address) => {
            let socket = make(address.is_ipv6(), SocketType::DGRAM)?;
            bind(&socket, &address)?;
            Ok(socket)
        }
        SocketShape::Tcp(address) => {
            let socket = make(address.is_ipv6(), SocketType::STREAM)?;
            bind(&socket, &address)?;
            listen(&socket, BACKLOG)?;
            Ok(socket)
        }
        SocketShape::IcmpV4 => raw(AddressFamily::INET, ipproto::ICMP),
        SocketShape::IcmpV6 => raw(AddressFamily::INET6, ipproto::ICMPV6),
    }
}

fn raw(family: AddressFamily, protocol: Protocol) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::RAW, flags, Some(protocol))?)
}

fn add_routes(local: &[(IpAddr, u8)]) -> io::Result<()> {
    // Route netlink is protocol 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let messages: Vec<u8> = local.iter().flat_map(|(address, length)| route(*address, *length)).collect();
    send(&socket, &messages, SendFlags::empty())?;
    let mut answers = 0;
    while answers < local.len() {
        let mut buffer = [0; 4096];
        let (read, _) = recv(&socket, &mut buffer, RecvFlags::empty())?;
        let mut rest = &buffer[..read];
        while let Some(word) = rest.get(..4) {
            let length = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]) as usize;
            // An answer is an errno: 0, or a negative number.
            let errno = rest.get(16..20).map_or(-libc::EIO, |e| i32::from_ne_bytes([e[0], e[1], e[2], e[3]]));
            if errno != 0 {
                return Err(io::Error::from_raw_os_error(-errno));
            }
            answers += 1;
            rest = rest.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Ok(())
}

/// A request to make these addresses local.
fn route(address: IpAddr, prefix: u8) -> Vec<u8> {
    let (family, destination) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let mut body =
        vec![family as u8, prefix, 0, 0, LOCAL_TABLE, STATIC_ROUTE, HOST_SCOPE, LOCAL_ROUTE, 0, 0, 0, 0];
    let mut attribute = |kind: u16, value: &[u8]| {
        body.extend(((value.len() + 4) as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
    };
    if prefix > 0 {
        attribute(DESTINATION, &destination);
    }
    attribute(OUT_INTERFACE, &LOOPBACK.to_ne_bytes());
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let mut message = ((body.len() + 16) as u32).to_ne_bytes().to_vec();
    message.extend(NEW_ROUTE.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}
