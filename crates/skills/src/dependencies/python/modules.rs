//! The modules of the skill itself: which file an import means, and everything that a script reaches that way.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};

use super::super::origin::Remarks;
use super::super::text::{Files, directory, join, resolve};
use super::packages;
use super::source::{self, Import, Source};
use super::tokens::with_plain_line_ends;

/// More files are not followed from one script.
const MOST_FILES: usize = 2_000;
/// A longer name, or more dots, is no module of anybody.
const LONGEST_MODULE: usize = 512;
const MOST_DOTS: usize = 32;

/// A file of the skill and what it says; its own modules are no longer among its imports.
pub(super) struct Reached {
    pub(super) path: String,
    pub(super) source: Source,
}

/// Where the skill's own modules are.
pub(super) struct Modules<'a> {
    files: &'a Files<'a>,
    /// The directories that have a module or package of this name.
    directories: HashMap<&'a str, Vec<&'a str>>,
    /// Whether a directory has a module, as it was found before.
    known: RefCell<HashMap<(String, String), bool>>,
}

impl<'a> Modules<'a> {
    pub(super) fn new(files: &'a Files<'a>) -> Self {
        let mut directories: HashMap<&str, Vec<&str>> = HashMap::new();
        for path in files.paths() {
            let Some(path) = path.strip_suffix(".py") else { continue };
            let path = path.strip_suffix("/__init__").unwrap_or(path);
            let name = path.rsplit('/').next().unwrap_or(path);
            directories.entry(name).or_default().push(directory(path));
        }
        Self { files, directories, known: RefCell::default() }
    }

    /// The scripts, and all files of the skill that they import, and those import.
    pub(super) fn reach(&self, scripts: &[String], remarks: &mut Remarks) -> Vec<Reached> {
        let mut reached = Vec::new();
        let mut seen: HashSet<String> = scripts.iter().cloned().collect();
        // Each with the directory of the script that led to it: Python looks there first.
        let mut queue: VecDeque<(String, String, bool)> =
            scripts.iter().map(|script| (script.clone(), directory(script).to_owned(), false)).collect();
        while let Some((path, start, anywhere)) = queue.pop_front() {
            if reached.len() == MOST_FILES {
                remarks.note(format!("only the first {MOST_FILES} Python files are read"));
                break;
            }
            let text = match self.files.text(&path) {
                Ok(text) => with_plain_line_ends(text),
                Err(why) => {
                    remarks.note(why);
                    continue;
                }
            };
            let mut source = source::read(&text);
            let anywhere = anywhere || source.extends_path;
            source.imports.retain(|import| match self.own(import, &path, &start, anywhere) {
                None => true,
                Some(own) => {
                    for path in own {
                        if seen.insert(path.clone()) {
                            queue.push_back((path, start.clone(), anywhere));
                        }
                    }
                    false
                }
            });
            reached.push(Reached { path, source });
        }
        reached
    }

    /// The files of the skill that an import reads; nothing where it is not the skill's.
    fn own(&self, import: &Import, file: &str, start: &str, anywhere: bool) -> Option<Vec<String>> {
        if import.level > 0 {
            // A relative import is never a package, also where its file is missing.
            if import.level > MOST_DOTS || import.module.len() > LONGEST_MODULE {
                return Some(Vec::new());
            }
            let root = resolve(directory(file), &"../".repeat(import.level - 1));
            return Some(root.map(|root| self.files_of(&root, import)).unwrap_or_default());
        }
        if import.module.len() > LONGEST_MODULE {
            return None;
        }
        let top = import.top();
        let mut roots: Vec<&str> = vec![start, directory(file), "", "scripts", "src", "lib"];
        let elsewhere = self.directories.get(top).into_iter().flatten().take(16).copied();
        if anywhere {
            roots.extend(elsewhere);
        }
        let root = roots.into_iter().find(|root| self.has(root, top))?;
        Some(self.files_of(root, import))
    }

    fn has(&self, root: &str, top: &str) -> bool {
        let key = (root.to_owned(), top.to_owned());
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let inside = join(root, top);
        let has = self.files.contains(&format!("{inside}.py"))
            || self.files.contains(&join(&inside, "__init__.py"))
            // A directory without `__init__.py` is a package too, but one that is installed comes first.
            || (!packages::is_known(top)
                && !super::stdlib::contains(top)
                && self.files.below(&inside).take(200).any(|path| path.ends_with(".py")));
        self.known.borrow_mut().insert(key, has);
        has
    }

    fn files_of(&self, root: &str, import: &Import) -> Vec<String> {
        let mut found = Vec::new();
        let mut take = |path: String| {
            if self.files.contains(&path) {
                found.push(path);
            }
        };
        let mut at = root.to_owned();
        take(join(&at, "__init__.py"));
        for part in import.module.split('.').filter(|part| !part.is_empty()) {
            at = join(&at, part);
            take(format!("{at}.py"));
            take(join(&at, "__init__.py"));
        }
        for name in &import.names {
            let inside = join(&at, name);
            take(format!("{inside}.py"));
            take(join(&inside, "__init__.py"));
        }
        found
    }
}
