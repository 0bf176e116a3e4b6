//! What an address is: out on the internet, or something nearer that a name must not lead to.
//!
//! A translator or tunnel on the way may turn an IPv6 address into an IPv4 one, so an address that carries another is
//! what the other one is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::metadata::is_metadata;

/// Documentation ranges count as public: nobody has them, so tests may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressClass {
    Public,
    /// 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16; a site's own NAT64 prefix.
    Private,
    /// 100.64.0.0/10, between a provider and its customers.
    Shared,
    /// fc00::/7.
    UniqueLocal,
    /// 198.18.0.0/15, 2001:2::/48.
    Benchmark,
    LinkLocal,
    /// Where a cloud hands a machine its credentials.
    Metadata,
    Loopback,
    /// An address that this machine itself has, whatever else it is: egress finds that out, `address_class` can't.
    Own,
    Unspecified,
    Multicast,
    Broadcast,
    Reserved,
}

impl AddressClass {
    /// May `network.private` open it?
    pub const fn is_private(self) -> bool {
        matches!(self, Self::Private | Self::Shared | Self::UniqueLocal | Self::Benchmark)
    }

    /// Can a connection leave the machine for it at all?
    pub const fn is_destination(self) -> bool {
        !matches!(self, Self::Loopback | Self::Unspecified | Self::Multicast | Self::Broadcast)
    }

    pub(super) const fn article(self) -> &'static str {
        if matches!(self, Self::Unspecified) { "an" } else { "a" }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Shared => "shared",
            Self::UniqueLocal => "unique local",
            Self::Benchmark => "benchmark",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
            Self::Loopback => "loopback",
            Self::Own => "own",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Reserved => "reserved",
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The class of an address, or of the address that it carries.
pub fn address_class(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        address if is_metadata(address) => AddressClass::Metadata,
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

fn class_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [0, 0, 0, 0] => AddressClass::Unspecified,
        [0, ..] => AddressClass::Reserved,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [127, ..] => AddressClass::Loopback,
        [169, 254, ..] => AddressClass::LinkLocal,
        // Protocol assignments; the relays of 6to4, withdrawn.
        [192, 0, 0, _] | [192, 88, 99, _] => AddressClass::Reserved,
        [198, 18..=19, ..] => AddressClass::Benchmark,
        [224..=239, ..] => AddressClass::Multicast,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn class_v6(address: Ipv6Addr) -> AddressClass {
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        address_class(Ipv4Addr::new(a, b, c, d).into())
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // IPv4-compatible, and IPv4-translated (SIIT): neither is routed on the internet.
        [0, 0, 0, 0, 0, 0, a, b] | [0, 0, 0, 0, 0xffff, 0, a, b] => {
            or(embedded(a, b), AddressClass::Reserved)
        }
        // NAT64, the well-known prefix.
        [0x64, 0xff9b, 0, 0, 0, 0, a, b] => embedded(a, b),
        [0x64, 0xff9b, 1, ..] => site_nat64(address),
        // 6to4.
        [0x2002, a, b, ..] => embedded(a, b),
        // Teredo: the server, and the client with its bits turned over.
        [0x2001, 0, a, b, _, _, c, d] => or(embedded(!c, !d), embedded(a, b)),
        [0x2001, 2, 0, ..] => AddressClass::Benchmark,
        // ORCHID, first and second: hashes that look like addresses.
        [0x2001, 0x10..=0x2f, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        [0xfc00..=0xfdff, ..] => AddressClass::UniqueLocal,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        // Site-local, withdrawn but still configured here and there.
        [0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        // Not given out by IANA.
        _ => AddressClass::Reserved,
    }
}

fn or(class: AddressClass, if_public: AddressClass) -> AddressClass {
    if class == AddressClass::Public { if_public } else { class }
}

/// 64:ff9b:1::/48 (RFC 8215) is a site's own. Where in it the IPv4 address is depends on how the site cut it up (RFC
/// 6052), so what is forbidden in any of the places is forbidden, and the rest is private: the site's, not the
/// internet's.
fn site_nat64(address: Ipv6Addr) -> AddressClass {
    let o = address.octets();
    let last = address_class(Ipv4Addr::new(o[12], o[13], o[14], o[15]).into());
    // Byte 8 is left out in all of them.
    let places = [[o[6], o[7], o[9], o[10]], [o[7], o[9], o[10], o[11]], [o[9], o[10], o[11], o[12]]];
    let forbidden = |class: &AddressClass| {
        matches!(class, AddressClass::Loopback | AddressClass::LinkLocal | AddressClass::Metadata)
    };
    let found = places.into_iter().map(|place| address_class(Ipv4Addr::from(place).into())).find(forbidden);
    found.unwrap_or(or(last, AddressClass::Private))
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
