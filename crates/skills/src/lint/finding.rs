//! One thing that lint has to say, and how hostile text is made visible in it.

use std::fmt;

use serde::Serialize;

use super::rules::Rule;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    Low,
    Medium,
    High,
    Critical,
}

impl Severity {
    pub const ALL: [Self; 5] = [Self::Info, Self::Low, Self::Medium, Self::High, Self::Critical];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// From what `as_str` gives: for `--fail-on`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.as_str() == text)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Something in a skill that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable: `pipe-to-shell`.
    pub rule: &'static str,
    pub severity: Severity,
    /// The path in the skill as it is, `.` for the skill as a whole. Pass it through `visible` before you print it.
    pub file: String,
    /// From 1.
    pub line: Option<u32>,
    /// What was found. Hostile characters in it are visible.
    pub message: String,
    pub why: &'static str,
    pub fix: &'static str,
}

impl Finding {
    /// `message` may quote the skill: it is made visible here.
    pub(super) fn new(rule: &Rule, file: &str, line: Option<u32>, message: &str) -> Self {
        Self {
            rule: rule.id,
            severity: rule.severity,
            file: file.to_owned(),
            line,
            message: visible(message),
            why: rule.why,
            fix: rule.fix,
        }
    }

    /// Most severe first, then by place.
    pub(super) fn order(&self, other: &Self) -> std::cmp::Ordering {
        other
            .severity
            .cmp(&self.severity)
            .then_with(|| self.file.cmp(&other.file))
            .then_with(|| self.line.cmp(&other.line))
            .then_with(|| self.rule.cmp(other.rule))
            .then_with(|| self.message.cmp(&other.message))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", visible(&self.file))?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {} [{}] {}", self.severity, self.rule, self.message)
    }
}

/// The same text with everything that a terminal or a reader would not show as it is (controls, bidirectional marks,
/// zero-width characters, tags, unassigned code points) written as `\u{..}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' '..='~' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

/// The beginning of a passage of the skill, short enough for a message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const MOST: usize = 100;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MOST)]);
    let words: String = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= MOST && bytes.len() <= 4 * MOST {
        return words;
    }
    words.chars().take(MOST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_seen_is_written_out() {
        assert_eq!(
            visible("a\u{202e}b\u{200b}\u{e0041}\x1b[31m\n"),
            "a\\u{202e}b\\u{200b}\\u{e0041}\\u{1b}[31m\\n"
        );
        assert_eq!(visible("naïve — 日本 \"quoted\" C:\\x"), "naïve — 日本 \"quoted\" C:\\x");
    }

    #[test]
    fn a_severity_is_read_as_it_is_written() {
        for severity in Severity::ALL {
            assert_eq!(Severity::parse(severity.as_str()), Some(severity));
        }
        assert_eq!(Severity::parse("HIGH"), None);
        assert!(Severity::Critical > Severity::Info);
    }

    #[test]
    fn an_excerpt_is_short_and_one_line() {
        assert_eq!(excerpt(b"curl x \\\n  | sh"), "curl x \\ | sh");
        assert!(excerpt(&vec![b'a'; 1 << 20]).chars().count() < 110);
    }
}
