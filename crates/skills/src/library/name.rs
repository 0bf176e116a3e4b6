//! What domains and skills may be called, and how a person refers to one.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::LibraryError;

/// Where a skill goes when nobody says.
pub const DEFAULT_DOMAIN: &str = "general";

const MOST_CHARACTERS: usize = 64;
/// A history file is named after the skill, with a suffix, and a file name has at most 255 bytes.
const MOST_BYTES: usize = 200;

/// A group of skills: `[a-z0-9][a-z0-9-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Domain(String);

/// The folder of a skill: one path component of letters, digits, `-`, `_` and `.`, in NFC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillName(String);

/// One skill of a library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reference {
    pub domain: Domain,
    pub name: SkillName,
}

/// What a person typed: `name` or `domain/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub domain: Option<Domain>,
    pub name: SkillName,
}

impl Domain {
    pub fn parse(text: &str) -> Result<Self, LibraryError> {
        let right = (1..=MOST_CHARACTERS).contains(&text.len())
            && !text.starts_with('-')
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if right {
            Ok(Self(text.to_owned()))
        } else {
            Err(LibraryError::Domain(text.escape_debug().to_string()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Domain {
    fn default() -> Self {
        Self(DEFAULT_DOMAIN.to_owned())
    }
}

impl SkillName {
    /// Brought to NFC; what is not a safe folder name is an error.
    pub fn parse(text: &str) -> Result<Self, LibraryError> {
        let refused = |why| LibraryError::Name { name: text.escape_debug().take(200).collect(), why };
        if text.len() > 4 * MOST_BYTES {
            return Err(refused("longer than 64 characters"));
        }
        let name: String = text.nfc().collect();
        let Some(first) = name.chars().next() else { return Err(refused("empty")) };
        if first == '.' {
            return Err(refused("begins with a dot"));
        }
        // An option of some command line otherwise.
        if first == '-' {
            return Err(refused("begins with a hyphen"));
        }
        if is_combining_mark(first) || !name.chars().all(may_be_in_a_name) {
            return Err(refused("has something other than letters, digits, `-`, `_` and `.`"));
        }
        if name.chars().count() > MOST_CHARACTERS || name.len() > MOST_BYTES {
            return Err(refused("longer than 64 characters, or 200 bytes"));
        }
        Ok(Self(name))
    }

    /// The nearest name to a title such as `My Skill`, if there is one.
    pub fn from_title(title: &str) -> Option<Self> {
        let mut name = String::new();
        for character in title.trim().nfc().take(4 * MOST_CHARACTERS) {
            if may_be_in_a_name(character) {
                name.push(character);
            } else if !name.ends_with('-') {
                name.push('-');
            }
        }
        let name = name.trim_matches(['-', '.']);
        let mut short = String::new();
        for character in name.chars().take(MOST_CHARACTERS) {
            if short.len() + character.len_utf8() > MOST_BYTES {
                break;
            }
            short.push(character);
        }
        Self::parse(&short).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Equal for names that a filesystem without case, or a reader, takes for the same.
    pub(super) fn folded(&self) -> String {
        self.0.nfkc().flat_map(char::to_lowercase).nfkc().collect()
    }
}

impl Reference {
    /// The folder, relative to the library.
    pub fn path(&self) -> String {
        self.to_string()
    }
}

impl Wanted {
    pub fn parse(text: &str) -> Result<Self, LibraryError> {
        match text.split_once('/') {
            Some((domain, name)) => {
                Ok(Self { domain: Some(Domain::parse(domain)?), name: SkillName::parse(name)? })
            }
            None => Ok(Self { domain: None, name: SkillName::parse(text)? }),
        }
    }
}

fn may_be_in_a_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.') || is_combining_mark(character)
}

impl fmt::Display for Domain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.domain, self.name)
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            Some(domain) => write!(formatter, "{domain}/{}", self.name),
            None => write!(formatter, "{}", self.name),
        }
    }
}

impl From<Domain> for String {
    fn from(domain: Domain) -> Self {
        domain.0
    }
}

impl From<SkillName> for String {
    fn from(name: SkillName) -> Self {
        name.0
    }
}

impl TryFrom<String> for Domain {
    type Error = LibraryError;

    fn try_from(text: String) -> Result<Self, LibraryError> {
        Self::parse(&text)
    }
}

impl TryFrom<String> for SkillName {
    type Error = LibraryError;

    fn try_from(text: String) -> Result<Self, LibraryError> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        for right in ["a", "general", "team-7", "0x"] {
            assert!(Domain::parse(right).is_ok(), "{right}");
        }
        for wrong in ["", "-a", "A", "a/b", "a.b", "..", ".ringfence", "é", "a b", &"a".repeat(65)] {
            assert!(Domain::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names() {
        for right in ["a", "My_Skill", "v1.2", "résumé", "書類", "हिन्दी", &"é".repeat(64)] {
            assert!(SkillName::parse(right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "a/b",
            "a b",
            "a\0",
            "a\n",
            "a\\b",
            "\u{301}a",
            &"a".repeat(65),
            &"𠀀".repeat(60),
        ] {
            assert!(SkillName::parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(SkillName::parse("e\u{301}").unwrap(), SkillName::parse("é").unwrap());
    }

    #[test]
    fn a_title_becomes_a_name() {
        assert_eq!(SkillName::from_title(" My  Skill! ").unwrap().as_str(), "My-Skill");
        assert_eq!(SkillName::from_title("../../etc").unwrap().as_str(), "etc");
        assert_eq!(SkillName::from_title("!!"), None);
        assert!(SkillName::from_title(&"𠀀".repeat(90)).is_some());
    }

    #[test]
    fn a_reference_has_one_slash_at_most() {
        assert_eq!(Wanted::parse("a/b").unwrap().to_string(), "a/b");
        assert_eq!(Wanted::parse("b").unwrap().domain, None);
        assert!(Wanted::parse("a/b/c").is_err());
        assert!(Wanted::parse("/b").is_err());
        assert!(Wanted::parse("../b").is_err());
    }
}
