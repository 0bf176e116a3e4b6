//! Where each client keeps its rules, and how they are read there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{Pattern, Rule, RuleRefusal, RuleSet, codex, gemini, text_of, unreadable};
use crate::places::Places;
use crate::setup::{Client, json_text, variable};

/// Every set of rules that the client would hold itself, its administrator's and its project's too.
pub(super) fn rules(places: &Places, client: Client) -> Result<Vec<RuleSet>, RuleRefusal> {
    let mut found = Vec::new();
    let home = &places.home;
    let projects = projects(places);
    match client {
        Client::ClaudeCode => {
            let own = variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
            let mut files = vec!["/etc/claude-code/managed-settings.json".into(), own.join("settings.json")];
            for project in &projects {
                files.extend(
                    ["settings.json", "settings.local.json"].map(|name| project.join(".claude").join(name)),
                );
            }
            for file in distinct(files) {
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
            let mut files: Vec<PathBuf> = ["settings.json", "system-defaults.json"]
                .map(|name| Path::new("/etc/gemini-cli").join(name))
                .into();
            files.extend(variable("GEMINI_CLI_SYSTEM_SETTINGS_PATH"));
            let mut directories = vec![home.join(".gemini")];
            directories.extend(projects.iter().map(|project| project.join(".gemini")));
            files.extend(directories.iter().map(|directory| directory.join("settings.json")));
            for file in distinct(files) {
                if let Some(text) = text_of(&file)? {
                    found.extend(gemini::settings(&file, &json(&file, &text)?)?);
                }
            }
            let mut policies = vec![PathBuf::from("/etc/gemini-cli/policies")];
            policies.extend(directories.iter().map(|directory| directory.join("policies")));
            for file in below(&distinct(policies), "toml")? {
                let text = text_of(&file)?.unwrap_or_default();
                found.extend(gemini::policies(&file, &text)?);
            }
        }
        Client::Opencode => {
            let own = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("opencode");
            let mut files: Vec<PathBuf> =
                ["config.json", "opencode.json", "opencode.jsonc"].map(|name| own.join(name)).into();
            files.extend(variable("OPENCODE_CONFIG"));
            let more = variable("OPENCODE_CONFIG_DIR").into_iter();
            let below = projects.iter().flat_map(|project| [project.clone(), project.join(".opencode")]);
            for directory in below.chain(more) {
                files.extend(["opencode.json", "opencode.jsonc"].map(|name| directory.join(name)));
            }
            for file in distinct(files) {
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

/// The directory that the client works in, and those above it up to the repository's own.
fn projects(places: &Places) -> Vec<PathBuf> {
    let above: Vec<PathBuf> = places.current.ancestors().map(Path::to_path_buf).collect();
    match above.iter().position(|directory| directory.join(".git").exists()) {
        Some(at) => above[..=at].to_vec(),
        None => vec![places.current.clone()],
    }
}

/// A home that is the project too is read once.
fn distinct(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
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

fn json(file: &Path, text: &str) -> Result<Value, RuleRefusal> {
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
struct Opencode {
    permission: Option<Permission>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Permission {
    Word(String),
    Tools(Pairs<Decisions>),
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Decisions {
    Word(String),
    Patterns(Pairs<String>),
}

/// An object in the order in which it is written, which decides.
struct Pairs<T>(Vec<(String, T)>);

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

/// `permission`, a word for all tools or for each; for `bash` also by pattern, the last of which decides.
fn opencode(file: &Path, text: &str, found: &mut Vec<RuleSet>) -> Result<(), RuleRefusal> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let bare = json_text::without_comments_and_commas(text);
    let settings: Opencode = serde_json::from_str(&bare).map_err(|error| unreadable(file, error))?;
    let decision = |word: &str| match word {
        "deny" => Ok(true),
        "allow" | "ask" => Ok(false),
        other => Err(unreadable(file, format!("`{other}` of `permission` is none of allow, ask and deny"))),
    };
    let mut rules = Vec::new();
    let mut add = |text: String, pattern: &str, denies: bool| {
        rules.push(Rule { text, pattern: Pattern::Glob(pattern.to_owned()), denies });
    };
    match settings.permission {
        None => {}
        Some(Permission::Word(word)) => add("permission".into(), "*", decision(&word)?),
        Some(Permission::Tools(tools)) => {
            let (named, wild): (Vec<_>, Vec<_>) = tools
                .0
                .into_iter()
                .filter(|(tool, _)| super::matches_glob(tool.as_bytes(), b"bash"))
                .partition(|(tool, _)| tool == "bash");
            // What is said of bash itself counts for more than what is said of all tools.
            for (tool, decisions) in wild.into_iter().chain(named) {
                match decisions {
                    Decisions::Word(word) => add(format!("permission.{tool}"), "*", decision(&word)?),
                    Decisions::Patterns(patterns) => {
                        for (pattern, word) in patterns.0 {
                            add(format!("permission.{tool}: {pattern}"), &pattern, decision(&word)?);
                        }
                    }
                }
            }
        }
    }
    found.push(RuleSet { file: file.to_owned(), rules });
    Ok(())
}
