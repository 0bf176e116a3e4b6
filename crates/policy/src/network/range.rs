//! A range of private addresses that granted names may lead to: `network.private`, `--allow-private`.
//!
//! Invariant: a range lies within private space. No range can be written that opens the internet, loopback, link-local
//! or metadata addresses.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::units::shown;

/// A CIDR range: an address, and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is no range of private addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRangeError {
    #[error("`{text}` is not a range of addresses, write it like 10.0.0.0/8 or fd00::/8")]
    Form { text: String },
    #[error("`{text}` has bits beyond its prefix, write {meant}")]
    Bits { text: String, meant: AddressRange },
    #[error("`{range}` is not a range of private addresses, those are within {}", private_space())]
    NotPrivate { range: AddressRange },
}

/// What a range may lie in: private, shared and benchmark space, unique local addresses, a site's own NAT64 prefix.
const PRIVATE_SPACE: [AddressRange; 7] = [
    AddressRange::v4(Ipv4Addr::new(10, 0, 0, 0), 8),
    AddressRange::v4(Ipv4Addr::new(172, 16, 0, 0), 12),
    AddressRange::v4(Ipv4Addr::new(192, 168, 0, 0), 16),
    AddressRange::v4(Ipv4Addr::new(100, 64, 0, 0), 10),
    AddressRange::v4(Ipv4Addr::new(198, 18, 0, 0), 15),
    AddressRange::v6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    AddressRange::v6(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
];

impl AddressRange {
    const fn v4(address: Ipv4Addr, prefix: u8) -> Self {
        Self { address: IpAddr::V4(address), prefix }
    }

    const fn v6(address: Ipv6Addr, prefix: u8) -> Self {
        Self { address: IpAddr::V6(address), prefix }
    }

    /// Only this address.
    pub fn single(address: IpAddr) -> Result<Self, AddressRangeError> {
        let address = address.to_canonical();
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        Self { address, prefix }.private()
    }

    /// `10.0.0.0/8`, `fd00::/8`, or one address.
    pub fn parse(text: &str) -> Result<Self, AddressRangeError> {
        let form = || AddressRangeError::Form { text: shown(text) };
        let Some((address, prefix)) = text.split_once('/') else {
            return Self::single(text.parse().map_err(|_| form())?);
        };
        let address = address.parse::<IpAddr>().map_err(|_| form())?;
        let digits = matches!(prefix.len(), 1..=3) && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix = prefix.parse::<u8>().ok().filter(|_| digits).ok_or_else(form)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(form());
        }
        let meant = Self { address: masked(address, prefix), prefix };
        if meant.address != address {
            return Err(AddressRangeError::Bits { text: shown(text), meant });
        }
        meant.private()
    }

    fn private(self) -> Result<Self, AddressRangeError> {
        if PRIVATE_SPACE.iter().any(|space| space.covers(&self)) {
            Ok(self)
        } else {
            Err(AddressRangeError::NotPrivate { range: self })
        }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }

    /// Is every address of `other` in this range?
    pub fn covers(&self, other: &AddressRange) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.prefix <= other.prefix
            && masked(other.address, self.prefix) == self.address
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

fn private_space() -> String {
    PRIVATE_SPACE.map(|range| range.to_string()).join(", ")
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address, self.prefix))
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        Self::parse(text)
    }
}

impl Serialize for AddressRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AddressRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for AddressRange {
    fn schema_name() -> Cow<'static, str> {
        "AddressRange".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A range of private addresses, like \"10.0.0.0/8\", or one address.",
            "type": "string",
            "pattern": "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$"
        })
    }
}
