//! Which files are scripts, by language: the one that was named and those that it starts, or all.

use std::collections::{HashMap, HashSet, VecDeque};

use super::origin::{Origin, Remarks};
use super::system::interpreter::{self, Interpreter};
use super::system::{Certainty, NeededBinary, System, shell};
use super::text::{Files, directory, resolve};

/// More are not looked at.
const MOST_SCRIPTS: usize = 2_000;

#[derive(Debug, Default)]
pub(super) struct Scripts {
    pub(super) python: Vec<String>,
    pub(super) node: Vec<String>,
}

impl Scripts {
    /// What shell scripts call, and which interpreters are named, goes to `system`.
    pub(super) fn find(
        files: &Files<'_>,
        script: Option<&str>,
        system: &mut System,
        remarks: &mut Remarks,
    ) -> Self {
        let mut found = Self::default();
        let mut queue: VecDeque<String> = match script {
            Some(script) if files.contains(script) => VecDeque::from([script.to_owned()]),
            Some(script) => {
                remarks.note(format!("{script}: no such file in the skill"));
                VecDeque::new()
            }
            None => files.paths().filter(|path| may_be_script(path)).map(str::to_owned).collect(),
        };
        let mut seen: HashSet<String> = queue.iter().cloned().collect();
        let names = by_name(files);
        let mut looked_at = 0;
        while let Some(path) = queue.pop_front() {
            looked_at += 1;
            if looked_at > MOST_SCRIPTS {
                remarks.note(format!("only the first {MOST_SCRIPTS} scripts are looked at"));
                break;
            }
            let text = match files.text(&path) {
                Ok(text) => text,
                Err(why) => {
                    remarks.note(why);
                    continue;
                }
            };
            system.add_urls(&path, &text);
            match interpreter::of(&path, &text) {
                Some(Interpreter::Python) => found.python.push(path),
                Some(Interpreter::Node) => found.node.push(path),
                Some(Interpreter::Shell(name)) => {
                    if name != "sh" {
                        system.add_binary(interpreter_binary(&path, name, text.starts_with("#!")));
                    }
                    let shell = shell::read(&text);
                    system.add_source(&path, &shell.variables, &shell.programs);
                    let mentioned = shell.mentions.iter().filter_map(|word| own(files, &names, &path, word));
                    queue.extend(mentioned.filter(|path| seen.insert(path.clone())).collect::<Vec<_>>());
                }
                Some(Interpreter::Other { program, named }) => {
                    system.add_binary(interpreter_binary(&path, program, named));
                }
                None => {}
            }
        }
        found
    }
}

fn interpreter_binary(path: &str, program: String, named: bool) -> NeededBinary {
    NeededBinary {
        any_of: vec![program],
        certainty: if named { Certainty::Declared } else { Certainty::Inferred },
        hint: None,
        origin: Origin::File { file: path.to_owned(), line: 1 },
    }
}

/// With all scripts, tests are none; a file without an ending is one where its directory says so.
fn may_be_script(path: &str) -> bool {
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_tests =
        parents.split('/').any(|part| matches!(part, "test" | "tests" | "__tests__" | "node_modules"));
    let is_test = name.starts_with("test_")
        || name == "conftest.py"
        || ["_test.py", ".test.js", ".test.ts", ".spec.js", ".spec.ts", ".d.ts", ".config.js", ".config.ts"]
            .iter()
            .any(|ending| name.ends_with(ending));
    if in_tests || is_test {
        return false;
    }
    let bare = !name.contains('.') && parents.split('/').any(|part| matches!(part, "scripts" | "bin"));
    bare || interpreter::has_ending(path)
}

/// Scripts by the last part of their path; nothing where two have the same.
fn by_name<'a>(files: &Files<'a>) -> HashMap<&'a str, Option<&'a str>> {
    let mut names = HashMap::new();
    for path in files.paths().filter(|path| interpreter::has_ending(path)) {
        let name = path.rsplit('/').next().unwrap_or(path);
        names.entry(name).and_modify(|only| *only = None).or_insert(Some(path));
    }
    names
}

/// The file of the skill that a word of a shell script means: from where the script is, from the top, or the only one of
/// that name.
fn own(files: &Files<'_>, names: &HashMap<&str, Option<&str>>, script: &str, word: &str) -> Option<String> {
    let word = word.trim_start_matches('/');
    for from in [directory(script), ""] {
        if let Some(path) = resolve(from, word).filter(|path| files.contains(path)) {
            return Some(path);
        }
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    names.get(name).copied().flatten().map(str::to_owned)
}
