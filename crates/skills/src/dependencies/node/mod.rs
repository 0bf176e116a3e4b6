//! What Node scripts need: the nearest `package.json` with its lock, or, where nothing is declared, the imports.

use serde::Serialize;

/// What the Node scripts need.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeNeeds {
    /// The nearest `package.json`, by its path in the skill.
    pub package_json: Option<String>,
    /// Beside that `package.json`.
    pub lock: Option<NodeLock>,
    /// In the order of their names. Development ones are listed, and not to be installed.
    pub dependencies: Vec<NodeDependency>,
    /// Imports that the script does without; not installed.
    pub optional: Vec<NodeDependency>,
    /// Imports that `package.json` does not cover; not installed.
    pub undeclared: Vec<NodeDependency>,
    /// `engines.node`, as written.
    pub engines_node: Option<String>,
    /// `scripts` of `package.json`; npm runs those named install, preinstall, postinstall and prepare by itself.
    pub scripts: Vec<NodeScript>,
    /// `dependencies` were read from imports: show them before they are installed.
    pub inferred: bool,
}

impl NodeNeeds {
    /// Whether there is anything to install.
    pub fn needs_layer(&self) -> bool {
        self.to_install().next().is_some()
    }

    /// A `package.json` of exactly what is to be installed, with none of the skill's own scripts.
    pub fn package_json_text(&self) -> String {
        let section = |wanted: NodeDependencyKind| -> serde_json::Map<String, serde_json::Value> {
            self.dependencies
                .iter()
                .filter(|one| one.kind == wanted)
                .map(|one| (one.name.clone(), one.spec.clone().into()))
                .collect()
        };
        serde_json::json!({
            "name": "ringfence-layer",
            "version": "1.0.0",
            "private": true,
            "dependencies": section(NodeDependencyKind::Required),
            "optionalDependencies": section(NodeDependencyKind::Optional),
        })
        .to_string()
    }

    /// Canonical bytes that say what would be installed: equal for equal sets, whatever their order. The lock's content
    /// is part of it. Hash it together with the interpreter and the platform.
    pub fn requirement_set_key(&self) -> Vec<u8> {
        let mut key = b"ringfence node requirements 1\0".to_vec();
        let mut field = |bytes: &str| {
            key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            key.extend_from_slice(bytes.as_bytes());
        };
        let mut lines: Vec<_> = self.to_install().map(|one| (&one.name, one.kind, &one.spec)).collect();
        lines.sort_unstable();
        lines.dedup();
        for (name, kind, spec) in lines {
            field(name);
            field(if kind == NodeDependencyKind::Optional { "optional" } else { "required" });
            field(spec);
        }
        if let Some(lock) = &self.lock {
            field("lock");
            field(&lock.path);
            field(&lock.blake3);
        }
        key
    }

    fn to_install(&self) -> impl Iterator<Item = &NodeDependency> {
        self.dependencies.iter().filter(|one| one.kind != NodeDependencyKind::Development)
    }
}

/// One package to install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeDependency {
    /// A valid npm name: `@scope/name`.
    pub name: String,
    /// A range, a tag, or `npm:` and another name; never a URL, a path or a repository.
    pub spec: String,
    pub kind: NodeDependencyKind,
    pub from: NodeDependencySource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeDependencyKind {
    Required,
    /// The installation goes on without it.
    Optional,
    /// Not installed; listed so that a declared `tsx` or `typescript` is seen.
    Development,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "in")]
pub enum NodeDependencySource {
    PackageJson { file: String },
    Metadata { key: String },
    Inferred { file: String, line: u32 },
}

/// A lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeLock {
    pub kind: LockKind,
    /// In the skill.
    pub path: String,
    /// Of its content, in hexadecimal.
    pub blake3: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// `package-lock.json`, or `npm-shrinkwrap.json`, which has the same form.
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

/// One of the `scripts` of a `package.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeScript {
    pub name: String,
    pub command: String,
    /// npm runs it during an installation.
    pub runs_at_install: bool,
}
