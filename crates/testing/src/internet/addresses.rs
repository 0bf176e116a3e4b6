//! Who has which address in the test internet. All of them are on `lo` of the one namespace that plays every other
//! host, so a wildcard listener there is every sort of address at once: public ones (documentation ranges), private,
//! link-local, metadata, and the IPv6 forms that hide an IPv4 address.

use std::io::Write;
use std::process::{Command, Stdio};

use super::Place;

/// The machine's own addresses.
pub const MACHINE_V4: &str = "203.0.113.2";
pub const MACHINE_V6: &str = "2001:db8:113::2";
/// On its side of a private network.
pub const MACHINE_PRIVATE: &str = "10.77.0.1";

pub const DNS: &str = "192.0.2.53";
/// Web servers that belong to the good, and to somebody else.
pub const WEB: &str = "192.0.2.10";
pub const WEB_V6: &str = "2001:db8::10";
pub const EVIL: &str = "192.0.2.66";
pub const EVIL_V6: &str = "2001:db8::66";
/// Every service but the web.
pub const SERVICES: &str = "192.0.2.22";
pub const SERVICES_V6: &str = "2001:db8::22";
/// One address with many tenants.
pub const CDN: &str = "198.51.100.10";
/// The user's own proxies.
pub const PROXY: &str = "192.0.2.80";

pub const TEN: &str = "10.1.2.3";
pub const METADATA: &str = "169.254.169.254";
pub const SHARED: &str = "100.64.0.9";
pub const UNIQUE_LOCAL: &str = "fd00::7";
/// 10.1.2.3 behind the well-known NAT64 prefix.
pub const NAT64_TEN: &str = "64:ff9b::a01:203";
/// 169.254.169.254 behind it.
pub const NAT64_METADATA: &str = "64:ff9b::a9fe:a9fe";

const PUBLIC: &[&str] = &[DNS, WEB, WEB_V6, EVIL, EVIL_V6, SERVICES, SERVICES_V6, CDN, PROXY];

/// What no name may lead to, each with the class that it is of.
pub const CLOSED: &[(&str, &str)] = &[
    ("private-10", TEN),
    ("private-172", "172.16.5.5"),
    ("private-192", "192.168.7.7"),
    ("metadata", METADATA),
    ("link-local", "169.254.7.7"),
    ("shared", SHARED),
    ("benchmark", "198.18.5.5"),
    ("reserved", "240.0.0.9"),
    ("protocol", "192.0.0.192"),
    ("unique-local", UNIQUE_LOCAL),
    ("metadata-v6", "fd00:ec2::254"),
    ("site-local", "fec0::7"),
    ("nat64-private", NAT64_TEN),
    ("nat64-metadata", NAT64_METADATA),
    ("nat64-local-use", "64:ff9b:1::a01:203"),
    ("6to4-private", "2002:a01:203::1"),
    ("teredo-private", "2001:0:c000:235::f5fe:fdfc"),
];

/// Lay the cable between the machine and everything else, and give both ends their addresses.
pub(super) fn connect(machine: &Place, world: &Place) {
    let mut there = format!("link add up0 type veth peer name eth0 netns {}\n", machine.network_path());
    there += "addr add 203.0.113.1/24 dev up0\naddr add 2001:db8:113::1/64 dev up0 nodad\nlink set up0 up\n";
    for address in PUBLIC.iter().chain(CLOSED.iter().map(|(_, address)| address)) {
        let (bits, flag) = if address.contains(':') { (128, " nodad") } else { (32, "") };
        there += &format!("addr add {address}/{bits} dev lo{flag}\n");
    }
    world.within(|| ip(&there));
    let here = format!(
        "addr add {MACHINE_V4}/24 dev eth0\naddr add {MACHINE_V6}/64 dev eth0 nodad\nlink set eth0 up\n\
         addr add {MACHINE_PRIVATE}/32 dev lo\nroute add default via 203.0.113.1\nroute add default via 2001:db8:113::1\n"
    );
    machine.within(|| ip(&here));
}

fn ip(lines: &str) {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .env("PATH", super::PATH)
        .stdin(Stdio::piped())
        .spawn()
        .expect("ip (iproute2) starts");
    child.stdin.take().expect("its stdin").write_all(lines.as_bytes()).expect("tell ip what to do");
    assert!(child.wait().expect("wait for ip").success(), "ip refused one of:\n{lines}");
}
