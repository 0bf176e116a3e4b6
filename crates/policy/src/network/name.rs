//! A host name in its one normal form: ASCII, lower case, no trailing dot.
//!
//! Invariant: two `HostName`s are the same name if and only if they are the same bytes, and no `HostName` can be taken
//! for an address by any resolver.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::units::shown;

/// A name that was parsed strictly and normalised. Never an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

/// Why a text is not a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    #[error("a host name is empty, write one like example.org")]
    Empty,
    #[error(
        "`{name}` is longer than a host name can be, {MOST} characters in all and {MOST_LABEL} between dots"
    )]
    TooLong { name: String },
    #[error("`{name}` is not a host name, it has `{}`; write only the name, like example.org", .found.escape_debug())]
    Character { name: String, found: char },
    #[error("`{name}` is not a host name, there is nothing between two dots")]
    EmptyLabel { name: String },
    #[error("`{name}` is not a host name, a part of it starts or ends with `-`")]
    Hyphen { name: String },
    #[error(
        "`{name}` ends in a number, so that some programs take it for an address; write an address as four decimal \
         numbers, like 192.0.2.10"
    )]
    Number { name: String },
    #[error("`{name}` is not a name that IDNA allows")]
    Idna { name: String },
}

/// Without the trailing dot; DNS has 255 bytes for lengths and the root.
const MOST: usize = 253;
const MOST_LABEL: usize = 63;
/// Longer than any Unicode spelling of a name that fits; bounds the work for hostile input.
const MOST_INPUT: usize = 1024;

impl HostName {
    /// The name that this text spells: IDNA to ASCII, lower case, one trailing dot dropped, then strictly letters,
    /// digits, hyphens and underscores.
    pub fn parse(text: &str) -> Result<Self, HostNameError> {
        if text.len() > MOST_INPUT {
            return Err(HostNameError::TooLong { name: shown(text) });
        }
        if let Some(found) = text.chars().find(|c| c.is_ascii() && *c != '.' && !in_label(*c)) {
            return Err(HostNameError::Character { name: shown(text), found });
        }
        let ascii = to_ascii(text)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        check(name, text)?;
        Ok(Self(name.into()))
    }

    /// The same for a name as DNS, TLS and HTTP carry it: ASCII only, since nothing maps it on the way, and what is
    /// compared must be what is sent on.
    pub fn parse_ascii(text: &str) -> Result<Self, HostNameError> {
        match text.chars().find(|c| !c.is_ascii()) {
            Some(found) => Err(HostNameError::Character { name: shown(text), found }),
            None => Self::parse(text),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Is this name below `parent`, at any depth? Not for `parent` itself.
    pub fn is_below(&self, parent: &HostName) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }

    /// The names above this one, nearest first.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('.').map(|(dot, _)| &self.0[dot + 1..])
    }

    /// `localhost` and what is below it mean the machine itself, whatever DNS says (RFC 6761).
    pub fn is_localhost(&self) -> bool {
        self.as_str() == "localhost" || self.0.ends_with(".localhost")
    }
}

fn in_label(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn to_ascii(text: &str) -> Result<Cow<'_, str>, HostNameError> {
    let encoded = |label: &str| label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
    if text.is_ascii() && !text.split('.').any(encoded) {
        return Ok(text.to_ascii_lowercase().into());
    }
    // Hyphens in the third and fourth place of a label are in use (`r3---sn-…`); what else is in the result is
    // checked below, with underscores allowed, which STD3 has not.
    Uts46::new()
        .to_ascii(text.as_bytes(), AsciiDenyList::EMPTY, Hyphens::CheckFirstLast, DnsLength::Ignore)
        .map_err(|_| HostNameError::Idna { name: shown(text) })
}

fn check(name: &str, text: &str) -> Result<(), HostNameError> {
    let shown = || shown(text);
    if name.is_empty() {
        return Err(if text.is_empty() {
            HostNameError::Empty
        } else {
            HostNameError::EmptyLabel { name: shown() }
        });
    }
    // Mapping can make any of these: U+FF05 is a percent sign, U+2024 a dot.
    if let Some(found) = name.chars().find(|c| *c != '.' && !in_label(*c)) {
        return Err(HostNameError::Character { name: shown(), found });
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(HostNameError::EmptyLabel { name: shown() });
        }
        if label.len() > MOST_LABEL {
            return Err(HostNameError::TooLong { name: shown() });
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(HostNameError::Hyphen { name: shown() });
        }
    }
    if name.len() > MOST {
        return Err(HostNameError::TooLong { name: shown() });
    }
    if ends_in_number(name) {
        return Err(HostNameError::Number { name: shown() });
    }
    Ok(())
}

/// As WHATWG's URL standard has it: such a name is an IPv4 address or nothing. `inet_aton` reads `0x7f.1`, `0177.1` and
/// `2130706433` as 127.0.0.1.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x");
    last.bytes().all(|b| b.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        Self::parse(text)
    }
}

impl AsRef<str> for HostName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for HostName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for HostName {
    fn schema_name() -> Cow<'static, str> {
        "HostName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A host name, like \"api.example.com\". It is compared in its ASCII form.",
            "type": "string",
            "minLength": 1
        })
    }
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
