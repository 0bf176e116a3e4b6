//! Programs and variables of the surrounding system.

pub(super) mod interpreter;
pub(super) mod programs;
pub(super) mod shell;
mod urls;
pub(super) mod variables;

use std::collections::BTreeMap;

use serde::Serialize;

use super::origin::Origin;
use super::wants::NeededHost;

/// A program that must be found in PATH.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededBinary {
    /// One of these is enough; never empty. Bare names, with no `/`.
    pub any_of: Vec<String>,
    pub certainty: Certainty,
    /// How the skill says it can be had: `brew: ffmpeg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub origin: Origin,
}

/// How sure it is that something is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The manifest or a shebang says so.
    Declared,
    /// A script calls it.
    Inferred,
    /// A script calls it, and asks first whether it is there.
    Optional,
}

/// An environment variable that a script reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededVariable {
    pub name: String,
    pub presence: Presence,
    /// Its name is that of a secret: pass it with `--secret`, not with `--env`.
    pub secret: bool,
    pub origin: Origin,
}

/// What happens when a variable is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It is declared, or the script fails without it.
    Required,
    /// The script reads it and has no other value; what it then does is not known.
    Expected,
    /// The script has a value of its own.
    Optional,
}

/// What was found so far, each once: the surest finding is kept.
#[derive(Debug, Default)]
pub(super) struct System {
    binaries: BTreeMap<Vec<String>, NeededBinary>,
    variables: BTreeMap<String, NeededVariable>,
    hosts: BTreeMap<String, NeededHost>,
}

/// More of any are not shown for one skill.
const MOST: usize = 500;

impl System {
    pub(super) fn add_binary(&mut self, binary: NeededBinary) {
        if self.binaries.len() >= MOST {
            return;
        }
        match self.binaries.get_mut(&binary.any_of) {
            Some(before) if before.certainty == Certainty::Declared => {}
            // A script that asks first does without it, wherever it is called.
            Some(before)
                if before.certainty >= binary.certainty && binary.certainty != Certainty::Declared => {}
            _ => {
                self.binaries.insert(binary.any_of.clone(), binary);
            }
        }
    }

    pub(super) fn add_variable(&mut self, variable: NeededVariable) {
        if self.variables.len() >= MOST {
            return;
        }
        match self.variables.get(&variable.name) {
            Some(before) if before.presence <= variable.presence => {}
            _ => {
                self.variables.insert(variable.name.clone(), variable);
            }
        }
    }

    /// What a file of the skill reads and calls; of a program also whether it asks first if that is there.
    pub(super) fn add_source(
        &mut self,
        file: &str,
        variables: &[(String, Presence, u32)],
        programs: &[(&'static str, bool, u32)],
    ) {
        for (name, presence, line) in variables {
            self.add_variable(NeededVariable {
                name: name.clone(),
                presence: *presence,
                secret: variables::is_secret(name),
                origin: Origin::File { file: file.to_owned(), line: *line },
            });
        }
        for (name, asks, line) in programs {
            self.add_binary(NeededBinary {
                any_of: vec![(*name).to_owned()],
                certainty: if *asks { Certainty::Optional } else { Certainty::Inferred },
                hint: None,
                origin: Origin::File { file: file.to_owned(), line: *line },
            });
        }
    }

    /// The hosts of URLs in a file of the skill.
    pub(super) fn add_urls(&mut self, file: &str, text: &str) {
        for (host, line) in urls::hosts(text) {
            if self.hosts.len() >= MOST {
                return;
            }
            let origin = Origin::File { file: file.to_owned(), line };
            let inferred = NeededHost { host: host.clone(), certainty: Certainty::Inferred, origin };
            self.hosts.entry(host).or_insert(inferred);
        }
    }

    /// Hosts that are not among those that the skill asks for.
    pub(super) fn other_hosts(&self, asked: &[NeededHost]) -> Vec<NeededHost> {
        let is_asked = |host: &str| asked.iter().any(|one| one.host == host);
        self.hosts.values().filter(|one| !is_asked(&one.host)).cloned().collect()
    }

    pub(super) fn finish(self) -> (Vec<NeededBinary>, Vec<NeededVariable>) {
        (self.binaries.into_values().collect(), self.variables.into_values().collect())
    }
}
