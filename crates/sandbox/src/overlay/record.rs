//! What this session has committed, or put back, before: so that a later commit does not take its own work for somebody
//! else's, and does not commit twice what its user has changed since.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::identity::{Moment, Stamp};

/// The session's side of a path when it was last committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Seen {
    Entry(Stamp),
    Removed,
    /// Never committed: a commit that was undone touched the user's file.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) upper: Seen,
    /// The user's side afterwards, as this session left it.
    pub(super) lower: Option<Stamp>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Record(BTreeMap<RawPath, Kept>);

impl Record {
    pub(super) fn get(&self, path: &Path) -> Option<&Kept> {
        self.0.get(&RawPath(path.to_path_buf()))
    }

    /// Changed since `start`, by somebody else than the session's own commits.
    pub(super) fn has_changed(&self, start: Moment, path: &Path, lower: &Stamp) -> bool {
        let own = self.get(path).and_then(|kept| kept.lower);
        lower.changed >= start && own != Some(*lower)
    }

    pub(super) fn set(&mut self, path: &Path, kept: Kept) {
        self.0.insert(RawPath(path.to_path_buf()), kept);
    }

    /// The user's side as this session left it; what was committed of the session's side stays as it is.
    pub(super) fn set_lower(&mut self, path: &Path, lower: Stamp) {
        let upper = self.get(path).map_or(Seen::Nothing, |kept| kept.upper);
        self.set(path, Kept { upper, lower: Some(lower) });
    }

    /// Paths right in `directory` that the session once had.
    pub(super) fn had_in<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = &'a Path> {
        let below = self.0.range(RawPath(directory.to_path_buf())..);
        below
            .map(|(RawPath(path), kept)| (path.as_path(), kept))
            .take_while(move |(path, _)| path.starts_with(directory))
            .filter(move |(path, kept)| {
                path.parent() == Some(directory) && matches!(kept.upper, Seen::Entry(_))
            })
            .map(|(path, _)| path)
    }
}

/// A path in a JSON file: text where it is text, else its bytes in hexadecimal after a NUL, which no path has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RawPath(pub(super) PathBuf);

impl Serialize for RawPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let hex: String = self.0.as_os_str().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
                serializer.serialize_str(&format!("\0{hex}"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Some(hex) = text.strip_prefix('\0') else { return Ok(Self(text.into())) };
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
        let bytes =
            bytes.ok_or_else(|| serde::de::Error::custom("a path is neither text nor hexadecimal"))?;
        Ok(Self(OsString::from_vec(bytes).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_text_survives_a_file() {
        for bytes in [b"plain/name".to_vec(), b"odd/\xff\xfe".to_vec()] {
            let path = RawPath(OsString::from_vec(bytes).into());
            let text = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RawPath>(&text).unwrap(), path);
        }
    }
}
