//! Where a connection goes: a name or an address, as an authority (`host:port`) spells it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::name::{HostName, HostNameError};
use crate::units::shown;

/// A name or an address. An IPv4 address in IPv6 clothes (`::ffff:192.0.2.1`) is that IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(HostName),
    Address(IpAddr),
}

/// Why a text is no host, or no `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Name(#[from] HostNameError),
    #[error("`{text}` is not an IPv6 address, write it like [2001:db8::1]")]
    Address { text: String },
    #[error("`{text}`: a port is a number from 1 to 65535")]
    Port { text: String },
    #[error("`{text}` has no port, write it like example.org:443")]
    NoPort { text: String },
}

impl Host {
    /// A name, four decimal numbers, or IPv6 with or without brackets. No zone, no port.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let wrong = || HostError::Address { text: shown(text) };
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or_else(wrong)?;
            return inner.parse::<Ipv6Addr>().map(Host::from).map_err(|_| wrong());
        }
        // The standard library reads neither leading zeros, nor other bases, nor fewer than four parts.
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Host::from(address));
        }
        if text.matches(':').count() > 1 && text.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b))
        {
            return Err(wrong());
        }
        Ok(Host::Name(HostName::parse(text)?))
    }

    /// `host:port` as CONNECT, `Host` and `:authority` carry it. IPv6 needs its brackets here.
    pub fn parse_with_port(text: &str, default: Option<u16>) -> Result<(Self, u16), HostError> {
        let (host, port) = split_port(text)?;
        let port = port.or(default).ok_or_else(|| HostError::NoPort { text: shown(text) })?;
        if !host.starts_with('[') && host.contains(':') {
            return Err(HostError::Address { text: shown(text) });
        }
        Ok((Self::parse(host)?, port))
    }

    pub fn name(&self) -> Option<&HostName> {
        match self {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        }
    }
}

/// Cuts the port off, where there is one. A text with several colons and no brackets is left whole.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let end = text.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some((host, port)) =
        text[end..].split_once(':').map(|(more, port)| (&text[..end + more.len()], port))
    else {
        return Ok((text, None));
    };
    if port.contains(':') {
        return Ok((text, None));
    }
    // Not only `parse`: it takes `+80`, too.
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if digits && port != 0 => Ok((host, Some(port))),
        _ => Err(HostError::Port { text: shown(text) }),
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Host::Address(address.to_canonical())
    }
}

impl From<Ipv6Addr> for Host {
    fn from(address: Ipv6Addr) -> Self {
        IpAddr::V6(address).into()
    }
}

impl From<Ipv4Addr> for Host {
    fn from(address: Ipv4Addr) -> Self {
        Host::Address(address.into())
    }
}

impl From<HostName> for Host {
    fn from(name: HostName) -> Self {
        Host::Name(name)
    }
}

/// IPv6 without brackets: in `host:port` the writer adds them.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(f),
            Host::Address(address) => address.fmt(f),
        }
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
