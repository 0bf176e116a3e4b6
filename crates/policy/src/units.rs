//! Byte sizes and time spans as people write them: `512M`, `1h30m`.
//!
//! Both read from a string or a plain number (bytes, seconds) and print the shortest form that loses nothing.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes. Units are binary: `1K` is 1024 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

/// A size or span that can't be read; the message says which forms can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

const BYTE_UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];
const SPAN_UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl ByteSize {
    /// `n` times 1024 bytes.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` times 1024² bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` times 1024³ bytes.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in BYTE_UNITS {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError(format!("`{}` is not a size, write it like 512M, 2G or 65536", shown(text)));
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let number = number.trim_end();
        let upper = unit.to_ascii_uppercase();
        let shift = match upper.as_str() {
            "" | "B" => 0,
            _ => {
                let letter = upper.chars().next().ok_or_else(wrong)?;
                if !matches!(&upper[1..], "" | "B" | "I" | "IB") {
                    return Err(wrong());
                }
                BYTE_UNITS.iter().find(|(unit, _)| *unit == letter).ok_or_else(wrong)?.1
            }
        };
        scaled(number, 1 << shift).map(Self).ok_or_else(wrong)
    }
}

impl Span {
    pub const fn from_secs(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    pub const fn from_millis(n: u64) -> Self {
        Self(Duration::from_millis(n))
    }

    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        if rest == 0 {
            return f.write_str("0s");
        }
        // Days are read but not printed: `36h` says more to most people than `1d12h`.
        for (unit, nanos) in &SPAN_UNITS[1..] {
            let count = rest / u128::from(*nanos);
            if count > 0 {
                write!(f, "{count}{unit}")?;
                rest %= u128::from(*nanos);
            }
        }
        Ok(())
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || {
            UnitError(format!("`{}` is not a time span, write it like 30s, 500ms, 10m or 1h30m", shown(text)))
        };
        let mut rest = text.trim();
        if !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return scaled(rest, 1_000_000_000).map(|n| Self(Duration::from_nanos(n))).ok_or_else(wrong);
        }
        let mut total: u64 = 0;
        let mut smallest = u64::MAX;
        loop {
            let split = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(split);
            let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(end);
            let nanos = SPAN_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
            if nanos >= smallest {
                return Err(wrong());
            }
            smallest = nanos;
            total = scaled(number, nanos).and_then(|n| total.checked_add(n)).ok_or_else(wrong)?;
            rest = tail;
            if rest.is_empty() {
                return Ok(Self(Duration::from_nanos(total)));
            }
        }
    }
}

/// `number` (digits, with an optional decimal part) times `unit`, exact, or nothing.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit);
    let part = part / 10u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_add(u64::try_from(part).ok()?)
}

/// User text in a message: bounded, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        match c {
            _ if i == MOST => {
                out.push('…');
                break;
            }
            '"' | '\'' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}

/// A TOML or JSON scalar before it is given a meaning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Number(f64),
    Integer(u64),
    Text(String),
}

/// What can be read from a scalar; the error is the message for the reader.
pub(crate) trait FromScalar: Sized {
    fn from_scalar(scalar: Scalar) -> Result<Self, String>;
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(n))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Scalar, E> {
                u64::try_from(n)
                    .map(Scalar::Integer)
                    .map_err(|_| E::custom(format!("{n} is negative, use a positive number")))
            }
            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(n))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl FromScalar for ByteSize {
    fn from_scalar(scalar: Scalar) -> Result<Self, String> {
        match scalar {
            Scalar::Integer(n) => Ok(Self(n)),
            Scalar::Text(text) => text.parse().map_err(|e: UnitError| e.to_string()),
            Scalar::Number(n) => Err(format!("{n} is not a whole number of bytes, write it like \"512M\"")),
        }
    }
}

impl FromScalar for Span {
    fn from_scalar(scalar: Scalar) -> Result<Self, String> {
        match scalar {
            Scalar::Integer(n) if n <= u64::MAX / 1_000_000_000 => Ok(Self::from_secs(n)),
            Scalar::Number(n) if (0.0..1e9).contains(&n) => Ok(Self(Duration::from_secs_f64(n))),
            Scalar::Integer(n) => Err(format!("{n} seconds is too long")),
            Scalar::Number(n) => Err(format!("{n} is not a number of seconds, write it like \"30s\"")),
            Scalar::Text(text) => text.parse().map_err(|e: UnitError| e.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_scalar(Scalar::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_scalar(Scalar::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of bytes, or a string with a binary unit: \"512M\", \"2G\".",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *([kKmMgGtT][iI]?[bB]?|[bB])?$" }
            ]
        })
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of seconds, or a string: \"30s\", \"500ms\", \"1h30m\".",
            "anyOf": [
                { "type": "number", "minimum": 0 },
                { "type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(d|h|m|s|ms|us|ns)?)+$" }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("1K", 1 << 10),
            ("1k", 1 << 10),
            ("512M", 512 << 20),
            ("512Mi", 512 << 20),
            ("512MiB", 512 << 20),
            (" 2 GB ", 2 << 30),
            ("1.5G", 3 << 29),
            ("1T", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "1X",
            "1MM",
            "1iB",
            "1 M 2",
            "1e9",
            "1.G",
            ".5G",
            "16777216T",
            "99999999999999999999",
            "1\u{130}",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        let shown = [0, 1023, 1 << 10, 1536, 3 << 29, 8 << 30].map(|n| ByteSize(n).to_string());
        assert_eq!(shown, ["0", "1023", "1K", "1536", "1536M", "8G"]);
    }

    #[test]
    fn spans() {
        for (text, millis) in [
            ("30s", 30_000),
            ("500ms", 500),
            ("10m", 600_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1.5s", 1_500),
            ("2", 2_000),
            ("0.25", 250),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(text.parse(), Ok(Span::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "1x", "30m1h", "1h1h", "1h 30m", "9999999999999h", "1s5", "inf"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        let shown = [0, 500, 90_000, 5_400_000, 86_400_000].map(|n| Span::from_millis(n).to_string());
        assert_eq!(shown, ["0s", "500ms", "1m30s", "1h30m", "24h"]);
    }

    #[test]
    fn text_in_messages_is_bounded_and_printable() {
        assert_eq!(shown("a\n\u{1b}[31m\"b\""), "a\\n\\u{1b}[31m\"b\"");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), 81);
    }
}
