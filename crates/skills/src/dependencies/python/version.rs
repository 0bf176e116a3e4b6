//! PEP 440: versions and the ranges that pick among them.

use serde::{Serialize, Serializer};

/// A set of version specifiers: `>=3.9,<4`.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionRange {
    text: String,
}

impl VersionRange {
    /// As text, normalised.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Serialize for VersionRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Does a version (`3.11.7`) lie in a range? One that can't be read does not.
pub fn satisfies(range: &VersionRange, version: &str) -> bool {
    let _ = (range, version);
    false
}
