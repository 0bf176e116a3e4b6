//! What Node scripts need: the nearest `package.json` with its lock, or, where nothing is declared, the imports.

mod builtins;
mod engines;
mod package_json;
mod source;

use std::collections::{BTreeMap, HashSet, VecDeque};

use serde::Serialize;

use super::metadata::Metadata;
use super::origin::{Origin, Remarks};
use super::system::System;
use super::text::{Files, directory, join, resolve, shown};
use package_json::PackageJson;

pub use engines::node_admits;

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

impl NodeLock {
    /// What to say of one that the installer does not read.
    pub fn unused(&self) -> Option<String> {
        let whose = match self.kind {
            LockKind::Npm => return None,
            LockKind::Pnpm => "pnpm",
            LockKind::Yarn => "yarn",
            LockKind::Bun => "bun",
        };
        Some(format!(
            "{}: not used, as packages are installed by npm, which can't read the lock of {whose}: versions are chosen anew \
             within the ranges of package.json; `npm install --package-lock-only` makes a lock that is used",
            self.path
        ))
    }
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

/// More files are not followed.
const MOST_FILES: usize = 2_000;
const MOST_PACKAGES: usize = 500;

/// Read what `scripts` need, and what their files say about the system around them.
pub(super) fn needs(
    files: &Files<'_>,
    metadata: &Metadata,
    scripts: &[String],
    system: &mut System,
    remarks: &mut Remarks,
) -> NodeNeeds {
    // npm installs one tree for one package.json: that of the first script, and other ones are named.
    let mut found = scripts.iter().filter_map(|script| files.nearest(script, "package.json"));
    let path = found.next();
    for other in found.filter(|other| Some(other) != path.as_ref()) {
        remarks.note(format!(
            "{other}: left out, as only one package.json is installed at a time; name one script"
        ));
    }
    let package = path.as_ref().and_then(|path| package_json::read(files, path, remarks));
    let imported = reach(files, scripts, system, remarks);
    let (optional, imported): (Vec<_>, Vec<_>) = imported.into_iter().partition(|(_, optional)| *optional);
    let [mut optional, mut imported] =
        [optional, imported].map(|list| list.into_iter().map(|(one, _)| one).collect::<Vec<_>>());
    let PackageJson { declares, mut dependencies, engines_node, scripts } = package.unwrap_or_default();
    for (key, text) in &metadata.node {
        // `name@range`; the `@` of a scope comes first.
        let (name, spec) = match text.get(1..).and_then(|rest| rest.find('@')) {
            Some(at) => (&text[..at + 1], &text[at + 2..]),
            None => (text.as_str(), "*"),
        };
        let from = NodeDependencySource::Metadata { key: key.clone() };
        let origin = Origin::Manifest { key: key.clone() };
        match package_json::checked(name, spec) {
            Ok(()) if dependencies.iter().any(|one| one.name == name) => {}
            Ok(()) => dependencies.push(NodeDependency {
                name: name.to_owned(),
                spec: spec.to_owned(),
                kind: NodeDependencyKind::Required,
                from,
            }),
            Err(why) => remarks.refuse(text, why, origin),
        }
    }
    let inferred = !declares && metadata.node.is_empty() && !imported.is_empty();
    let declared: HashSet<String> = dependencies.iter().map(|one| one.name.clone()).collect();
    imported.retain(|one| !declared.contains(&one.name));
    optional.retain(|one| !declared.contains(&one.name));
    let mut undeclared = Vec::new();
    if inferred {
        dependencies.extend(imported);
    } else {
        undeclared = imported;
    }
    dependencies.sort_by(|one, other| one.name.cmp(&other.name));
    let lock = path.as_ref().filter(|_| declares).and_then(|path| package_json::lock(files, path, remarks));
    if let Some(note) = lock.as_ref().and_then(NodeLock::unused) {
        remarks.note(note);
    }
    NodeNeeds {
        package_json: path,
        lock,
        dependencies,
        optional,
        undeclared,
        engines_node,
        scripts,
        inferred,
    }
}

/// The packages that the scripts import, and the files of the skill that they reach; each with whether it is optional.
fn reach(
    files: &Files<'_>,
    scripts: &[String],
    system: &mut System,
    remarks: &mut Remarks,
) -> Vec<(NodeDependency, bool)> {
    let mut seen: HashSet<String> = scripts.iter().cloned().collect();
    let mut queue: VecDeque<String> = scripts.iter().cloned().collect();
    let mut packages: BTreeMap<String, (NodeDependency, bool)> = BTreeMap::new();
    let mut read = 0;
    while let Some(path) = queue.pop_front() {
        read += 1;
        if read > MOST_FILES || packages.len() > MOST_PACKAGES {
            remarks.note("too many JavaScript files or packages; the rest is left out");
            break;
        }
        let text = match files.text(&path) {
            Ok(text) => text,
            Err(why) => {
                remarks.note(why);
                continue;
            }
        };
        let source = source::read(&text);
        system.add_source(&path, &source.variables, &source.programs);
        system.add_urls(&path, &text);
        for import in source.imports {
            let specifier = import.specifier.as_str();
            if specifier.starts_with('.') {
                let own = resolve(directory(&path), specifier).and_then(|at| file_of(files, &at));
                queue.extend(own.filter(|own| seen.insert(own.clone())));
                continue;
            }
            let origin = || Origin::File { file: path.clone(), line: import.line };
            let Some(name) = package_of(specifier, &origin, remarks) else { continue };
            let from = NodeDependencySource::Inferred { file: path.clone(), line: import.line };
            let kind = NodeDependencyKind::Required;
            let one = NodeDependency { name: name.clone(), spec: "*".to_owned(), kind, from };
            let before = packages.entry(name).or_insert((one, import.optional));
            before.1 &= import.optional;
        }
    }
    packages.into_values().collect()
}

/// The file that a relative import means.
fn file_of(files: &Files<'_>, at: &str) -> Option<String> {
    const ENDINGS: &[&str] = &["", ".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"];
    let as_typescript = at.strip_suffix(".js").map(|stem| format!("{stem}.ts"));
    let mut candidates: Vec<String> = ENDINGS.iter().map(|ending| format!("{at}{ending}")).collect();
    candidates.extend(as_typescript);
    candidates.extend(["index.js", "index.mjs", "index.ts"].map(|name| join(at, name)));
    candidates.into_iter().find(|path| files.contains(path) && !path.ends_with(".json"))
}

/// `@scope/name/deep/file.js` is in `@scope/name`; nothing for what no registry has.
fn package_of(specifier: &str, origin: &impl Fn() -> Origin, remarks: &mut Remarks) -> Option<String> {
    // Paths, and names that a bundler's settings give a meaning.
    if specifier.starts_with(['/', '#', '~']) || specifier.starts_with("@/") || specifier.is_empty() {
        return None;
    }
    let specifier = match specifier.split_once(':') {
        None => specifier,
        Some(("node", _)) => return None,
        // Deno's way to name a package of npm; the version is not taken.
        Some(("npm", rest)) => {
            let at = rest.get(1..).and_then(|rest| rest.find('@')).map_or(rest.len(), |at| at + 1);
            &rest[..at]
        }
        Some(("bun" | "deno", _)) => {
            remarks.note(format!(
                "{}: `{}` exists only in another runtime than Node",
                origin(),
                shown(specifier)
            ));
            return None;
        }
        Some(_) => {
            let why = "packages come only from the registry that the user configured";
            remarks.refuse(specifier, why, origin());
            return None;
        }
    };
    let parts = if specifier.starts_with('@') { 2 } else { 1 };
    let name = specifier.split('/').take(parts).collect::<Vec<_>>().join("/");
    if builtins::contains(&name) {
        return None;
    }
    match package_json::checked(&name, "*") {
        Ok(()) => Some(name),
        Err(why) => {
            remarks.refuse(specifier, why, origin());
            None
        }
    }
}
