//! Which script of a skill is meant.

use std::collections::BTreeMap;

use ringfence_skills::{Entry, Kind, Tree};

use super::interpreter::{HEAD, has_known_extension};
use crate::error::{ErrorCode, ServiceError};

/// How many are listed in an error.
const LISTED: usize = 20;

/// What of a skill is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The only script that there is.
    Only,
    /// A path in the skill, or a name in its scripts directory.
    Script(String),
    /// A Python module, by its name from the skill's root.
    Module(String),
}

/// A script, by its path in the skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) path: String,
    pub(crate) executable: bool,
}

/// The script that `name` stands for, or the only one.
pub(crate) fn find_script(
    tree: &Tree,
    skill: &str,
    name: Option<&str>,
    own: &BTreeMap<String, Vec<String>>,
) -> Result<Script, ServiceError> {
    match name {
        Some(name) => named(tree, skill, name, own),
        None => {
            let mut all = runnable(tree, own);
            match all.len() {
                1 => Ok(all.remove(0)),
                0 => Err(bad(
                    format!("{skill} has no script to run"),
                    "read its SKILL.md: it may be text only",
                )),
                _ => Err(bad(
                    format!("{skill} has more than one script: {}", list(&all)),
                    "name the one to run after the skill",
                )),
            }
        }
    }
}

/// Everything that can be run: what is in `scripts`, and where that has none, scripts at the top.
pub(crate) fn runnable(tree: &Tree, own: &BTreeMap<String, Vec<String>>) -> Vec<Script> {
    let under_scripts: Vec<Script> = scripts(tree, |path| path.starts_with("scripts/"), own);
    if under_scripts.is_empty() { scripts(tree, |path| !path.contains('/'), own) } else { under_scripts }
}

fn scripts(tree: &Tree, is_place: impl Fn(&str) -> bool, own: &BTreeMap<String, Vec<String>>) -> Vec<Script> {
    tree.entries()
        .iter()
        .filter(|entry| is_place(&entry.path))
        .filter_map(|entry| script(tree, entry, own))
        .collect()
}

/// A file that says what runs it, and is not only a part of a package.
fn script(tree: &Tree, Entry { path, kind }: &Entry, own: &BTreeMap<String, Vec<String>>) -> Option<Script> {
    let Kind::File { executable, .. } = kind else { return None };
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.starts_with("__") || name.starts_with('.') || name == "conftest.py" {
        return None;
    }
    let known = has_known_extension(path, own)
        || tree
            .read_file(path, HEAD)
            .is_ok_and(|head| head.starts_with(b"#!") || (*executable && head.starts_with(b"\x7fELF")));
    known.then(|| Script { path: path.clone(), executable: *executable })
}

fn named(
    tree: &Tree,
    skill: &str,
    name: &str,
    own: &BTreeMap<String, Vec<String>>,
) -> Result<Script, ServiceError> {
    let wanted = name.strip_prefix("./").unwrap_or(name);
    let at = |path: &str| tree.entries().iter().find(|entry| entry.path == path);
    for path in [wanted.to_owned(), format!("scripts/{wanted}")] {
        match at(&path).map(|entry| &entry.kind) {
            Some(Kind::File { executable, .. }) => return Ok(Script { path, executable: *executable }),
            Some(Kind::Link { to }) => {
                return Err(bad(
                    format!("{path} of {skill} is a link to {to}"),
                    "name the file that it leads to",
                ));
            }
            _ => {}
        }
    }
    let all = runnable(tree, own);
    // `extract` for `scripts/extract.py`, where that is the only one.
    let stems: Vec<&Script> = all.iter().filter(|script| stem(&script.path) == wanted).collect();
    if let [one] = stems[..] {
        return Ok(one.clone());
    }
    let known = if all.is_empty() { "it has none".to_owned() } else { format!("it has {}", list(&all)) };
    Err(bad(
        format!("{skill} has no script {name}: {known}"),
        "name a path in the skill, or a name in its scripts directory",
    ))
}

fn stem(path: &str) -> &str {
    let path = path.strip_prefix("scripts/").unwrap_or(path);
    path.rsplit_once('.').map_or(path, |(stem, _)| stem)
}

fn list(scripts: &[Script]) -> String {
    let mut names: Vec<&str> = scripts.iter().take(LISTED).map(|script| script.path.as_str()).collect();
    if scripts.len() > LISTED {
        names.push("…");
    }
    names.join(", ")
}

fn bad(message: String, hint: &str) -> ServiceError {
    ServiceError::new(ErrorCode::BadSkill, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_skills::TreeLimits;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::read(root.path(), TreeLimits::default(), |_, _| false).unwrap();
        (root, tree)
    }

    fn find(tree: &Tree, name: Option<&str>) -> Result<String, String> {
        find_script(tree, "x", name, &BTreeMap::new())
            .map(|script| script.path)
            .map_err(|error| error.message)
    }

    #[test]
    fn by_path_by_name_by_stem_and_alone() {
        let (_root, many) = tree(&[
            ("scripts/a.py", ""),
            ("scripts/b.sh", ""),
            ("scripts/lib/__init__.py", ""),
            ("scripts/notes.md", ""),
            ("scripts/run", "#!/bin/sh\n"),
            ("tool.py", ""),
        ]);
        for (name, path) in [
            ("scripts/a.py", "scripts/a.py"),
            ("./scripts/a.py", "scripts/a.py"),
            ("a.py", "scripts/a.py"),
            ("a", "scripts/a.py"),
            ("run", "scripts/run"),
            ("tool.py", "tool.py"),
        ] {
            assert_eq!(find(&many, Some(name)).unwrap(), path);
        }
        assert_eq!(
            find(&many, None).unwrap_err(),
            "x has more than one script: scripts/a.py, scripts/b.sh, scripts/run"
        );
        for name in ["../a.py", "/etc/passwd", "nope", "scripts", ""] {
            assert!(find(&many, Some(name)).unwrap_err().contains("it has scripts/a.py"), "{name}");
        }
        let (_root, one) = tree(&[("SKILL.md", ""), ("main.py", "")]);
        assert_eq!(find(&one, None).unwrap(), "main.py");
        let (_root, none) = tree(&[("SKILL.md", "")]);
        assert_eq!(find(&none, None).unwrap_err(), "x has no script to run");
    }

    #[test]
    fn a_link_is_not_followed() {
        let (root, _) = tree(&[("scripts/a.py", "")]);
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("scripts/l.py")).unwrap();
        let tree = Tree::read(root.path(), TreeLimits::default(), |_, _| false).unwrap();
        assert!(find(&tree, Some("l.py")).unwrap_err().contains("is a link"));
        assert_eq!(find(&tree, None).unwrap(), "scripts/a.py");
    }
}
