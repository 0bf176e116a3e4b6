//! A client's own deny rules for its shell tool, where `sandbox_run` of `ringfence mcp` is in that tool's place: the client
//! does not see its rules match there, so they are held here.
//!
//! Invariant: a file that can't be understood refuses every command, and is never taken for one without rules. Each file is
//! judged by itself, so that no project takes a rule of its user's away; what was denied at the start stays denied.

mod codex;
mod commands;
mod files;
mod gemini;
mod paths;
mod read;

use std::path::{Path, PathBuf};

use crate::files::read_if_there;
use crate::places::Places;
use crate::setup::Client;
use commands::Candidate;
pub use files::FileRules;
pub(crate) use files::Tightening;

/// The rules of one client, as its settings have them.
#[derive(Debug)]
pub struct ClientRules {
    client: Client,
    places: Places,
    /// As they were when this was made: what a command changes in a project's own settings takes nothing away.
    first: Result<Vec<RuleSet>, RuleRefusal>,
}

/// Why a command is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleRefusal {
    #[error("`{command}` is denied by the rule `{rule}` of {}", .file.display())]
    Denied { command: String, rule: String, file: PathBuf },
    #[error("the command has too many parts to hold all of them against the rules of {}", .file.display())]
    TooMuch { file: PathBuf },
    #[error("the deny rules of {} can't be read: {why}", .file.display())]
    Unreadable { file: PathBuf, why: String },
}

impl RuleRefusal {
    /// Stable: programs match on it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } | Self::TooMuch { .. } => "denied_by_rule",
            Self::Unreadable { .. } => "rules_unreadable",
        }
    }

    pub fn hint(&self) -> &'static str {
        match self {
            Self::Denied { .. } => {
                "this is a rule of the user's own: do without the command, or tell the user, who can change the rule in \
                 that file and start the client anew"
            }
            Self::TooMuch { .. } => "do its parts in several calls",
            Self::Unreadable { .. } => {
                "no command runs while it is not known what the user denies: tell the user to correct that file"
            }
        }
    }
}

/// Rules of one place that belong together: the last that matches decides.
#[derive(Clone, Debug)]
struct RuleSet {
    file: PathBuf,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    /// As it is written.
    text: String,
    pattern: Pattern,
    denies: bool,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// `*` is anything, `?` a character; ` *` at the end may be nothing.
    Glob(String),
    /// The text begins with this, and no word goes on.
    Begins(String),
    /// The first words, each one of several.
    Words(Vec<Vec<String>>),
}

impl RuleSet {
    /// One rule, which denies.
    fn denying(file: &Path, text: impl Into<String>, pattern: Pattern) -> Self {
        let rule = Rule { text: text.into(), pattern, denies: true };
        Self { file: file.to_owned(), rules: vec![rule] }
    }

    fn refuses(&self, candidate: &Candidate) -> Option<RuleRefusal> {
        let rule = self.rules.iter().rev().find(|rule| rule.pattern.matches(candidate))?;
        rule.denies.then(|| RuleRefusal::Denied {
            command: shortened(&candidate.text),
            rule: rule.text.clone(),
            file: self.file.clone(),
        })
    }
}

impl Pattern {
    fn matches(&self, candidate: &Candidate) -> bool {
        match self {
            Self::Glob(pattern) => {
                matches_glob(pattern.as_bytes(), candidate.text.as_bytes())
                    || pattern
                        .strip_suffix(" *")
                        .is_some_and(|all| matches_glob(all.as_bytes(), candidate.text.as_bytes()))
            }
            Self::Begins(prefix) => candidate.text.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                !rest.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '_' | '-'))
            }),
            Self::Words(wanted) => {
                candidate.words.len() >= wanted.len()
                    && wanted.iter().zip(&candidate.words).all(|(one_of, word)| one_of.contains(word))
            }
        }
    }
}

impl ClientRules {
    pub fn new(places: &Places, client: Client) -> Self {
        let first = read::rules(places, client);
        Self { client, places: places.clone(), first }
    }

    /// May this text be given to a shell, and `stdin` to what it starts?
    pub fn check_shell(&self, text: &str, stdin: &str) -> Result<(), RuleRefusal> {
        self.check(with_input(commands::of_shell(text), stdin))
    }

    /// May this program be started with these arguments and this input?
    pub fn check_words(&self, words: &[String], stdin: &str) -> Result<(), RuleRefusal> {
        self.check(with_input(commands::of_words(words), stdin))
    }

    fn check(&self, candidates: Option<Vec<Candidate>>) -> Result<(), RuleRefusal> {
        let now = read::rules(&self.places, self.client)?;
        // One that could not be read at the start and can now has been corrected.
        let first = self.first.as_deref().unwrap_or_default();
        let sets = now.iter().chain(first).filter(|set| set.rules.iter().any(|rule| rule.denies));
        for set in sets {
            let candidates =
                candidates.as_ref().ok_or_else(|| RuleRefusal::TooMuch { file: set.file.clone() })?;
            if let Some(refusal) = candidates.iter().find_map(|candidate| set.refuses(candidate)) {
                return Err(refusal);
            }
        }
        Ok(())
    }
}

/// A shell runs what it reads.
fn with_input(candidates: Option<Vec<Candidate>>, stdin: &str) -> Option<Vec<Candidate>> {
    let mut candidates = candidates?;
    if !stdin.is_empty() && commands::starts_shell(&candidates) {
        candidates.extend(commands::of_shell(stdin)?);
    }
    Some(candidates)
}

/// The text of a settings file, if it is there.
fn text_of(file: &Path) -> Result<Option<String>, RuleRefusal> {
    read_if_there(file).map_err(|error| unreadable(file, error))
}

fn unreadable(file: &Path, why: impl std::fmt::Display) -> RuleRefusal {
    RuleRefusal::Unreadable { file: file.to_owned(), why: why.to_string() }
}

fn shortened(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// In time that grows with the product of both lengths, and no faster.
fn matches_glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == text[seen] || *byte == b'?' => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((back, from)) = star else { return false };
                star = Some((back, from + 1));
                at = back + 1;
                seen = from + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
