//! Where each client keeps its rules, and how they are read there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{Pattern, Rule, RuleRefusal, RuleSet, codex, gemini, text_of, unreadable};
use crate::places::Places;
use crate::setup::{Client, gemini_home, json_text, variable};

/// Every set of rules that the client would hold itself, its administrator's and its project's too.
pub(super) fn rules(places: &Places, client: Client) -> Result<Vec<RuleSet>, RuleRefusal> {
    let mut found = Vec::new();
    let home = &places.home;
    let projects = projects(places);
    match client {
        Client::ClaudeCode => {
            for Root { file, .. } in settings(places, client) {
                if let Some(text) = text_of(&file)? {
                    claude(&file, &json(&file, &text)?, &mut found)?;
                }
            }
        }
        Client::Codex => {
            let own = variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
            let mut directories = vec![PathBuf::from("/etc/codex/rules"), own.join("rules")];
            directories.extend(projects.iter().map(|project| project.join(".codex/rules")));
            for file in below(&distinct(directories), "rules")? {
                let text = text_of(&file)?.unwrap_or_default();
                found.extend(codex::rules(&file, &text)?);
            }
        }
        Client::Gemini => {
            for Root { file, .. } in settings(places, client) {
                if let Some(text) = text_of(&file)? {
                    found.extend(gemini::settings(&file, &json(&file, &text)?)?);
                }
            }
            let mut directories = vec![gemini_home(places).join(".gemini")];
            directories.extend(projects.iter().map(|project| project.join(".gemini")));
            let mut policies = vec![PathBuf::from("/etc/gemini-cli/policies")];
            policies.extend(directories.iter().map(|directory| directory.join("policies")));
            for file in below(&distinct(policies), "toml")? {
                let text = text_of(&file)?.unwrap_or_default();
                found.extend(gemini::policies(&file, &text)?);
            }
        }
        Client::Opencode => {
            for Root { file, .. } in settings(places, client) {
                if let Some(text) = text_of(&file)? {
                    opencode(&file, &text, &mut found)?;
                }
            }
            if let Ok(text) = std::env::var("OPENCODE_CONFIG_CONTENT") {
                opencode(Path::new("OPENCODE_CONFIG_CONTENT"), &text, &mut found)?;
            }
        }
    }
    Ok(found)
}

/// A settings file, and the directory that its relative paths begin at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Root {
    pub(super) file: PathBuf,
    pub(super) base: PathBuf,
}

/// Every settings file that the client reads, whether it is there or not.
pub(super) fn settings(places: &Places, client: Client) -> Vec<Root> {
    let home = &places.home;
    let projects = projects(places);
    let root = |file: PathBuf| Root { base: file.parent().unwrap_or(Path::new("/")).to_owned(), file };
    let mut found: Vec<Root> = Vec::new();
    match client {
        Client::ClaudeCode => {
            let own = variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
            found.push(root("/etc/claude-code/managed-settings.json".into()));
            found.push(root(own.join("settings.json")));
            for base in projects {
                found.extend(["settings.json", "settings.local.json"].map(|name| {
                    let file = base.join(".claude").join(name);
                    Root { file, base: base.clone() }
                }));
            }
        }
        Client::Codex => {
            let own = variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
            let directories = projects.iter().map(|project| project.join(".codex"));
            let directories = [PathBuf::from("/etc/codex"), own].into_iter().chain(directories);
            found.extend(directories.map(|directory| root(directory.join("config.toml"))));
        }
        Client::Gemini => {
            found.extend(
                ["settings.json", "system-defaults.json"]
                    .map(|name| root(Path::new("/etc/gemini-cli").join(name))),
            );
            let named = ["GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"];
            found.extend(named.into_iter().filter_map(variable).map(root));
            let own = std::iter::once(gemini_home(places)).chain(projects);
            found.extend(own.map(|directory| root(directory.join(".gemini/settings.json"))));
        }
        Client::Opencode => {
            let own = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("opencode");
            found.extend(["config.json", "opencode.json", "opencode.jsonc"].map(|name| root(own.join(name))));
            found.extend(variable("OPENCODE_CONFIG").map(root));
            let more = variable("OPENCODE_CONFIG_DIR").into_iter();
            let below = projects.iter().flat_map(|project| [project.clone(), project.join(".opencode")]);
            for directory in below.chain(more) {
                found.extend(["opencode.json", "opencode.jsonc"].map(|name| root(directory.join(name))));
            }
        }
    }
    distinct(found)
}

/// The directory that the client works in, and those above it up to the repository's own.
fn projects(places: &Places) -> Vec<PathBuf> {
    let above: Vec<PathBuf> = places.current.ancestors().map(Path::to_path_buf).collect();
    match above.iter().position(|directory| directory.join(".git").exists()) {
        Some(at) => above[..=at].to_vec(),
        None => vec![places.current.clone()],
    }
}

