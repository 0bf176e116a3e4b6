//! What a client's user denies its file tools, and modes in which it writes nothing, as less for the sandboxes of `ringfence mcp`:
//! paths that are hidden, names that are read-only, a workspace that is.
//!
//! Invariant: it only takes away. Rules are read anew for each sandbox, and those of the start stay; a pattern is for the files
//! that are there then. What can't be said that way refuses, or is named by `ringfence setup`.

use std::path::{Path, PathBuf};

use ringfence_policy::{HostFiles, HostRule, Layer, NetworkMode, Policy, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::paths::{Found, Pattern};
use super::read::{self, Permission, Root};
use super::{RuleRefusal, matches_glob, unreadable};
use crate::places::Places;
use crate::setup::Client;

/// The rules of one client about files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRules {
    client: Client,
    /// As they were at the start.
    first: Vec<FileRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRule {
    /// Where it is written, and how.
    pub(super) file: PathBuf,
    pub(super) text: String,
    pub(super) denies: Denies,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Denies {
    Read,
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    All,
    /// As `.gitignore` has it, from this directory on.
    Below {
        base: PathBuf,
        pattern: String,
    },
    /// Patterns with their decisions, the last of which counts; `*` matches a slash too.
    Ordered(Vec<(String, bool)>),
    /// Not a file: nothing of this name is reached.
    Host(String),
}

/// Less than the policy has.
#[derive(Debug, Default)]
pub(crate) struct Tightening {
    pub(crate) layer: Layer,
    /// The workspace that can be read and not written.
    pub(crate) read_only: Option<PathBuf>,
}

impl FileRules {
    /// What can't be read now can't be read by the first sandbox, which is refused then.
    pub fn new(places: &Places, client: Client) -> Self {
        Self { client, first: rules(places, client).unwrap_or_default() }
    }

    /// What they take from `policy` now.
    pub(crate) fn tighten(&self, places: &Places, policy: &Policy) -> Result<Tightening, RuleRefusal> {
        let mut all = rules(places, self.client)?;
        all.extend(self.first.iter().filter(|rule| !all.contains(rule)).cloned().collect::<Vec<_>>());
        let workspace = match &policy.filesystem.workspace {
            Workspace::Private => None,
            Workspace::Current => Some(places.current.clone()),
            Workspace::Path(path) => Some(path.clone()),
        };
        let workspace = workspace.map(|path| path.canonicalize().unwrap_or(path));
        let mut found = Found::new(places, workspace);
        for rule in &all {
            found.add(rule).map_err(|why| unreadable(&rule.file, format!("`{}`: {why}", rule.text)))?;
            // Outside of the workspace nothing else can be written.
            let meets = |path: &PathBuf| {
                found.outside.iter().any(|outside| path.starts_with(outside) || outside.starts_with(path))
            };
            if let Some(path) = policy.filesystem.write.iter().find(|path| meets(path)) {
                let why = format!("`{}`: the policy lets commands write {}", rule.text, path.display());
                return Err(unreadable(&rule.file, why));
            }
        }
        Ok(tightening(found, policy))
    }
}

fn tightening(found: Found, policy: &Policy) -> Tightening {
    let mut layer = Layer::default();
    layer.filesystem.hide = found.hidden;
    layer.filesystem.protect = found.kept;
    layer.network.deny = found.hosts;
    if found.closes {
        layer.network.mode = Some(NetworkMode::Off);
    }
    let is_private = policy.filesystem.workspace == Workspace::Private;
    let mut read_only = None;
    if (found.unread || found.unwritten) && !is_private {
        layer.filesystem.workspace = Some(Workspace::Private);
        layer.filesystem.protect.clear();
        read_only = found.workspace.filter(|_| !found.unread);
    }
    if found.unread && policy.filesystem.host == HostFiles::All {
        layer.filesystem.host = Some(HostFiles::System);
    }
    Tightening { layer, read_only }
}

/// All that the client's settings deny its file tools, its administrator's and its project's too.
fn rules(places: &Places, client: Client) -> Result<Vec<FileRule>, RuleRefusal> {
    let mut found = Vec::new();
    for Root { file, base } in read::settings(places, client) {
        let Some(text) = super::text_of(&file)? else { continue };
        match client {
            Client::ClaudeCode => claude(&file, &base, &read::json(&file, &text)?, places, &mut found)?,
            Client::Codex => {
                let settings: toml::Table =
                    toml::from_str(&text).map_err(|error| unreadable(&file, error.message()))?;
                codex(&file, &base, &settings, places, &mut found)?;
            }
            Client::Gemini => gemini(&file, &read::json(&file, &text)?, &mut found)?,
            Client::Opencode => opencode(&file, &text, &mut found)?,
        }
    }
    Ok(found)
}

fn rule(file: &Path, text: impl Into<String>, denies: Denies, what: What) -> FileRule {
    FileRule { file: file.to_owned(), text: text.into(), denies, what }
}

/// `Read(…)` and `Edit(…)`, also as `Write`, `MultiEdit` and `NotebookEdit`; `WebFetch(domain:…)`.
fn claude(
    file: &Path,
    base: &Path,
    settings: &Value,
    places: &Places,
    found: &mut Vec<FileRule>,
) -> Result<(), RuleRefusal> {
    for text in read::texts(file, "permissions.deny", &settings["permissions"]["deny"])? {
        let (tool, content) = match text.split_once('(') {
            Some((tool, rest)) => (tool, rest.strip_suffix(')').unwrap_or(rest).trim()),
            None => (&*text, "*"),
        };
        let denies = match tool {
            "Read" => Denies::Read,
            "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => Denies::Write,
            "WebFetch" => {
                if let Some(host) = content.strip_prefix("domain:") {
                    found.push(rule(file, text.clone(), Denies::Read, What::Host(host.to_owned())));
                }
                continue;
            }
            _ => continue,
        };
        let what = match content {
            "" | "*" | "**" => What::All,
            // `//x` is absolute, `/x` begins at the settings' own directory, the rest at the working directory.
            path => match (path.strip_prefix("//"), path.strip_prefix('/')) {
                (Some(rest), _) => What::Below { base: "/".into(), pattern: format!("/{rest}") },
                (_, Some(rest)) => What::Below { base: base.to_owned(), pattern: format!("/{rest}") },
                _ => What::Below { base: places.current.clone(), pattern: path.to_owned() },
            },
        };
        found.push(rule(file, text.clone(), denies, what));
    }
    if settings["permissions"]["defaultMode"] == "plan" {
        found.push(rule(file, "permissions.defaultMode: plan", Denies::Write, What::All));
    }
    Ok(())
}

/// `sandbox_mode = "read-only"`, by itself or of the profile that is chosen, and what `[permissions.NAME]` denies.
fn codex(
    file: &Path,
    base: &Path,
    settings: &toml::Table,
    places: &Places,
    found: &mut Vec<FileRule>,
) -> Result<(), RuleRefusal> {
    let text =
        |table: &toml::Table, key: &str| table.get(key).and_then(|value| value.as_str()).map(str::to_owned);
    let profile = text(settings, "profile")
        .and_then(|name| settings.get("profiles")?.get(&name)?.as_table())
        .and_then(|profile| text(profile, "sandbox_mode"));
    let mode = profile.or_else(|| text(settings, "sandbox_mode"));
    if mode.as_deref() == Some("read-only") {
        found.push(rule(file, "sandbox_mode = \"read-only\"", Denies::Write, What::All));
    }
    let Some(name) = text(settings, "default_permissions").filter(|_| mode.is_none()) else { return Ok(()) };
    if name == ":read-only" {
        found.push(rule(file, "default_permissions = \":read-only\"", Denies::Write, What::All));
    }
    let rules = settings.get("permissions").and_then(|all| all.get(&name)?.get("filesystem")?.as_table());
    let mut add = |path: &str, access: &toml::Value, base: &Path| {
        let text = format!("permissions.{name}.filesystem.{path}");
        let below = || What::Below { base: base.to_owned(), pattern: format!("/{path}") };
        match access.as_str() {
            Some("deny" | "none") => found.push(rule(file, text, Denies::Read, below())),
            Some("read") => found.push(rule(file, text, Denies::Write, below())),
            Some("write") => {}
            _ => return Err(unreadable(file, format!("`{text}` is none of read, write and deny"))),
        }
        Ok(())
    };
    for (path, access) in rules.into_iter().flatten() {
        match (path.as_str(), access) {
            (":workspace_roots" | ":project_roots" | ":cwd", toml::Value::Table(below)) => {
                for (path, access) in below {
                    add(path.trim_start_matches("./"), access, &places.current)?;
                }
            }
            (":workspace_roots" | ":project_roots" | ":cwd", access) => add("", access, &places.current)?,
            (special, _) if special.starts_with(':') || special == "glob_scan_max_depth" => {}
            (path, access) => match path.strip_prefix("~/") {
                Some(rest) => add(rest, access, &places.home)?,
                None if path.starts_with('/') => add(&path[1..], access, Path::new("/"))?,
                None => add(path, access, base)?,
            },
        }
    }
    Ok(())
}

/// File tools that are off altogether.
fn gemini(file: &Path, settings: &Value, found: &mut Vec<FileRule>) -> Result<(), RuleRefusal> {
    for (name, list) in
        [("tools.exclude", &settings["tools"]["exclude"]), ("excludeTools", &settings["excludeTools"])]
    {
        for text in read::texts(file, name, list)? {
            match text.as_str() {
                "write_file" | "WriteFileTool" => {
                    found.push(rule(file, format!("{name}: {text}"), Denies::Write, What::All));
                }
                "read_file" | "ReadFileTool" => {
                    found.push(rule(file, format!("{name}: {text}"), Denies::Read, What::All));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// `permission.edit` and `permission.read`, a word or by pattern, and `tools.write` or `tools.edit` that are off.
fn opencode(file: &Path, text: &str, found: &mut Vec<FileRule>) -> Result<(), RuleRefusal> {
    let settings = read::opencode_settings(file, text)?;
    for (name, denies) in [("edit", Denies::Write), ("read", Denies::Read)] {
        let mut rules = Vec::new();
        match &settings.permission {
            None => {}
            Some(Permission::Word(word)) => rules.push(("*".to_owned(), read::decision(file, word)?)),
            Some(Permission::Tools(tools)) => {
                let of = |exact: bool| {
                    let fits = move |tool: &str| {
                        (tool == name) == exact && matches_glob(tool.as_bytes(), name.as_bytes())
                    };
                    tools.0.iter().filter(move |(tool, _)| fits(tool))
                };
                // What is said of the tool itself counts for more than what is said of all.
                for (_, decisions) in of(false).chain(of(true)) {
                    rules.extend(decisions.rules(file)?);
                }
            }
        }
        if rules.iter().any(|(_, denies)| *denies) {
            found.push(rule(file, format!("permission.{name}"), denies, What::Ordered(rules)));
        }
    }
    for name in ["write", "edit", "patch", "read"] {
        if settings.tools.get(name) == Some(&Value::Bool(false)) {
            let denies = if name == "read" { Denies::Read } else { Denies::Write };
            found.push(rule(file, format!("tools.{name}"), denies, What::All));
        }
    }
    Ok(())
}

impl Found {
    fn add(&mut self, rule: &FileRule) -> Result<(), String> {
        match &rule.what {
            What::All if rule.denies == Denies::Read => self.unread = true,
            What::All => self.unwritten = true,
            What::Host(host) => match HostRule::parse(host) {
                Ok(host) => self.hosts.push(host),
                Err(_) => self.closes = true,
            },
            What::Below { base, pattern } => {
                for pattern in Pattern::all(base, pattern, &self.home)? {
                    self.take(rule.denies, &pattern)?;
                }
            }
            What::Ordered(rules) => self.take_ordered(rule.denies, rules)?,
        }
        Ok(())
    }
}
