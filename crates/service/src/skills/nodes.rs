//! The Nodes of this machine, and which of them a skill's `engines.node` admits.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_skills::node_admits;

use super::programs::{Programs, is_program};
use super::pythons::{InterpreterFacts, Language, interpreter_facts, numbers};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// Where version managers keep them in a home: a directory of versions, and the program in each.
const MANAGED: [(&str, &str); 6] = [
    (".nvm/versions/node", "bin/node"),
    (".local/share/fnm/node-versions", "installation/bin/node"),
    (".volta/tools/image/node", "bin/node"),
    (".local/share/mise/installs/node", "bin/node"),
    (".nodenv/versions", "bin/node"),
    (".asdf/installs/nodejs", "bin/node"),
];

/// The first of PATH, if it will do; else the first of the others that does, newest first.
pub(crate) fn pick_node(
    places: &Places,
    programs: &Programs,
    engines: Option<&str>,
) -> Result<InterpreterFacts, ServiceError> {
    let mut seen = Vec::new();
    for path in nodes(places, programs) {
        let Ok(facts) = interpreter_facts(places, programs, &path, Language::Node) else { continue };
        // A range that nobody can read rules nothing out.
        if engines.is_none_or(|range| node_admits(range, &facts.version).unwrap_or(true)) {
            return Ok(facts);
        }
        seen.push(format!("{} ({})", facts.version, path.display()));
    }
    let (message, hint) = match engines.filter(|_| !seen.is_empty()) {
        Some(range) => (
            format!(
                "the skill needs Node {range} (engines of its package.json); there is {}",
                seen.join(", ")
            ),
            "install one that fits: `nvm install`, `fnm install`, or your package manager",
        ),
        None => (
            "there is no node on this machine, which runs the script".to_owned(),
            "install node with your package manager",
        ),
    };
    Err(ServiceError::new(ErrorCode::Missing, message, hint))
}

fn nodes(places: &Places, programs: &Programs) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["node", "nodejs"].iter().filter_map(|name| programs.find(name)).collect();
    for directory in &programs.directories {
        found.extend(["node", "nodejs"].map(|name| directory.join(name)));
    }
    for (versions, program) in MANAGED {
        let mut versions = entries(&places.home.join(versions));
        versions.sort_by_key(|path| std::cmp::Reverse(numbers(path)));
        found.extend(versions.into_iter().map(|version| version.join(program)));
    }
    let mut seen = Vec::new();
    found.retain(|path| {
        let new = is_program(path) && programs.may_be_used(path) && !seen.contains(path);
        seen.push(path.clone());
        new
    });
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
