//! `package.json` and the lock beside it. Only packages of the registry are taken.

use serde_json::{Map, Value};

use super::super::origin::{Origin, Remarks};
use super::super::text::{Files, directory, is_plain, join, shown};
use super::{LockKind, NodeDependency, NodeDependencyKind, NodeDependencySource, NodeLock, NodeScript};

const MOST_DEPENDENCIES: usize = 1_000;
const MOST_SCRIPTS: usize = 100;
const MOST_LOCK_BYTES: u64 = 16 << 20;

#[derive(Default)]
pub(super) struct PackageJson {
    /// It has a list of dependencies, if perhaps an empty one.
    pub(super) declares: bool,
    pub(super) dependencies: Vec<NodeDependency>,
    pub(super) engines_node: Option<String>,
    pub(super) scripts: Vec<NodeScript>,
}

pub(super) fn read(files: &Files<'_>, path: &str, remarks: &mut Remarks) -> Option<PackageJson> {
    let table = match files.text(path).map(|text| serde_json::from_str::<Map<String, Value>>(&text)) {
        Ok(Ok(table)) => table,
        Ok(Err(error)) => {
            remarks.note(format!("{path}: not a JSON object: {}", shown(&error.to_string())));
            return None;
        }
        Err(why) => {
            remarks.note(why);
            return None;
        }
    };
    let mut found = PackageJson::default();
    for (key, kind) in [
        ("dependencies", NodeDependencyKind::Required),
        ("optionalDependencies", NodeDependencyKind::Optional),
        ("devDependencies", NodeDependencyKind::Development),
    ] {
        let Some(list) = table.get(key).and_then(Value::as_object) else { continue };
        found.declares |= kind != NodeDependencyKind::Development;
        for (name, spec) in list {
            let spec = spec.as_str().unwrap_or_default();
            if found.dependencies.len() == MOST_DEPENDENCIES {
                remarks.note(format!("{path}: only the first {MOST_DEPENDENCIES} dependencies are taken"));
                break;
            }
            if let Err(why) = checked(name, spec) {
                let origin = Origin::File { file: path.to_owned(), line: 1 };
                remarks.refuse(&format!("{name}: {spec}"), why, origin);
                continue;
            }
            // As npm has it, an optional one takes the place of a required one of the same name.
            match kind {
                NodeDependencyKind::Optional => found.dependencies.retain(|one| one.name != *name),
                NodeDependencyKind::Development if found.dependencies.iter().any(|one| one.name == *name) => {
                    continue;
                }
                _ => {}
            }
            found.dependencies.push(NodeDependency {
                name: name.clone(),
                spec: spec.trim().to_owned(),
                kind,
                from: NodeDependencySource::PackageJson { file: path.to_owned() },
            });
        }
    }
    found.engines_node = table
        .get("engines")
        .and_then(|engines| engines.get("node"))
        .and_then(Value::as_str)
        .filter(|text| text.len() <= 100 && is_plain(text))
        .map(str::to_owned);
    for (name, command) in
        table.get("scripts").and_then(Value::as_object).into_iter().flatten().take(MOST_SCRIPTS)
    {
        let runs_at_install = matches!(name.as_str(), "preinstall" | "install" | "postinstall" | "prepare");
        let command = shown(command.as_str().unwrap_or_default());
        found.scripts.push(NodeScript { name: shown(name), command, runs_at_install });
    }
    Some(found)
}

/// The lock beside a `package.json`: npm's first, as npm is what installs.
pub(super) fn lock(files: &Files<'_>, package_json: &str, remarks: &mut Remarks) -> Option<NodeLock> {
    const NAMES: &[(&str, LockKind)] = &[
        ("npm-shrinkwrap.json", LockKind::Npm),
        ("package-lock.json", LockKind::Npm),
        ("pnpm-lock.yaml", LockKind::Pnpm),
        ("yarn.lock", LockKind::Yarn),
        ("bun.lock", LockKind::Bun),
        ("bun.lockb", LockKind::Bun),
    ];
    for (name, kind) in NAMES {
        let path = join(directory(package_json), name);
        if !files.contains(&path) {
            continue;
        }
        match files.bytes(&path, MOST_LOCK_BYTES) {
            Ok(bytes) => {
                return Some(NodeLock {
                    kind: *kind,
                    path,
                    blake3: blake3::hash(&bytes).to_hex().to_string(),
                });
            }
            Err(why) => remarks.note(why),
        }
    }
    None
}

/// Is it a package of the registry, by its name and by what says which version?
pub(super) fn checked(name: &str, spec: &str) -> Result<(), &'static str> {
    if !is_name(name) {
        return Err("not a name of a package in the registry");
    }
    let spec = match spec.trim().strip_prefix("npm:") {
        // Another package under this name.
        Some(alias) => match alias.get(1..).and_then(|rest| rest.find('@')) {
            Some(at) if is_name(&alias[..at + 1]) => &alias[at + 2..],
            None if is_name(alias) => "*",
            _ => return Err("not a name of a package in the registry"),
        },
        None => spec.trim(),
    };
    const ONLY_THE_REGISTRY: &str = "packages come only from the registry that the user configured";
    let starts = |starts: &[&str]| starts.iter().any(|start| spec.starts_with(start));
    if starts(&["file:", "link:", "portal:", "workspace:", "./", "../", "/", "~/"]) {
        return Err("a directory of its own, which the installation does not see");
    }
    if starts(&["git", "github:", "gitlab:", "bitbucket:", "gist:", "http:", "https:"])
        || spec.contains("://")
    {
        return Err(ONLY_THE_REGISTRY);
    }
    // `user/repository`
    if spec.contains('/') || spec.contains(':') || spec.contains('#') {
        return Err(ONLY_THE_REGISTRY);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " .-+*^~<>=|_xX".contains(c);
    // An option of npm can't come in as a version.
    let option = spec.split(' ').any(|word| word.len() > 1 && word.starts_with('-'));
    if spec.len() > 200 || !spec.chars().all(plain) || option {
        return Err("not a range of versions");
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    if name.len() > 214 {
        return false;
    }
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_of_the_registry() {
        for (name, spec) in [
            ("axios", "^1.2.3"),
            ("@scope/a.b", ">=1 <2 || ~3.4"),
            ("a", "*"),
            ("a", ""),
            ("a", "1 - 2"),
            ("a", "latest"),
            ("a", "1.x"),
            ("a", "npm:b@^2"),
            ("a", "npm:@s/b@2"),
            ("a", "npm:b"),
            ("a", "1.0.0-beta.1+build"),
        ] {
            assert_eq!(checked(name, spec), Ok(()), "{name} {spec}");
        }
        for (name, spec) in [
            ("a", "git+https://example.com/a"),
            ("a", "https://example.com/a.tgz"),
            ("a", "user/repo"),
            ("a", "github:user/repo"),
            ("a", "file:../a"),
            ("a", "link:./a"),
            ("a", "workspace:*"),
            ("a", "./a"),
            ("a", "git@example.com:a/b"),
            ("a", "1 --registry=x"),
            ("a", "--registry"),
            ("a", "npm:../x@1"),
            ("../a", "1"),
            ("-a", "1"),
            ("@a", "1"),
            ("a b", "1"),
            ("", "1"),
            ("a", "1\n2"),
            ("é", "1"),
            ("a", "npm:é@1"),
        ] {
            assert!(checked(name, spec).is_err(), "{name} {spec}");
        }
    }
}
