//! PEP 440: versions and the ranges that pick among them.
//!
//! Our own, since it is small and a crate for it would bring a C library type that a static target can't link. Texts are
//! bounded, numbers too: what does not fit is not a version.

use std::cmp::Ordering;
use std::fmt;

use serde::{Serialize, Serializer};

/// Longer ones are not written by people.
const MOST_BYTES: usize = 512;
const MOST_PARTS: usize = 32;

/// A set of version specifiers, all of which must hold: `>=3.9,<4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    text: String,
    specifiers: Vec<Specifier>,
}

/// Why a range or a version can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version or a range of versions as in PEP 440")]
pub struct VersionError(String);

impl VersionRange {
    /// Specifiers between commas; none at all is every version.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let wrong = || VersionError(super::super::text::shown(text));
        if text.len() > MOST_BYTES {
            return Err(wrong());
        }
        let mut specifiers = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if specifiers.len() == MOST_PARTS {
                return Err(wrong());
            }
            specifiers.push(Specifier::parse(part).ok_or_else(wrong)?);
        }
        let mut texts: Vec<String> = specifiers.iter().map(Specifier::to_string).collect();
        texts.sort_unstable();
        texts.dedup();
        Ok(Self { text: texts.join(","), specifiers })
    }

    /// Normalised: lower case, no spaces, in one order. Empty where every version will do.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What lies in both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut specifiers = self.specifiers.clone();
        specifiers.extend(other.specifiers.iter().filter(|one| !self.specifiers.contains(one)).cloned());
        let mut texts: Vec<String> = specifiers.iter().map(Specifier::to_string).collect();
        texts.sort_unstable();
        texts.dedup();
        Self { text: texts.join(","), specifiers }
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Serialize for VersionRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Does a version (`3.11.7`, `3.14.0rc2`) lie in a range? One that can't be read does not.
pub fn satisfies(range: &VersionRange, version: &str) -> bool {
    let Some(version) = Version::parse(version) else { return false };
    range.specifiers.iter().all(|specifier| specifier.admits(&version))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Compatible,
    Equal,
    NotEqual,
    AtMost,
    AtLeast,
    Below,
    Above,
    Identical,
}

/// Longer ones first: `==` begins `===`.
const OPERATORS: [(&str, Operator); 8] = [
    ("===", Operator::Identical),
    ("~=", Operator::Compatible),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("<", Operator::Below),
    (">", Operator::Above),
];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Specifier {
    operator: Operator,
    version: Version,
    /// `==3.11.*`
    any_further: bool,
}

impl Specifier {
    fn parse(text: &str) -> Option<Self> {
        let (symbol, operator) = OPERATORS.iter().find(|(symbol, _)| text.starts_with(symbol))?;
        let rest = text[symbol.len()..].trim();
        let (rest, star) = match rest.strip_suffix(".*") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let version = Version::parse(rest)?;
        let any_further = match operator {
            Operator::Equal | Operator::NotEqual => star,
            // `>=3.6.*` is not in the standard, yet common in old packages; installers read it as `>=3.6`.
            Operator::AtLeast | Operator::AtMost | Operator::Below | Operator::Above => false,
            Operator::Compatible | Operator::Identical if star => return None,
            Operator::Compatible | Operator::Identical => false,
        };
        if *operator == Operator::Compatible && version.release.len() < 2 {
            return None;
        }
        Some(Self { operator: *operator, version, any_further })
    }

    fn admits(&self, version: &Version) -> bool {
        let wanted = &self.version;
        match self.operator {
            Operator::Identical => version == wanted,
            Operator::Equal => self.equals(version),
            Operator::NotEqual => !self.equals(version),
            Operator::AtMost => version.public().cmp(wanted) != Ordering::Greater,
            Operator::AtLeast => version.public().cmp(wanted) != Ordering::Less,
            Operator::Below => {
                // `<3.14` leaves out `3.14rc1` as well.
                version.cmp(wanted) == Ordering::Less
                    && (wanted.is_early() || !version.is_early() || !version.same_release(wanted))
            }
            Operator::Above => {
                version.public().cmp(wanted) == Ordering::Greater
                    && (wanted.post.is_some() || version.post.is_none() || !version.same_release(wanted))
            }
            Operator::Compatible => {
                version.public().cmp(wanted) != Ordering::Less
                    && version.starts_with(wanted.epoch, &wanted.release[..wanted.release.len() - 1])
            }
        }
    }

    fn equals(&self, version: &Version) -> bool {
        if self.any_further {
            return version.starts_with(self.version.epoch, &self.version.release);
        }
        let version = if self.version.local.is_empty() { &version.public() } else { version };
        version.cmp(&self.version) == Ordering::Equal
    }
}

