//! What Python scripts need. In the order of authority: the PEP 723 block of the script, `requirements.txt`,
//! `pyproject.toml`, the manifest's metadata, and, where nothing is declared, the imports.

mod blocks;
mod marker;
mod packages;
mod requirement;
mod source;
mod stdlib;
mod tokens;
mod version;

use serde::Serialize;

pub use version::{VersionRange, satisfies};

/// What the Python scripts need.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PythonNeeds {
    /// Which interpreters will do.
    pub requires_python: Option<VersionRange>,
    /// What is to be installed, in the order of the normalised names.
    pub requirements: Vec<Requirement>,
    /// Bounds on what `requirements` pull in (`-c` files); nothing is installed because of them.
    pub constraints: Vec<Requirement>,
    /// Imports that the script does without; not installed.
    pub optional: Vec<Requirement>,
    /// Imports that the declaration does not cover; not installed.
    pub undeclared: Vec<Requirement>,
    /// The highest authority that `requirements` come from.
    pub source: DeclaredIn,
}

impl PythonNeeds {
    /// Whether there is anything to install.
    pub fn needs_layer(&self) -> bool {
        !self.requirements.is_empty()
    }

    /// Whether any of `requirements` was read from imports: show it before it is installed.
    pub fn inferred(&self) -> bool {
        self.requirements.iter().any(|one| matches!(one.from, RequirementSource::Inferred { .. }))
    }

    /// A `requirements.txt` of exactly `requirements`, with their hashes.
    pub fn requirements_txt(&self) -> String {
        lines(&self.requirements)
    }

    /// The same for `constraints`; empty where there are none.
    pub fn constraints_txt(&self) -> String {
        lines(&self.constraints)
    }

    /// Canonical bytes that say what would be installed: equal for equal sets, whatever their order and spelling. Hash
    /// it together with the interpreter and the platform.
    pub fn requirement_set_key(&self) -> Vec<u8> {
        let mut key = b"ringfence python requirements 1\0".to_vec();
        for (what, list) in [(b'r', &self.requirements), (b'c', &self.constraints)] {
            let mut lines: Vec<String> = list.iter().map(Requirement::line).collect();
            lines.sort_unstable();
            lines.dedup();
            for line in lines {
                key.push(what);
                key.extend_from_slice(&(line.len() as u64).to_le_bytes());
                key.extend_from_slice(line.as_bytes());
            }
        }
        key
    }
}

/// Where the packages of a script are declared, by falling authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeclaredIn {
    /// A PEP 723 block in the script.
    Script,
    RequirementsTxt,
    Pyproject,
    Metadata,
    /// Nowhere: read from the imports.
    Imports,
}

/// One package to install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// Normalised as in PEP 503: `scikit-learn`.
    pub name: String,
    /// PEP 508, written anew from its parts: name, extras, versions, marker. One line that never starts with `-` and
    /// has no URL; safe as an argument and in a requirements file.
    pub text: String,
    /// `sha256:…`, as in `--hash`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hashes: Vec<String>,
    pub from: RequirementSource,
}

impl Requirement {
    /// As a line of a requirements file, with its hashes.
    pub fn line(&self) -> String {
        self.hashes.iter().fold(self.text.clone(), |line, hash| format!("{line} --hash={hash}"))
    }
}

/// Where a requirement comes from. Lines are from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "in")]
pub enum RequirementSource {
    Pep723 {
        file: String,
        line: u32,
    },
    RequirementsTxt {
        file: String,
        line: u32,
    },
    Pyproject {
        file: String,
    },
    Metadata {
        key: String,
    },
    Inferred {
        module: String,
        file: String,
        line: u32,
        /// The package is known to have this module. Else its name is a guess: the module's own.
        known: bool,
    },
}

fn lines(requirements: &[Requirement]) -> String {
    requirements.iter().map(|one| one.line() + "\n").collect()
}

#[cfg(test)]
mod agreement_tests;
