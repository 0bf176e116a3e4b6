//! What is looked for in text: reviewed data, and how it is matched.
//!
//! A pattern runs over a file only if one of its hints, plain words, occurs in it; all hints are looked for in one pass.
//! Every regular expression is linear in the text, and is compiled when it is first needed.

mod changes;
mod commands;
mod credentials;
mod phrases;
mod secrets;

use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::{Regex, RegexBuilder};

use super::rules::Rule;

/// One thing to look for.
pub(super) struct Pattern {
    pub(super) rule: Rule,
    pub(super) scope: Scope,
    /// Words of which the text must have one, in any case.
    hints: &'static [&'static str],
    /// ASCII, in any case, `^` and `$` at line ends. `%FETCH%` and the like are the words of `expand`.
    regex: &'static str,
    /// Of the matched passage: if this matches, it is none.
    unless: &'static str,
    /// What a match is, to begin a message with.
    pub(super) what: &'static str,
}

/// In which files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Any,
    /// Not in documents.
    Script,
}

/// A place in the text that was searched.
pub(super) struct Hit {
    pub(super) pattern: &'static Pattern,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Patterns that are matched together.
pub(super) struct Set {
    patterns: Vec<(&'static Pattern, OnceLock<Compiled>)>,
    hints: AhoCorasick,
    /// Of each hint, whose it is.
    owners: Vec<usize>,
}

struct Compiled {
    regex: Regex,
    unless: Option<Regex>,
}

/// What commands and code do; for joined text.
pub(super) static COMMANDS: LazyLock<Set> = LazyLock::new(|| {
    Set::new(&[commands::COMMANDS, changes::CHANGES, credentials::CREDENTIALS, phrases::MARKUP])
});
/// Code that sends something; no finding by itself.
pub(super) static SENDS: LazyLock<Set> = LazyLock::new(|| Set::new(&[credentials::SENDS]));
/// What is said to a model; for folded text.
pub(super) static PHRASES: LazyLock<Set> = LazyLock::new(|| Set::new(&[phrases::PHRASES]));
/// What is said to a model where only a model reads it; for folded text.
pub(super) static ORDERS: LazyLock<Set> = LazyLock::new(|| Set::new(&[phrases::ORDERS]));
/// Tokens and keys; for joined text. A match is looked at once more.
pub(super) static SECRETS: LazyLock<Set> = LazyLock::new(|| Set::new(&[secrets::SECRETS]));

/// A pattern is reported this many times in one file.
const HITS: usize = 10;
/// And so many of its matches are looked at: each may cost a pass over the text.
const LOOKED_AT: usize = 500;

impl Set {
    fn new(groups: &[&'static [Pattern]]) -> Self {
        let patterns: Vec<&'static Pattern> = groups.iter().flat_map(|group| group.iter()).collect();
        let (owners, words): (Vec<usize>, Vec<&str>) = patterns
            .iter()
            .enumerate()
            .flat_map(|(owner, pattern)| pattern.hints.iter().map(move |hint| (owner, *hint)))
            .unzip();
        let hints = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(words)
            .expect("the hints are constants, and a test builds them");
        Self {
            patterns: patterns.into_iter().map(|pattern| (pattern, OnceLock::new())).collect(),
            hints,
            owners,
        }
    }

    /// In the order of the patterns, at most `HITS` of each.
    pub(super) fn search(&self, text: &[u8], in_script: bool) -> Vec<Hit> {
        let mut found = Vec::new();
        for (index, wanted) in self.hinted(text).into_iter().enumerate() {
            let (pattern, compiled) = &self.patterns[index];
            if !wanted || (pattern.scope == Scope::Script && !in_script) {
                continue;
            }
            let compiled = compiled.get_or_init(|| pattern.compile());
            let is_one = |text: &[u8]| compiled.unless.as_ref().is_none_or(|unless| !unless.is_match(text));
            found.extend(
                compiled
                    .regex
                    .find_iter(text)
                    .take(LOOKED_AT)
                    .filter(|hit| is_one(hit.as_bytes()))
                    .take(HITS)
                    .map(|hit| Hit { pattern, start: hit.start(), end: hit.end() }),
            );
        }
        found
    }

    /// Of each pattern, whether one of its hints occurs.
    fn hinted(&self, text: &[u8]) -> Vec<bool> {
        let mut hinted = vec![false; self.patterns.len()];
        let mut missing = self.patterns.len();
        for hint in self.hints.find_overlapping_iter(text) {
            let owner = self.owners[hint.pattern().as_usize()];
            if !std::mem::replace(&mut hinted[owner], true) {
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        hinted
    }
}

impl Pattern {
    fn compile(&self) -> Compiled {
        let build = |text: &str| {
            RegexBuilder::new(&expand(text))
                .unicode(false)
                .case_insensitive(true)
                .multi_line(true)
                .build()
                .expect("the patterns are constants, and a test compiles each")
        };
        Compiled { regex: build(self.regex), unless: (!self.unless.is_empty()).then(|| build(self.unless)) }
    }
}

/// Files that tell an agent what it may do, what it starts and what it remembers.
const AGENT: &str = r"(?:\.claude/(?:settings(?:\.local)?\.json|CLAUDE\.md|hooks/|agents/|commands/)|\.claude\.json|\bCLAUDE\.md|\bAGENTS\.md|\bGEMINI\.md|\.cursor/(?:rules|mcp\.json)|\.cursorrules|\.codex/(?:config\.toml|AGENTS\.md)|\.gemini/settings\.json|\.mcp\.json|claude_desktop_config\.json|\bSOUL\.md|\bMEMORY\.md)";

fn expand(text: &str) -> String {
    text.replace("%AGENT%", AGENT)
        .replace("%FETCH%", r"\b(?:curl|wget|aria2c)\b")
        .replace(
            "%SHELL%",
            r"(?:sudo\s+(?:-\S+\s+)*)?(?:/(?:usr/)?(?:local/)?bin/)?(?:env\s+)?(?:ba|z|da|k|fi)?sh",
        )
        // What may follow an interpreter that reads its program from a pipe: nothing, a flag, or the end of a quotation.
        .replace("%END%", r#"(?:\s+-|\s+(?:to|in|and|as|for|then)\s|\s*(?:$|["'`);&|#<>]))"#)
}

#[cfg(test)]
#[path = "../patterns_tests.rs"]
mod tests;