impl fmt::Display for Specifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let symbol = OPERATORS.iter().find(|(_, operator)| *operator == self.operator).map_or("", |(s, _)| s);
        write!(formatter, "{symbol}{}{}", self.version, if self.any_further { ".*" } else { "" })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LocalPart {
    Text(String),
    Number(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    epoch: u64,
    release: Vec<u64>,
    /// `a`, `b` or `c` (written `rc`), and its number.
    pre: Option<(char, u64)>,
    post: Option<u64>,
    dev: Option<u64>,
    local: Vec<LocalPart>,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text.len() > MOST_BYTES {
            return None;
        }
        let text = text.strip_prefix('v').unwrap_or(&text);
        let (public, local) = match text.split_once('+') {
            Some((public, local)) => (public, parse_local(local)?),
            None => (text, Vec::new()),
        };
        let mut reader = Reader { rest: public };
        let mut first = reader.number()?;
        let mut epoch = 0;
        if reader.take("!") {
            epoch = first;
            first = reader.number()?;
        }
        let mut release = vec![first];
        while let Some(number) = reader.dotted_number() {
            if release.len() == MOST_PARTS {
                return None;
            }
            release.push(number);
        }
        let pre = reader.pre()?;
        let post = reader.post()?;
        let dev = reader.dev()?;
        reader.rest.is_empty().then_some(Self { epoch, release, pre, post, dev, local })
    }

    fn public(&self) -> Self {
        Self { local: Vec::new(), ..self.clone() }
    }

    /// Before the release that it leads to.
    fn is_early(&self) -> bool {
        self.pre.is_some() || self.dev.is_some()
    }

    fn same_release(&self, other: &Self) -> bool {
        self.epoch == other.epoch && trimmed(&self.release) == trimmed(&other.release)
    }

    fn starts_with(&self, epoch: u64, release: &[u64]) -> bool {
        self.epoch == epoch
            && release
                .iter()
                .enumerate()
                .all(|(at, number)| self.release.get(at).copied().unwrap_or(0) == *number)
    }

    fn cmp(&self, other: &Self) -> Ordering {
        // A development release of nothing further comes before every pre-release, no pre-release after them.
        let pre = |version: &Self| match (version.pre, version.post, version.dev) {
            (Some((phase, number)), ..) => (1, phase, number),
            (None, None, Some(_)) => (0, ' ', 0),
            (None, ..) => (2, ' ', 0),
        };
        let dev = |version: &Self| version.dev.map_or((1, 0), |number| (0, number));
        (self.epoch, trimmed(&self.release), pre(self), self.post, dev(self), &self.local).cmp(&(
            other.epoch,
            trimmed(&other.release),
            pre(other),
            other.post,
            dev(other),
            &other.local,
        ))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.epoch != 0 {
            write!(formatter, "{}!", self.epoch)?;
        }
        for (at, number) in self.release.iter().enumerate() {
            write!(formatter, "{}{number}", if at == 0 { "" } else { "." })?;
        }
        if let Some((phase, number)) = self.pre {
            write!(formatter, "{}{number}", if phase == 'c' { "rc".to_owned() } else { phase.to_string() })?;
        }
        if let Some(number) = self.post {
            write!(formatter, ".post{number}")?;
        }
        if let Some(number) = self.dev {
            write!(formatter, ".dev{number}")?;
        }
        for (at, part) in self.local.iter().enumerate() {
            let before = if at == 0 { "+" } else { "." };
            match part {
                LocalPart::Text(text) => write!(formatter, "{before}{text}")?,
                LocalPart::Number(number) => write!(formatter, "{before}{number}")?,
            }
        }
        Ok(())
    }
}

fn trimmed(release: &[u64]) -> &[u64] {
    let end = release.iter().rposition(|number| *number != 0).map_or(0, |at| at + 1);
    &release[..end]
}

fn parse_local(text: &str) -> Option<Vec<LocalPart>> {
    text.split(['.', '-', '_'])
        .map(|part| {
            let right = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
            right.then(|| part.parse().map_or_else(|_| LocalPart::Text(part.to_owned()), LocalPart::Number))
        })
        .collect()
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, what: &str) -> bool {
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok()?;
        self.rest = &self.rest[end..];
        Some(number)
    }

    fn dotted_number(&mut self) -> Option<u64> {
        let before = self.rest;
        let number = if self.take(".") { self.number() } else { None };
        if number.is_none() {
            self.rest = before;
        }
        number
    }

    /// One of `words`, after an optional separator.
    fn word(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let before = self.rest;
        let _ = self.take(".") || self.take("-") || self.take("_");
        let found = words.iter().copied().find(|word| self.take(word));
        if found.is_none() {
            self.rest = before;
        }
        found
    }

    /// The number after such a word; none is 0.
    fn word_number(&mut self) -> Option<u64> {
        let before = self.rest;
        let _ = self.take(".") || self.take("-") || self.take("_");
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        self.rest = before;
        Some(0)
    }

    // The outer option is whether it can be read, the inner one whether it is there.
    fn pre(&mut self) -> Option<Option<(char, u64)>> {
        const WORDS: [&str; 8] = ["alpha", "a", "beta", "b", "preview", "pre", "rc", "c"];
        let Some(word) = self.word(&WORDS) else { return Some(None) };
        let phase = match word {
            "alpha" | "a" => 'a',
            "beta" | "b" => 'b',
            _ => 'c',
        };
        Some(Some((phase, self.word_number()?)))
    }

    fn post(&mut self) -> Option<Option<u64>> {
        if self.word(&["post", "rev", "r"]).is_some() {
            return Some(Some(self.word_number()?));
        }
        // `1.0-1`
        if self.rest.starts_with('-') && self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            self.rest = &self.rest[1..];
            return Some(Some(self.number()?));
        }
        Some(None)
    }

    fn dev(&mut self) -> Option<Option<u64>> {
        if self.word(&["dev"]).is_none() {
            return Some(None);
        }
        Some(Some(self.word_number()?))
    }
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
