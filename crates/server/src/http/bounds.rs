//! Numbers with bounds, held where a request is read: what the document says of a number is so.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A number from `LEAST` to `MOST`. Whoever gives another is told which are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Within<const LEAST: u64, const MOST: u64>(u64);

/// A time that passes.
pub(crate) type Millis = Within<1, { u64::MAX }>;

/// Rows of a page.
pub(crate) type PageLimit = Within<1, { super::pages::MOST as u64 }>;

impl<const LEAST: u64, const MOST: u64> Within<LEAST, MOST> {
    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

impl Millis {
    pub(crate) fn span(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Within<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Bounds)
    }
}

struct Bounds<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> Visitor<'_> for Bounds<LEAST, MOST> {
    type Value = Within<LEAST, MOST>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match MOST {
            u64::MAX => write!(out, "a whole number that is {LEAST} or more"),
            most => write!(out, "a whole number from {LEAST} to {most}"),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        match (LEAST..=MOST).contains(&number) {
            true => Ok(Within(number)),
            false => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        u64::try_from(number)
            .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            .and_then(|number| self.visit_u64(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_bounds_is_refused_with_them() {
        let page = |text: &str| serde_json::from_str::<PageLimit>(text);
        assert_eq!((page("1").unwrap().get(), page("1000").unwrap().get()), (1, 1000));
        for text in ["0", "1001", "-1", "1.5", "\"1\"", "18446744073709551616"] {
            let told = page(text).unwrap_err().to_string();
            assert!(told.contains("from 1 to 1000") || text.len() > 10, "{text}: {told}");
        }
        let time = |text: &str| serde_json::from_str::<Millis>(text);
        assert!(time("0").unwrap_err().to_string().contains("1 or more"));
        assert_eq!(time("18446744073709551615").unwrap().get(), u64::MAX);
        assert_eq!(serde_json::to_string(&time("7").unwrap()).unwrap(), "7");
    }
}