/// A home that is the project too is read once.
fn distinct<T: Clone + Eq + std::hash::Hash>(mut paths: Vec<T>) -> Vec<T> {
    let mut seen = std::collections::HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths
}

/// The files of these directories whose names end so.
fn below(directories: &[PathBuf], extension: &str) -> Result<Vec<PathBuf>, RuleRefusal> {
    let mut files = Vec::new();
    for directory in directories {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(unreadable(directory, error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| unreadable(directory, error))?.path();
            if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn json(file: &Path, text: &str) -> Result<Value, RuleRefusal> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&json_text::without_comments(text)).map_err(|error| unreadable(file, error))
}

/// The texts of a list; nothing where there is none.
pub(super) fn texts(file: &Path, name: &str, list: &Value) -> Result<Vec<String>, RuleRefusal> {
    let wrong = || unreadable(file, format!("`{name}` is not a list of texts"));
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => {
            list.iter().map(|text| text.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

/// `Bash`, `Bash(npm test)`, `Bash(rm:*)`, `Bash(git * main)`
fn claude(file: &Path, settings: &Value, found: &mut Vec<RuleSet>) -> Result<(), RuleRefusal> {
    for text in texts(file, "permissions.deny", &settings["permissions"]["deny"])? {
        let Some(rest) = text.strip_prefix("Bash") else { continue };
        let content = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let pattern = match content.map(str::trim) {
            None if !rest.is_empty() => continue,
            None | Some("" | "*") => Pattern::Glob("*".into()),
            Some(content) => match content.strip_suffix(":*") {
                Some(prefix) => Pattern::Begins(prefix.to_owned()),
                None => Pattern::Glob(content.to_owned()),
            },
        };
        found.push(RuleSet::denying(file, text.clone(), pattern));
    }
    Ok(())
}

#[derive(serde::Deserialize)]
pub(super) struct Opencode {
    pub(super) permission: Option<Permission>,
    #[serde(default)]
    pub(super) tools: serde_json::Map<String, Value>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum Permission {
    Word(String),
    Tools(Pairs<Decisions>),
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum Decisions {
    Word(String),
    Patterns(Pairs<String>),
}

impl Decisions {
    /// Each pattern, and whether it denies.
    pub(super) fn rules(&self, file: &Path) -> Result<Vec<(String, bool)>, RuleRefusal> {
        match self {
            Self::Word(word) => Ok(vec![("*".into(), decision(file, word)?)]),
            Self::Patterns(patterns) => patterns
                .0
                .iter()
                .map(|(pattern, word)| Ok((pattern.clone(), decision(file, word)?)))
                .collect(),
        }
    }
}

/// Whether a word of `permission` denies.
pub(super) fn decision(file: &Path, word: &str) -> Result<bool, RuleRefusal> {
    match word {
        "deny" => Ok(true),
        "allow" | "ask" => Ok(false),
        other => Err(unreadable(file, format!("`{other}` of `permission` is none of allow, ask and deny"))),
    }
}

/// An object in the order in which it is written, which decides.
pub(super) struct Pairs<T>(pub(super) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Pairs<T>;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

pub(super) fn opencode_settings(file: &Path, text: &str) -> Result<Opencode, RuleRefusal> {
    let bare = json_text::without_comments_and_commas(text);
    let bare = if bare.trim().is_empty() { "{}" } else { &bare };
    serde_json::from_str(bare).map_err(|error| unreadable(file, error))
}

/// `permission`, a word for all tools or for each; for `bash` also by pattern, the last of which decides.
fn opencode(file: &Path, text: &str, found: &mut Vec<RuleSet>) -> Result<(), RuleRefusal> {
    let settings = opencode_settings(file, text)?;
    let mut rules = Vec::new();
    let mut add = |text: String, pattern: &str, denies: bool| {
        rules.push(Rule { text, pattern: Pattern::Glob(pattern.to_owned()), denies });
    };
    match settings.permission {
        None => {}
        Some(Permission::Word(word)) => add("permission".into(), "*", decision(file, &word)?),
        Some(Permission::Tools(tools)) => {
            let (named, wild): (Vec<_>, Vec<_>) = tools
                .0
                .into_iter()
                .filter(|(tool, _)| super::matches_glob(tool.as_bytes(), b"bash"))
                .partition(|(tool, _)| tool == "bash");
            // What is said of bash itself counts for more than what is said of all tools.
            for (tool, decisions) in wild.into_iter().chain(named) {
                match decisions {
                    Decisions::Word(word) => add(format!("permission.{tool}"), "*", decision(file, &word)?),
                    Decisions::Patterns(patterns) => {
                        for (pattern, word) in patterns.0 {
                            add(format!("permission.{tool}: {pattern}"), &pattern, decision(file, &word)?);
                        }
                    }
                }
            }
        }
    }
    found.push(RuleSet { file: file.to_owned(), rules });
    Ok(())
}
