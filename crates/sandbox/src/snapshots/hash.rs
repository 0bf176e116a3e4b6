//! The names of things by content: BLAKE3, as 64 lower-case hexadecimal digits and in no other spelling.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The content of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectHash([u8; 32]);

impl ObjectHash {
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    pub fn parse(text: &str) -> Option<Self> {
        let upper = text.bytes().any(|byte| byte.is_ascii_uppercase());
        (!upper).then(|| blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes())))?
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) fn finish(hasher: &blake3::Hasher) -> Self {
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ObjectHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for ObjectHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl<'de> Deserialize<'de> for ObjectHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not 64 lower-case hexadecimal digits"))
    }
}

/// A snapshot: the hash of its manifest, so of everything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(pub(super) ObjectHash);

impl SnapshotId {
    pub fn parse(text: &str) -> Option<Self> {
        ObjectHash::parse(text).map(Self)
    }

    /// Enough of it for people.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_only() {
        let hash = ObjectHash::of(b"text");
        let text = hash.to_string();
        assert_eq!(ObjectHash::parse(&text), Some(hash));
        assert_eq!(ObjectHash::parse(&text.to_uppercase()), None);
        assert_eq!(ObjectHash::parse(&text[1..]), None);
        assert_eq!(ObjectHash::parse(&format!("{text}0")), None);
        assert_eq!(ObjectHash::parse(&format!("../{}", &text[3..])), None);
    }
}
