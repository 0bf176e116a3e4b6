//! What a layer is to be made of.

use std::path::{Path, PathBuf};

use ringfence_skills::{
    LockKind, NodeDependencyKind, NodeDependencySource, NodeNeeds, PythonNeeds, RequirementSource, Tree,
};
use serde::{Deserialize, Serialize};

use super::sources::Sources;
use crate::error::{ErrorCode, ServiceError};
use crate::skills::pythons::InterpreterFacts;

/// A lock file is text by a program.
const LOCK_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    Python,
    Node,
}

impl LayerKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
        }
    }

    /// Where a layer is in a sandbox, while it is built and when it is used: what is installed knows its own path.
    pub(crate) fn inside(self) -> PathBuf {
        Path::new("/run/ringfence/dependencies").join(self.as_str())
    }
}

/// Everything that decides what a layer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerPlan {
    /// The id: equal plans have equal ones.
    pub key: String,
    pub kind: LayerKind,
    pub interpreter: InterpreterFacts,
    /// For people: one line a package.
    pub requirements: Vec<String>,
    /// Those of them that nobody declared: read from imports.
    pub inferred: Vec<String>,
    pub(super) sources: Sources,
    /// Files that the installer is given, by name.
    pub(crate) input: Vec<(String, String)>,
}

impl LayerPlan {
    /// How many packages will be installed, where a lock says so.
    pub fn locked_packages(&self) -> Option<u64> {
        let (_, text) = self.input.iter().find(|(name, _)| name == "package-lock.json")?;
        let lock: serde_json::Value = serde_json::from_str(text).ok()?;
        let packages = lock.get("packages")?.as_object()?;
        let is_one = |(path, package): &(&String, &serde_json::Value)| {
            path.starts_with("node_modules/") && package.get("dev") != Some(&true.into())
        };
        Some(packages.iter().filter(is_one).count() as u64)
    }
}

pub(crate) fn plan_python(needs: &PythonNeeds, interpreter: InterpreterFacts, sources: Sources) -> LayerPlan {
    let mut input = vec![("requirements.txt".to_owned(), needs.requirements_txt())];
    if !needs.constraints.is_empty() {
        input.push(("constraints.txt".to_owned(), needs.constraints_txt()));
    }
    let inferred = needs.requirements.iter().filter_map(|one| match &one.from {
        RequirementSource::Inferred { module, file, line, .. } => {
            Some(format!("{} (import {module}, {file}:{line})", one.text))
        }
        _ => None,
    });
    LayerPlan {
        key: key(LayerKind::Python, &interpreter, &sources, &needs.requirement_set_key()),
        kind: LayerKind::Python,
        requirements: needs.requirements.iter().map(|one| one.text.clone()).collect(),
        inferred: inferred.collect(),
        interpreter,
        sources,
        input,
    }
}

pub(crate) fn plan_node(
    tree: &Tree,
    needs: &NodeNeeds,
    interpreter: InterpreterFacts,
    sources: Sources,
) -> Result<LayerPlan, ServiceError> {
    let mut input =
        vec![("package.json".to_owned(), needs.package_json_text()), ("npmrc".to_owned(), sources.npmrc())];
    // npm takes its own kind of lock; the others say the same as package.json, more exactly.
    if let Some(lock) = needs.lock.as_ref().filter(|lock| lock.kind == LockKind::Npm) {
        let unreadable = |why: String| {
            ServiceError::new(ErrorCode::BadSkill, format!("{}: {why}", lock.path), "correct the skill")
        };
        let bytes =
            tree.read_file(&lock.path, LOCK_BYTES + 1).map_err(|error| unreadable(error.to_string()))?;
        if bytes.len() as u64 > LOCK_BYTES {
            return Err(unreadable("larger than 16 MiB".into()));
        }
        let text = String::from_utf8(bytes).map_err(|_| unreadable("not UTF-8 text".into()))?;
        if blake3::hash(text.as_bytes()).to_hex().as_str() != lock.blake3 {
            return Err(unreadable("it changed while it was read".into()));
        }
        input.push(("package-lock.json".to_owned(), text));
    }
    let wanted = || needs.dependencies.iter().filter(|one| one.kind != NodeDependencyKind::Development);
    let inferred = wanted().filter_map(|one| match &one.from {
        NodeDependencySource::Inferred { file, line } => Some(format!("{} ({file}:{line})", one.name)),
        _ => None,
    });
    Ok(LayerPlan {
        key: key(LayerKind::Node, &interpreter, &sources, &needs.requirement_set_key()),
        kind: LayerKind::Node,
        requirements: wanted().map(|one| format!("{}@{}", one.name, one.spec)).collect(),
        inferred: inferred.collect(),
        interpreter,
        sources,
        input,
    })
}

/// 128 bits of it: short enough for people, far too many to find two alike.
fn key(kind: LayerKind, interpreter: &InterpreterFacts, sources: &Sources, set: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    let path = interpreter.path.to_string_lossy();
    let registries = sources.lines().join("\n");
    for field in [
        b"ringfence layer 2".as_slice(),
        kind.as_str().as_bytes(),
        path.as_bytes(),
        interpreter.version.as_bytes(),
        interpreter.platform.as_bytes(),
        sources.installer_identity().as_bytes(),
        registries.as_bytes(),
        set,
    ] {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
