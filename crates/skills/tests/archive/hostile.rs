//! The corpus that `hostile_archives.py` makes: every kind is refused for its own reason, with nothing written and
//! nothing left. Its twin: a careless program really is harmed by those that are said to do harm.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_skills::Reason;
use serde::Deserialize;

use crate::scene::{Scene, everything};

#[derive(Deserialize)]
struct Case {
    kind: String,
    code: String,
    harm: Option<String>,
    files: Option<BTreeMap<String, Option<String>>>,
}

struct Corpus {
    directory: tempfile::TempDir,
    cases: Vec<Case>,
}

impl Corpus {
    /// Nothing where there is no Python; that is a failure in CI.
    fn make() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let made = run("make", directory.path())?;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let index = std::fs::read(directory.path().join("index.json")).unwrap();
        Some(Self { cases: serde_json::from_slice(&index).unwrap(), directory })
    }

    fn open(&self, case: &Case) -> File {
        File::open(self.directory.path().join("archives").join(&case.kind)).unwrap()
    }
}

fn run(command: &str, directory: &Path) -> Option<std::process::Output> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile_archives.py");
    // The system's own: others come and go with the shell.
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no {}", python.display());
        eprintln!("skipped: no {}", python.display());
        return None;
    }
    Some(Command::new(python).arg("-B").arg(script).arg(command).arg(directory).output().unwrap())
}

#[test]
fn each_kind_is_refused_for_its_reason_and_leaves_nothing() {
    let Some(corpus) = Corpus::make() else { return };
    let untouched = everything(corpus.directory.path(), Path::new(""));
    let mut wrong = Vec::new();
    for case in &corpus.cases {
        let scene = Scene::new();
        let code = match scene.unpack(&corpus.open(case)) {
            Ok(_) => "ok",
            Err(error) => {
                assert!(!error.to_string().contains(char::is_control), "{}: {error:?}", case.kind);
                error.code()
            }
        };
        if code != case.code {
            wrong.push(format!("{}: {code}, expected {}", case.kind, case.code));
        }
        if case.code != "ok" && !scene.is_empty() {
            wrong.push(format!("{}: something is left", case.kind));
        }
        if !scene.surroundings_are_untouched() {
            wrong.push(format!("{}: something was done outside", case.kind));
        }
        if let Some(files) = &case.files
            && code == "ok"
        {
            check_files(&case.kind, files, &scene.inside());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(everything(corpus.directory.path(), Path::new("")) == untouched, "the corpus was written to");
    for format in ["zip-", "tar-"] {
        let hostile = corpus.cases.iter().filter(|case| case.kind.starts_with(format)).count();
        assert!(hostile >= 40, "only {hostile} kinds of {format}");
    }
    let tried: BTreeSet<&str> = corpus.cases.iter().map(|case| case.code.as_str()).collect();
    for reason in Reason::ALL {
        assert!(tried.contains(reason.code()), "no kind for {}", reason.code());
    }
}

fn check_files(kind: &str, expected: &BTreeMap<String, Option<String>>, directory: &Path) {
    let found: BTreeSet<String> = everything(directory, Path::new(""))
        .into_keys()
        .filter(|path| !path.is_dir())
        .map(|path| path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(found, expected.keys().cloned().collect(), "{kind}");
    for (path, content) in expected {
        if let Some(content) = content {
            assert_eq!(&std::fs::read_to_string(directory.join(path)).unwrap(), content, "{kind}: {path}");
        }
    }
}

#[test]
fn every_reason_has_a_line_in_the_docs() {
    let docs = include_str!("../../../../docs/skills/archives.md");
    for reason in Reason::ALL {
        assert!(docs.contains(&format!("| `{}` |", reason.code())), "{} is not documented", reason.code());
    }
}

#[test]
fn a_careless_program_is_harmed() {
    let Some(corpus) = Corpus::make() else { return };
    let Some(output) = run("naive", corpus.directory.path()) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let harmed: BTreeMap<String, bool> = serde_json::from_slice(&output.stdout).unwrap();
    let said: Vec<&Case> = corpus.cases.iter().filter(|case| case.harm.is_some()).collect();
    assert!(said.len() >= 30, "only {}", said.len());
    for case in said {
        assert_eq!(harmed.get(&case.kind), Some(&true), "{} does no harm", case.kind);
    }
}
