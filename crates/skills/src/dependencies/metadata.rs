//! What the manifest itself says its scripts need: `metadata.<client>.requires`, `metadata.requires`, `dependencies`, in
//! the forms that public skills have.

use serde_json::{Map, Value};

use super::origin::{Origin, Remarks};
use super::python::{VersionRange, is_surely_a_package};
use super::system::{Certainty, NeededBinary, NeededVariable, Presence, programs, variables};
use super::text::shown;
use crate::manifest::Manifest;

/// More of any are not read.
const MOST: usize = 200;

/// Everything declared in the frontmatter.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// The key and the text of each requirement; not checked yet.
    pub(super) python: Vec<(String, String)>,
    pub(super) requires_python: Option<VersionRange>,
    /// The key and the text (`name@version`) of each package; not checked yet.
    pub(super) node: Vec<(String, String)>,
    pub(super) binaries: Vec<NeededBinary>,
    pub(super) variables: Vec<NeededVariable>,
}

/// Read `metadata`, and the keys beside it that clients take for the same.
pub(super) fn read(manifest: &Manifest, remarks: &mut Remarks) -> Metadata {
    let mut reader = Reader { found: Metadata::default(), remarks };
    reader.table("metadata", &manifest.metadata);
    for (client, value) in manifest.metadata.iter().take(MOST) {
        // Ours is for `wants`, which is strict about it.
        if client != "ringfence"
            && let Some(table) = value.as_object()
            && !KEYS.contains(&client.as_str())
        {
            reader.table(&format!("metadata.{}", shown(client)), table);
        }
    }
    reader.table("", &manifest.extra);
    if let Some(words) = &manifest.compatibility {
        reader.remarks.note(format!("compatibility: {}", shown(words)));
    }
    reader.found
}

const KEYS: &[&str] = &["requires", "dependencies", "requirements", "install", "primaryEnv", "env"];

struct Reader<'a> {
    found: Metadata,
    remarks: &'a mut Remarks,
}

