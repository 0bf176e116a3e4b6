//! The Pythons and Nodes of this machine, and what they are. An interpreter is asked in a sandbox, once: the answer is kept for as
//! long as its file is the same.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_sandbox::{Attached, Stream};
use ringfence_skills::{VersionRange, satisfies};
use serde::{Deserialize, Serialize};

use super::contained::{Contained, Work, run_contained};
use super::programs::{Programs, is_program};
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;

const KEPT: &str = "interpreters.json";
const ASK_PYTHON: &str = "import platform, sysconfig; print(platform.python_version(), sysconfig.get_platform(), platform.python_implementation(), sysconfig.get_config_var('SOABI'))";
const ASK_NODE: &str =
    "console.log(process.versions.node, process.platform + '-' + process.arch, process.versions.modules)";
/// Answers that are kept: more interpreters than that nobody has.
const MOST_KEPT: usize = 256;

/// What an interpreter says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterpreterFacts {
    pub path: PathBuf,
    pub version: String,
    /// What binary packages depend on.
    pub platform: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
}

/// Of the file that a path leads to: another file is another interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    file: String,
    version: String,
    platform: String,
}

/// The first Python that will do: those of PATH, then pyenv's, then uv's, newest first.
pub(crate) fn pick_python(
    places: &Places,
    programs: &Programs,
    range: Option<&VersionRange>,
    exact: Option<&str>,
) -> Result<InterpreterFacts, ServiceError> {
    let candidates = pythons(places, programs);
    let mut seen = Vec::new();
    for path in &candidates {
        let Ok(facts) = interpreter_facts(places, programs, path, Language::Python) else { continue };
        let right = range.is_none_or(|range| satisfies(range, &facts.version))
            && exact.is_none_or(|exact| {
                facts.version == exact || facts.version.starts_with(&format!("{exact}."))
            });
        if right {
            return Ok(facts);
        }
        seen.push(format!("{} ({})", facts.version, path.display()));
    }
    let wanted =
        range.map(|range| range.as_str().to_owned()).or(exact.map(str::to_owned)).unwrap_or_default();
    if seen.is_empty() {
        return Err(missing(
            "there is no Python on this machine".into(),
            "install python3 with your package manager",
        ));
    }
    seen.dedup();
    Err(missing(
        format!("the skill needs Python {wanted}; there is {}", seen.join(", ")),
        "install one that fits: `uv python install`, `pyenv install`, or your package manager",
    ))
}

/// The Python to use where any will do: nothing is asked.
pub(crate) fn any_python(places: &Places, programs: &Programs) -> Option<PathBuf> {
    pythons(places, programs).into_iter().next()
}

pub(crate) fn interpreter_facts(
    places: &Places,
    programs: &Programs,
    path: &Path,
    language: Language,
) -> Result<InterpreterFacts, ServiceError> {
    let file =
        stamp(path).ok_or_else(|| missing(format!("{} is not there", path.display()), "name another one"))?;
    let kept_as = path.display().to_string();
    let mut kept = read_kept(places);
    if let Some(known) = kept.get(&kept_as).filter(|known| known.file == file) {
        let Known { version, platform, .. } = known.clone();
        return Ok(InterpreterFacts { path: path.to_path_buf(), version, platform });
    }
    let facts = ask(places, programs, path, language)?;
    let _lock = places.state.lock("interpreters.lock")?;
    kept = read_kept(places);
    if kept.len() >= MOST_KEPT {
        kept.clear();
    }
    kept.insert(kept_as, Known { file, version: facts.version.clone(), platform: facts.platform.clone() });
    if let Ok(text) = serde_json::to_vec(&kept) {
        places.state.replace(KEPT, &text)?;
    }
    Ok(facts)
}

fn pythons(places: &Places, programs: &Programs) -> Vec<PathBuf> {
    let is_python =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    let chosen: Vec<PathBuf> = programs.chosen.iter().filter(is_python).cloned().collect();
    let mut found = Vec::new();
    let pyenv = std::env::var_os("PYENV_ROOT").map_or_else(|| places.home.join(".pyenv"), PathBuf::from);
    for directory in &programs.directories {
        if *directory == pyenv.join("shims") {
            let chosen = fs::read_to_string(pyenv.join("version")).unwrap_or_default();
            let chosen =
                chosen.split_whitespace().filter(|name| !name.contains('/') && !name.starts_with('.'));
            found.extend(chosen.map(|name| pyenv.join("versions").join(name).join("bin/python3")));
        } else {
            found.extend(["python3", "python"].map(|name| directory.join(name)));
            found.extend((8..=30).rev().map(|minor| directory.join(format!("python3.{minor}"))));
        }
    }
    // A plain `python3` of a later directory goes before a `python3.13` of an earlier one.
    found.sort_by_key(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains('.')));
    let data =
        std::env::var_os("XDG_DATA_HOME").map_or_else(|| places.home.join(".local/share"), PathBuf::from);
    for installations in [pyenv.join("versions"), data.join("uv/python")] {
        let mut versions: Vec<PathBuf> =
            fs::read_dir(installations).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        versions.sort_by_key(|path| std::cmp::Reverse(numbers(path)));
        found.extend(versions.into_iter().map(|version| version.join("bin/python3")));
    }
    found.splice(0..0, chosen);
    let mut seen = Vec::new();
    found.retain(|path| {
        is_program(path) && programs.may_be_used(path) && !seen.contains(path) && {
            seen.push(path.clone());
            true
        }
    });
    found
}

pub(crate) fn numbers(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(|letter: char| !letter.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn ask(
    places: &Places,
    programs: &Programs,
    path: &Path,
    language: Language,
) -> Result<InterpreterFacts, ServiceError> {
    let argv = match language {
        Language::Python => vec![path.into(), "-I".into(), "-S".into(), "-c".into(), ASK_PYTHON.into()],
        Language::Node => vec![path.into(), "-e".into(), ASK_NODE.into()],
    };
    let attached = Attached { directories: programs.attachments(path), ..Attached::default() };
    let contained = Contained {
        work: Work::Question,
        argv,
        attached,
        registries: Vec::new(),
        hosts: Vec::new(),
        stream: Stream::Capture,
    };
    places.state.ensure()?;
    let outcome = run_contained(places, contained)?;
    let said = String::from_utf8_lossy(&outcome.captured.stdout).into_owned();
    let (version, platform) = said.trim().split_once(' ').unwrap_or_default();
    let is_version = version.starts_with(|first: char| first.is_ascii_digit())
        && version.len() < 40
        && version.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '+' | '-'));
    if outcome.exit_code() != 0 || !is_version {
        return Err(missing(
            format!("{} does not say which version it is", path.display()),
            "take it out of PATH, or repair it",
        ));
    }
    Ok(InterpreterFacts {
        path: path.to_path_buf(),
        version: version.to_owned(),
        platform: platform.to_owned(),
    })
}

fn stamp(path: &Path) -> Option<String> {
    let facts = path.metadata().ok()?;
    let real = path.canonicalize().ok()?;
    Some(format!(
        "{}:{}:{}:{}:{}.{}",
        real.display(),
        facts.dev(),
        facts.ino(),
        facts.size(),
        facts.mtime(),
        facts.mtime_nsec()
    ))
}

/// A file that can't be read is one that knows nothing.
fn read_kept(places: &Places) -> BTreeMap<String, Known> {
    let text = read_if_there(&places.state.path().join(KEPT)).ok().flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn missing(message: String, hint: &str) -> ServiceError {
    ServiceError::new(ErrorCode::Missing, message, hint)
}
