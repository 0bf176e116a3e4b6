//! What the scripts of a skill need before they can run: packages, programs, variables, and what the skill asks for
//! beyond a profile.
//!
//! It reads and decides; nothing is executed or fetched. What is declared is taken before what is found in the code, and
//! everything says where it came from. All of it is text by somebody else: requirements are parsed and written anew, so
//! that none can become an option of an installer, and whatever would fetch from elsewhere than the user's registry is
//! refused with the reason.

mod metadata;
mod node;
mod origin;
mod python;
mod scripts;
mod system;
mod text;
mod wants;

use serde::Serialize;

use crate::manifest::Manifest;
use crate::tree::Tree;
use origin::Remarks;
use scripts::Scripts;
use system::System;
use text::Files;

pub use node::{
    LockKind, NodeDependency, NodeDependencyKind, NodeDependencySource, NodeLock, NodeNeeds, NodeScript,
    node_admits,
};
pub use origin::{Origin, Refused};
pub use python::{
    DeclaredIn, PythonNeeds, Requirement, RequirementSource, VersionError, VersionRange, satisfies,
};
pub use system::{Certainty, NeededBinary, NeededVariable, Presence};
pub use wants::{NeededHost, WantedLimits, Wants, wants};

/// Everything that a script, or all scripts of a skill, need.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Needs {
    /// There is a Python script to run. It may need no packages: see [`PythonNeeds::needs_layer`].
    pub python: Option<PythonNeeds>,
    /// There is a Node script to run. It may need no packages: see [`NodeNeeds::needs_layer`].
    pub node: Option<NodeNeeds>,
    /// Programs that must be in the sandbox's PATH, in the order of their names.
    pub binaries: Vec<NeededBinary>,
    /// Environment variables that the scripts read, in the order of their names.
    pub variables: Vec<NeededVariable>,
    /// Hosts that the skill asks for, then those that its scripts seem to use. Nothing is granted by being here.
    pub hosts: Vec<NeededHost>,
    /// Limits that the skill asks for. Nothing is granted by being here.
    pub limits: WantedLimits,
    /// What was declared and is not taken, with the reason.
    pub refused: Vec<Refused>,
    /// For people: what could not be read, and what the skill says in words.
    pub notes: Vec<String>,
}

/// What is needed to run `script` (its path in the skill), or, without one, every script of the skill.
pub fn needs(tree: &Tree, manifest: &Manifest, script: Option<&str>) -> Needs {
    let files = Files::new(tree);
    let mut remarks = Remarks::default();
    let mut system = System::default();
    let metadata = metadata::read(manifest, &mut remarks);
    let scripts = Scripts::find(&files, script, &mut system, &mut remarks);
    let mut needs = Needs::default();
    if !scripts.python.is_empty() {
        needs.python = Some(python::needs(&files, &metadata, &scripts.python, &mut system, &mut remarks));
    }
    if !scripts.node.is_empty() {
        needs.node = Some(node::needs(&files, &metadata, &scripts.node, &mut system, &mut remarks));
    }
    for binary in metadata.binaries {
        system.add_binary(binary);
    }
    for variable in metadata.variables {
        system.add_variable(variable);
    }
    match wants(manifest) {
        Ok(wanted) => {
            let origin = |key: &str| Origin::Manifest { key: format!("metadata.ringfence.{key}") };
            let declared =
                |host| NeededHost { host, certainty: Certainty::Declared, origin: origin("hosts") };
            needs.hosts = wanted.hosts.into_iter().map(declared).collect();
            for name in wanted.env {
                let secret = system::variables::is_secret(&name);
                let presence = Presence::Required;
                system.add_variable(NeededVariable { name, presence, secret, origin: origin("env") });
            }
            needs.limits = wanted.limits;
        }
        Err(problems) => {
            for problem in problems {
                remarks.note(problem.message);
            }
        }
    }
    needs.hosts.extend(system.other_hosts(&needs.hosts));
    (needs.binaries, needs.variables) = system.finish();
    needs.refused = remarks.refused;
    needs.notes = remarks.notes;
    needs
}
