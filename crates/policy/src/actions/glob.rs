//! Patterns of rules: a text where `*` is any number of characters, and a command word by word.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text in which `*` stands for any characters, none included. Everything else is meant as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Linear in pattern times text at the very worst: the last star alone is ever gone back to.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p + 1, t));
                    p += 1;
                }
                Some(byte) if *byte == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => {
                    let Some((after, from)) = star else { return false };
                    star = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A command, a pattern for each word: `["git", "push", "**"]`. `**` at the end is any number of words, none included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WordPattern(Vec<Glob>);

impl WordPattern {
    const REST: &str = "**";

    pub fn new(words: &[&str]) -> Self {
        Self(words.iter().map(|word| Glob::new(*word)).collect())
    }

    /// Why this is no pattern: `**` may stand at the end only, since anywhere else it would not mean what it seems to.
    pub(super) fn check(&self) -> Result<(), String> {
        let Some((_, before)) = self.0.split_last() else {
            return Err("`command` has no words: leave it out, or write the first one".into());
        };
        match before.iter().any(|word| word.as_str() == Self::REST) {
            true => Err("`**` stands for the rest of a command, so it can only be its last word".into()),
            false => Ok(()),
        }
    }

    pub fn matches(&self, command: &[String]) -> bool {
        let (words, open) = match self.0.split_last() {
            Some((last, before)) if last.as_str() == Self::REST => (before, true),
            _ => (&self.0[..], false),
        };
        (command.len() == words.len() || (open && command.len() > words.len()))
            && words.iter().zip(command).all(|(pattern, word)| pattern.matches(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_characters() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "any thing"),
            ("team-*", "team-blue"),
            ("*curl*", "x; curl y"),
            ("a*b*c", "a__b__b_c"),
            ("**", "x"),
        ] {
            assert!(Glob::new(pattern).matches(text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "x"), ("team-*", "team"), ("a*b", "ab c"), ("a.c", "abc"), ("A", "a")] {
            assert!(!Glob::new(pattern).matches(text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_long_text_costs_no_more_than_its_length_times_the_pattern() {
        let pattern = Glob::new("*a".repeat(50) + "b");
        assert!(!pattern.matches(&"a".repeat(20_000)));
    }

    #[test]
    fn a_command_is_matched_word_by_word() {
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let push = WordPattern::new(&["git", "push", "**"]);
        assert!(push.matches(&words("git|push")) && push.matches(&words("git|push|origin|main")));
        for other in ["git", "git|pull", "git push|x", "sudo|git|push", "git|pushy"] {
            assert!(!push.matches(&words(other)), "{other}");
        }
        assert!(!WordPattern::new(&["git", "push"]).matches(&words("git|push|x")));
        assert!(WordPattern::new(&["sh", "-c", "*curl*"]).matches(&words("sh|-c|true; curl x")));
        assert!(WordPattern::new(&["**", "x"]).check().is_err() && WordPattern::new(&[]).check().is_err());
        assert!(push.check().is_ok());
    }
}