impl Reader<'_> {
    fn table(&mut self, at: &str, table: &Map<String, Value>) {
        let key = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        for name in ["requires", "dependencies", "requirements"] {
            match table.get(name) {
                Some(Value::Object(requires)) => self.requires(&key(name), requires),
                Some(list) => self.mixed(&key(name), list),
                None => {}
            }
        }
        if let Some(name) = table.get("primaryEnv").and_then(Value::as_str) {
            self.variable(&key("primaryEnv"), name);
        }
        if let Some(list) = table.get("install").and_then(Value::as_array) {
            for entry in list.iter().take(MOST).filter_map(Value::as_object) {
                self.install(&key("install"), entry);
            }
        }
    }

    /// `requires: {bins: […], anyBins: […], env: […], config: […]}`, and lists of packages by language.
    fn requires(&mut self, at: &str, requires: &Map<String, Value>) {
        for (name, value) in requires.iter().take(MOST) {
            let key = format!("{at}.{}", shown(name));
            match name.as_str() {
                "bins" | "binaries" | "commands" | "tools" | "bin" => {
                    for name in texts(value) {
                        self.binary(&key, &[name]);
                    }
                }
                "anyBins" | "any_bins" | "any-bins" => self.binary(&key, &texts(value)),
                "env" | "environment" | "envVars" | "env_vars" => {
                    for name in texts(value) {
                        self.variable(&key, &name);
                    }
                }
                "python" if value.is_string() => self.python_version(&key, &texts(value).join(",")),
                "python" | "pip" | "packages" | "python_packages" | "python-packages" | "pypi" => {
                    for text in texts(value) {
                        self.package(&key, text);
                    }
                }
                "node" if value.is_string() => {}
                "npm" | "node" | "node_packages" => {
                    self.found.node.extend(texts(value).into_iter().map(|text| (key.clone(), text)));
                }
                "config" => {
                    let list = texts(value).join(", ");
                    self.remarks.note(format!("{key}: settings of another client: {}", shown(&list)));
                }
                _ => self.remarks.note(format!("{key}: not understood: {}", shown(&value.to_string()))),
            }
        }
    }

    /// A list of whatever: programs that are known, versions of Python, packages.
    fn mixed(&mut self, key: &str, list: &Value) {
        for text in texts(list) {
            let name =
                text.find(|c: char| !programs::is_name(c.encode_utf8(&mut [0; 4])) && !"-_.".contains(c));
            let (name, version) = text.split_at(name.unwrap_or(text.len()));
            match name.to_ascii_lowercase().as_str() {
                "python" | "python3" if version.trim().is_empty() => {}
                "python" | "python3" => self.python_version(key, version),
                "node" | "nodejs" | "npm" => {}
                name if version.is_empty() && programs::known(name).is_some() && !is_also_package(name) => {
                    self.binary(key, &[name.to_owned()]);
                }
                _ if is_surely_a_package(&text) => self.package(key, text),
                _ => self.remarks.note(format!("{key}: not understood: {}", shown(&text))),
            }
        }
    }

    fn python_version(&mut self, key: &str, text: &str) {
        let text = text.trim().trim_end_matches('+');
        let text = if text.starts_with(|c: char| c.is_ascii_digit()) { &format!(">={text}") } else { text };
        match VersionRange::parse(text) {
            Ok(range) => self.found.requires_python = Some(range),
            Err(error) => self.remarks.note(format!("{key}: {error}")),
        }
    }

    fn package(&mut self, key: &str, text: String) {
        if self.found.python.len() < MOST {
            self.found.python.push((key.to_owned(), text));
        }
    }

    fn binary(&mut self, key: &str, any_of: &[String]) {
        let any_of: Vec<String> = any_of.iter().filter(|name| programs::is_name(name)).cloned().collect();
        if any_of.is_empty() || self.found.binaries.len() >= MOST {
            return;
        }
        let origin = Origin::Manifest { key: key.to_owned() };
        self.found.binaries.push(NeededBinary { any_of, certainty: Certainty::Declared, hint: None, origin });
    }

    fn variable(&mut self, key: &str, name: &str) {
        if !variables::is_name(name) || self.found.variables.len() >= MOST {
            return;
        }
        self.found.variables.push(NeededVariable {
            name: name.to_owned(),
            presence: Presence::Required,
            secret: variables::is_secret(name),
            origin: Origin::Manifest { key: key.to_owned() },
        });
    }

    /// `{kind: brew, formula: ffmpeg, bins: [ffmpeg]}`: a hint for a program, or a package.
    fn install(&mut self, key: &str, entry: &Map<String, Value>) {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let kind = text("kind").unwrap_or("unknown");
        let Some(what) = ["formula", "package", "module", "cask", "url"].iter().find_map(|name| text(name))
        else {
            return;
        };
        if kind == "pip" {
            return self.package(key, what.to_owned());
        }
        let hint = shown(&format!("{kind}: {what}"));
        let provides = entry.get("bins").map(texts).unwrap_or_default();
        for binary in &mut self.found.binaries {
            if binary.hint.is_none() && binary.any_of.iter().any(|name| provides.contains(name)) {
                binary.hint = Some(hint.clone());
            }
        }
    }
}

/// Programs whose name in a list of dependencies means the Python package.
fn is_also_package(name: &str) -> bool {
    matches!(
        name,
        "yt-dlp"
            | "playwright"
            | "duckdb"
            | "pytest"
            | "black"
            | "ruff"
            | "mypy"
            | "whisper"
            | "ollama"
            | "stripe"
    )
}

/// A list of strings, or one string with commas between them.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            let mut list: Vec<String> = Vec::new();
            for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()).take(MOST) {
                match list.last_mut() {
                    // `a>=1,<2` is one.
                    Some(last) if part.starts_with(['<', '>', '=', '!', '~']) => {
                        *last = format!("{last},{part}")
                    }
                    _ => list.push(part.to_owned()),
                }
            }
            list
        }
        Value::Array(list) => list
            .iter()
            .take(MOST)
            .filter_map(|one| one.as_str().or_else(|| one.get("name").and_then(Value::as_str)))
            .map(|text| text.trim().to_owned())
            .collect(),
        _ => Vec::new(),
    }
}
