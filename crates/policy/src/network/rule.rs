//! A rule of `network.allow` or `network.deny`: which host, which port.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::address::{AddressClass, address_class};
use super::host::{Host, HostError, split_port};
use super::name::HostName;
use crate::units::shown;

/// The ports that a granted host has where the rule names none: HTTP and HTTPS.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// `api.example.com`, `*.example.com:443`, `192.0.2.10:22`, `[2001:db8::1]:22`, `@group`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostRule {
    pub pattern: HostPattern,
    /// Without one, a grant is for 80 and 443, and a denial for every port.
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    Name(HostName),
    /// `*.x`: any depth below x, not x itself.
    Below(HostName),
    Address(IpAddr),
    /// The rules of `network.groups` under this name.
    Group(String),
}

/// Why a text is no rule, or one that can't be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostRuleError {
    #[error(transparent)]
    Host(#[from] HostError),
    // Not the whole URL: it may hold a password.
    #[error("this is a URL, write only its host: {host}")]
    Url { host: String },
    #[error(
        "`{text}`: `*` stands only before a dot at the start, like *.example.org; every host is `network.mode = \"open\"`"
    )]
    Wildcard { text: String },
    #[error("`{text}` is not a group, write `@` and up to 64 of a-z, 0-9, - and _; its rules have the ports")]
    Group { text: String },
    #[error("`{rule}` is this machine itself; to let the sandbox reach a service here, use --allow-local {} (network.local)", .rule.port.map_or("PORT".to_owned(), |port| port.to_string()))]
    Loopback { rule: HostRule },
    #[error("`{rule}` is {} {class} address, nothing can be connected to there", .class.article())]
    NoDestination { rule: HostRule, class: AddressClass },
}

impl HostRule {
    pub fn parse(text: &str) -> Result<Self, HostRuleError> {
        if let Some(name) = text.strip_prefix('@') {
            let group = is_group_name(name).then(|| HostPattern::Group(name.to_owned()));
            return group
                .map(|pattern| Self { pattern, port: None })
                .ok_or_else(|| HostRuleError::Group { text: shown(text) });
        }
        if let Some((_, rest)) = text.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
            let host = host.rsplit('@').next().unwrap_or(host);
            return Err(HostRuleError::Url { host: shown(host) });
        }
        let (host, port) = split_port(text)?;
        let pattern = match host.strip_prefix("*.") {
            Some(parent) if !parent.contains('*') => {
                HostPattern::Below(HostName::parse(parent).map_err(HostError::from)?)
            }
            _ if host.contains('*') => return Err(HostRuleError::Wildcard { text: shown(text) }),
            _ => Host::parse(host)?.into(),
        };
        Ok(Self { pattern, port })
    }

    /// The rule for exactly this host and port.
    pub fn of(host: Host, port: Option<u16>) -> Self {
        Self { pattern: host.into(), port }
    }

    /// May it be in a list that grants? A rule that names the machine itself, or no destination at all, may not.
    pub fn grantable(&self) -> Result<(), HostRuleError> {
        let loopback = || HostRuleError::Loopback { rule: self.clone() };
        match &self.pattern {
            HostPattern::Name(name) | HostPattern::Below(name) if name.is_localhost() => Err(loopback()),
            HostPattern::Address(address) => match address_class(*address) {
                AddressClass::Loopback => Err(loopback()),
                class if !class.is_destination() => {
                    Err(HostRuleError::NoDestination { rule: self.clone(), class })
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The ports that the rule grants.
    pub fn ports(&self) -> &[u16] {
        self.port.as_ref().map_or(&DEFAULT_PORTS, std::slice::from_ref)
    }

    /// For a rule without a port, as it comes of a name that was only looked up: what it opens, and what else it may have to
    /// be.
    pub fn without_port(&self) -> Option<String> {
        let [http, https] = DEFAULT_PORTS;
        let is_whole = self.port.is_some() || matches!(self.pattern, HostPattern::Group(_));
        (!is_whole)
            .then(|| format!("opens ports {http} and {https}; for another port it has to be `{self}:PORT`"))
    }

    /// Does the pattern name this host? Groups name nothing by themselves.
    pub fn names(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (HostPattern::Name(known), Host::Name(name)) => known == name,
            (HostPattern::Below(parent), Host::Name(name)) => name.is_below(parent),
            (HostPattern::Address(known), Host::Address(address)) => *known == address.to_canonical(),
            _ => false,
        }
    }

    /// As rules that grant: does this one grant everything that `other` does?
    pub fn covers(&self, other: &HostRule) -> bool {
        self.pattern.covers(&other.pattern) && other.ports().iter().all(|port| self.ports().contains(port))
    }
}

impl HostPattern {
    /// Does this pattern name every host that `other` does?
    pub(crate) fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (Self::Below(parent), Self::Name(name)) => name.is_below(parent),
            (Self::Below(parent), Self::Below(name)) => name == parent || name.is_below(parent),
            (known, pattern) => known == pattern,
        }
    }
}

pub(crate) fn is_group_name(name: &str) -> bool {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    matches!(name.len(), 1..=64) && name.bytes().all(fine)
}

impl From<Host> for HostPattern {
    fn from(host: Host) -> Self {
        match host {
            Host::Name(name) => HostPattern::Name(name),
            Host::Address(address) => HostPattern::Address(address.to_canonical()),
        }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.pattern {
            HostPattern::Name(name) => name.to_string(),
            HostPattern::Below(name) => format!("*.{name}"),
            HostPattern::Address(IpAddr::V4(address)) => address.to_string(),
            HostPattern::Address(IpAddr::V6(address)) => format!("[{address}]"),
            HostPattern::Group(name) => format!("@{name}"),
        };
        match self.port {
            Some(port) => f.pad(&format!("{host}:{port}")),
            None => f.pad(&host),
        }
    }
}

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, HostRuleError> {
        Self::parse(text)
    }
}

impl Serialize for HostRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for HostRule {
    fn schema_name() -> Cow<'static, str> {
        "HostRule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A host and an optional port: \"api.example.com\", \"*.example.com:443\", \
                            \"192.0.2.10:22\", \"[2001:db8::1]:22\", or \"@group\".",
            "type": "string",
            "minLength": 1
        })
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
