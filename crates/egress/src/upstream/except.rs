//! NO_PROXY: what goes out directly. There is no standard; this is what curl, Go and Python have in common.

use std::net::IpAddr;

use ringfence_policy::Host;

#[derive(Debug, Default)]
pub(super) struct Exceptions {
    all: bool,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    what: What,
    port: Option<u16>,
}

#[derive(Debug)]
enum What {
    /// A name and all below it.
    Domain(String),
    Address(IpAddr),
    Range(Range),
}

impl Exceptions {
    pub(super) fn parse(text: &str) -> Self {
        let mut exceptions = Self::default();
        for part in text.split([',', ' ', '\t']).filter(|part| !part.is_empty()) {
            if part == "*" {
                exceptions.all = true;
            } else if let Some(entry) = Entry::parse(part) {
                exceptions.entries.push(entry);
            }
        }
        exceptions
    }

    pub(super) fn names(&self, host: &Host, port: u16) -> bool {
        // The user's proxy is no way to the user's own loopback.
        let local = matches!(host, Host::Address(address) if address.is_loopback());
        local || self.all || self.entries.iter().any(|entry| entry.names(host, port))
    }
}

/// A CIDR range of any addresses, not only of private ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    network: IpAddr,
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (network, bits) = text.split_once('/')?;
        let network: IpAddr = network.parse().ok()?;
        let bits = bits.parse().ok()?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Self { network, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        // What lies behind the prefix does not count, in the address and in the range.
        let differs = match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()).checked_shr(32 - self.bits).unwrap_or(0) != 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()).checked_shr(128 - self.bits).unwrap_or(0) != 0
            }
            _ => true,
        };
        !differs
    }
}

impl Entry {
    /// What can't be read names nothing.
    fn parse(part: &str) -> Option<Self> {
        if part.contains('/') {
            return Some(Self { what: What::Range(Range::parse(part)?), port: None });
        }
        if let Ok(Host::Address(address)) = Host::parse(part) {
            return Some(Self { what: What::Address(address), port: None });
        }
        let (place, port) = match part.rsplit_once(':') {
            Some((place, port)) => (place, Some(port.parse().ok()?)),
            None => (part, None),
        };
        let place = place.strip_prefix("*.").or_else(|| place.strip_prefix('.')).unwrap_or(place);
        let what = match Host::parse(place).ok()? {
            Host::Name(name) => What::Domain(name.as_str().to_owned()),
            Host::Address(address) => What::Address(address),
        };
        Some(Self { what, port })
    }

    fn names(&self, host: &Host, port: u16) -> bool {
        let same = match (&self.what, host) {
            (What::Domain(domain), Host::Name(name)) => {
                let start = name.as_str().strip_suffix(domain.as_str());
                start.is_some_and(|start| start.is_empty() || start.ends_with('.'))
            }
            (What::Address(known), Host::Address(address)) => known == address,
            (What::Range(range), Host::Address(address)) => range.contains(*address),
            _ => false,
        };
        same && self.port.is_none_or(|known| known == port)
    }
}
