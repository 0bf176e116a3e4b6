//! What Python scripts need. In the order of authority: the PEP 723 block of the script, `requirements.txt`,
//! `pyproject.toml`, the manifest's metadata, and, where nothing is declared, the imports.

mod blocks;
mod declared;
mod infer;
mod marker;
mod modules;
mod packages;
mod pyproject;
mod requirement;
mod requirements_txt;
mod script_block;
mod source;
mod stdlib;
mod tokens;
mod version;

use std::collections::HashMap;

use serde::Serialize;

use super::metadata::Metadata;
use super::origin::{Origin, Remarks};
use super::system::System;
use super::text::{Files, directory, join};
use declared::{Declared, add_requirement, sorted};
use modules::{Modules, Reached};

pub use version::{VersionError, VersionRange, satisfies};

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

/// Read what `scripts` need, and what their files say about the system around them.
pub(super) fn needs(
    files: &Files<'_>,
    metadata: &Metadata,
    scripts: &[String],
    system: &mut System,
    remarks: &mut Remarks,
) -> PythonNeeds {
    let modules = Modules::new(files);
    let mut places = Places { files, metadata, read: HashMap::new() };
    let mut needs = PythonNeeds {
        requires_python: None,
        requirements: Vec::new(),
        constraints: Vec::new(),
        optional: Vec::new(),
        undeclared: Vec::new(),
        source: DeclaredIn::Imports,
    };
    let mut seen = std::collections::HashSet::new();
    // Scripts of the same declaration are read together.
    let mut undeclared_scripts = Vec::new();
    let mut declared_scripts = Vec::new();
    for script in scripts {
        let declared = places.declared(script, remarks);
        if let Some(range) = declared.requires_python {
            let both = needs.requires_python.as_ref().map(|before| before.and(&range));
            needs.requires_python = Some(both.unwrap_or(range));
        }
        if declared.source == DeclaredIn::Imports {
            undeclared_scripts.push(script.clone());
            continue;
        }
        needs.source = needs.source.min(declared.source);
        needs.constraints.extend(declared.constraints);
        needs.requirements.extend(declared.requirements);
        declared_scripts.push(script.clone());
    }
    needs.requirements = sorted(needs.requirements);
    let mut look = |scripts: &[String], remarks: &mut Remarks| -> infer::Inferred {
        let reached = modules.reach(scripts, remarks);
        for Reached { path, source } in &reached {
            if seen.insert(path.clone()) {
                system.add_source(path, &source.variables, &source.programs);
                // What a script itself says is seen when it is found to be one.
                let module = (!scripts.contains(path)).then(|| files.text(path).unwrap_or_default());
                system.add_urls(path, &module.unwrap_or_default());
            }
        }
        infer::infer(&reached, remarks)
    };
    let covered = |list: &[Requirement], name: &str| list.iter().any(|one| infer::covers(&one.name, name));
    let beside = look(&declared_scripts, remarks);
    needs.undeclared = beside.needed;
    needs.undeclared.retain(|one| !covered(&needs.requirements, &one.name));
    needs.optional = beside.optional;
    let inferred = look(&undeclared_scripts, remarks);
    let declared = std::mem::take(&mut needs.requirements);
    needs.optional.extend(inferred.optional);
    needs.requirements = inferred.needed.into_iter().filter(|one| !covered(&declared, &one.name)).collect();
    needs.requirements.extend(declared);
    needs.requirements = sorted(needs.requirements);
    needs.constraints = sorted(needs.constraints);
    needs.optional = sorted(needs.optional);
    needs.optional.retain(|one| !covered(&needs.requirements, &one.name));
    needs
}

/// A requirement with versions, or of a package that is known: a bare word in a list may as well be a program.
pub(super) fn is_surely_a_package(text: &str) -> bool {
    requirement::parse(text)
        .is_ok_and(|parsed| parsed.text() != parsed.name || packages::is_package(&parsed.name))
}

/// The places that can declare what a script needs, each read once.
struct Places<'a> {
    files: &'a Files<'a>,
    metadata: &'a Metadata,
    read: HashMap<String, Option<Declared>>,
}

impl Places<'_> {
    /// By the order of authority; where none declares packages, `source` is the imports.
    fn declared(&mut self, script: &str, remarks: &mut Remarks) -> Declared {
        if let Some(declared) = script_block::read(self.files, script, remarks) {
            return declared;
        }
        let project = self.near(script, "pyproject.toml", pyproject::read, remarks);
        let requires_python = project
            .as_ref()
            .and_then(|project| project.requires_python.clone())
            .or_else(|| self.metadata.requires_python.clone());
        let listed = self.near(script, "requirements.txt", requirements_txt::read, remarks);
        if let Some(listed) = listed {
            return Declared { requires_python, ..listed };
        }
        if let Some(project) = project.filter(|project| project.source == DeclaredIn::Pyproject) {
            return project;
        }
        let mut declared = Declared::new(DeclaredIn::Imports);
        declared.requires_python = requires_python;
        for (key, text) in &self.metadata.python {
            declared.source = DeclaredIn::Metadata;
            let from = RequirementSource::Metadata { key: key.clone() };
            let origin = Origin::Manifest { key: key.clone() };
            add_requirement(&mut declared.requirements, text, from, origin, remarks);
        }
        declared
    }

    /// Beside the script, else at the top of the skill.
    fn near(
        &mut self,
        script: &str,
        name: &str,
        read: impl Fn(&Files<'_>, &str, &mut Remarks) -> Option<Declared>,
        remarks: &mut Remarks,
    ) -> Option<Declared> {
        let beside = join(directory(script), name);
        let path = [beside.as_str(), name].into_iter().find(|path| self.files.contains(path))?;
        if let Some(before) = self.read.get(path) {
            return before.clone();
        }
        let declared = read(self.files, path, remarks);
        self.read.insert(path.to_owned(), declared.clone());
        declared
    }
}

fn lines(requirements: &[Requirement]) -> String {
    requirements.iter().map(|one| one.line() + "\n").collect()
}

#[cfg(test)]
mod agreement_tests;
