//! Reading a layer from TOML or JSON, and saying what is wrong with one that can't be read.
//!
//! A good file is read in one pass. Only after a failure is the text walked again, against the table of known
//! keys, to name the key, the line and the nearest key.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::layer::Layer;
use crate::nearest::nearest;
use crate::units::shown;
use crate::validate::LayerError;

/// A key and what it takes, in words.
type Key = (&'static str, &'static str);

/// Every key, by section; "" is the top. A test holds it to the JSON Schema.
const KEYS: &[(&str, &[Key])] = &[
    (
        "",
        &[
            ("profile", "\"restrictive\", \"moderate\" or \"permissive\""),
            ("provider", "\"native\", \"bwrap\", \"oci\", \"gvisor\", \"docker\", \"microvm\" or \"auto\""),
            ("image", "the name of an image, like \"python\""),
            ("runtime", "a name like \"crun\" or \"runc\""),
            ("waive", "a list of clause names"),
        ],
    ),
    (
        "filesystem",
        &[
            ("host", "\"system\" or \"all\""),
            ("toolchains", "true or false"),
            ("workspace", "\"private\", \"current\" or an absolute path"),
            ("read", "a list of paths"),
            ("write", "a list of paths"),
            ("hide", "a list of paths"),
            ("tmp", "a size like \"512M\""),
            ("unprotect", "a list of protected names"),
            ("protect", "a list of names in the workspace"),
        ],
    ),
    (
        "network",
        &[
            ("mode", "\"off\", \"allow\" or \"open\""),
            ("allow", "a list of hosts like \"example.org\" or \"*.example.org:443\""),
            ("deny", "a list of hosts like \"example.org\" or \"*.example.org:443\""),
            ("private", "a list of address ranges like \"10.0.0.0/8\""),
            ("local", "a list of ports"),
            ("no_sni", "a list of host names"),
            ("groups", "a table of names and lists of hosts"),
            ("http", "a list of tables with host, methods and paths"),
            ("secrets", "a list of tables with name, from, hosts and body"),
        ],
    ),
    (
        "limits",
        &[
            ("cpus", "a number like 1.5, or \"none\""),
            ("memory", "a size like \"512M\", or \"none\""),
            ("processes", "a whole number, or \"none\""),
            ("disk", "a size like \"512M\", or \"none\""),
            ("open_files", "a whole number, or \"none\""),
            ("output", "a size like \"1M\", or \"none\""),
            ("wall_time", "a time span like \"30s\", or \"none\""),
            ("connections", "a whole number, or \"none\""),
            ("bandwidth", "a size like \"1M\" (a second), or \"none\""),
        ],
    ),
    (
        "syscalls",
        &[
            ("profile", "\"default\""),
            ("allow", "a list of system call names"),
            ("deny", "a list of system call names"),
            ("compat", "true or false"),
        ],
    ),
    ("environment", &[("set", "a table of names and string values"), ("pass", "a list of variable names")]),
    ("identity", &[("user", "a user name"), ("hostname", "a host name")]),
];

impl Layer {
    /// Reads and checks a layer. The error names the key, the line and, for a misspelt key, the nearest one.
    pub fn from_toml(text: &str) -> Result<Self, LayerError> {
        match toml::from_str::<Layer>(text) {
            Ok(layer) => layer.checked(|key| toml_line(text, key)),
            Err(error) => Err(toml_error(text, &error)),
        }
    }

    /// The same for JSON. A `null` is refused: it could be read as "not set" or as "no limit".
    pub fn from_json(text: &str) -> Result<Self, LayerError> {
        let typed = serde_json::from_str::<Layer>(text);
        let tree = serde_json::from_str::<Value>(text);
        match (typed, tree) {
            (typed, Ok(tree)) => {
                let wrong = unknown_key(&tree).or_else(|| null_key(&tree)).or_else(|| wrong_type(&tree));
                match (wrong, typed) {
                    (Some(error), _) => Err(error.at_line(|key| json_line(text, key))),
                    (None, Ok(layer)) => layer.checked(|key| json_line(text, key)),
                    (None, Err(error)) => Err(json_error(&error)),
                }
            }
            (_, Err(error)) => Err(json_error(&error)),
        }
    }

    /// The layer as TOML, in the form that `from_toml` reads.
    pub fn to_toml(&self) -> Result<String, LayerError> {
        toml::to_string(self)
            .map_err(|e| LayerError::new("", format!("the policy can't be written as toml: {e}")))
    }

    fn checked(self, line: impl Fn(&str) -> Option<usize>) -> Result<Self, LayerError> {
        self.validate().map_err(|error| error.at_line(line))?;
        Ok(self)
    }
}

impl LayerError {
    fn at_line(mut self, line: impl Fn(&str) -> Option<usize>) -> Self {
        self.line = self.line.or_else(|| line(&self.key));
        self
    }
}

fn toml_error(text: &str, error: &toml::de::Error) -> LayerError {
    let tree = toml::from_str::<toml::Table>(text).ok().and_then(|table| serde_json::to_value(table).ok());
    let known = tree.and_then(|tree| unknown_key(&tree).or_else(|| wrong_type(&tree)));
    let line = error.span().map(|span| line_at(text, span.start));
    match known {
        Some(known) => LayerError { line: toml_line(text, &known.key).or(line), ..known },
        None => {
            let reason = format!("this is not valid toml: {}", shown(&error.message().replace('\n', ", ")));
            LayerError { key: String::new(), line, reason }
        }
    }
}

fn json_error(error: &serde_json::Error) -> LayerError {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let line = (error.line() > 0).then_some(error.line());
    LayerError {
        key: String::new(),
        line,
        reason: format!("this is not a valid json policy: {}", shown(message)),
    }
}

/// The first key that no policy has.
fn unknown_key(tree: &Value) -> Option<LayerError> {
    let sections = || KEYS.iter().map(|(section, _)| *section).filter(|section| !section.is_empty());
    for (name, value) in tree.as_object()? {
        if let Some((section, keys)) = KEYS.iter().find(|(section, _)| section == name && !section.is_empty())
        {
            for inner in value.as_object().into_iter().flat_map(|table| table.keys()) {
                if !keys.iter().any(|(key, _)| key == inner) {
                    let near = nearest(inner, keys.iter().map(|(key, _)| *key));
                    let near = near.map(|key| join(section, key)).or_else(|| elsewhere(inner));
                    return Some(unknown(&join(section, inner), near, keys.iter().map(|(key, _)| *key)));
                }
            }
        } else if !KEYS[0].1.iter().any(|(key, _)| key == name) {
            let top = || KEYS[0].1.iter().map(|(key, _)| *key).chain(sections());
            let near = nearest(name, top()).map(str::to_owned).or_else(|| elsewhere(name));
            return Some(unknown(name, near, top()));
        }
    }
    None
}

/// The full name of a key that was written in the wrong section.
fn elsewhere(name: &str) -> Option<String> {
    let mut homes = KEYS.iter().filter(|(_, keys)| keys.iter().any(|(key, _)| *key == name));
    let (section, _) = homes.next()?;
    homes.next().is_none().then(|| join(section, name))
}

fn unknown<'a>(key: &str, near: Option<String>, known: impl Iterator<Item = &'a str>) -> LayerError {
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys here are {}", known.collect::<Vec<_>>().join(", ")),
    };
    LayerError::new(key, format!("unknown key `{}`, {hint}", shown(key)))
}

/// The first key whose value is of the wrong type: each is read on its own, to see which one fails.
fn wrong_type(tree: &Value) -> Option<LayerError> {
    let Some(tree) = tree.as_object() else {
        return Some(LayerError::new(
            "",
            format!("a policy is a table of settings, not {}", shown(&tree.to_string())),
        ));
    };
    for (section, keys) in KEYS {
        let table = if section.is_empty() {
            tree
        } else {
            match tree.get(*section) {
                None => continue,
                Some(Value::Object(table)) => table,
                Some(other) => {
                    let reason =
                        format!("`{section}` must be a table of settings, not {}", shown(&other.to_string()));
                    return Some(LayerError::new(*section, reason));
                }
            }
        };
        for (key, takes) in *keys {
            let Some(value) = table.get(*key) else { continue };
            let alone = serde_json::json!({ *key: value });
            let alone = if section.is_empty() { alone } else { serde_json::json!({ *section: alone }) };
            if let Err(error) = serde_json::from_value::<Layer>(alone) {
                let path = join(section, key);
                let message = error.to_string();
                let generic = ["invalid type", "invalid value", "unknown variant", "invalid length"];
                let reason = if !generic.iter().any(|start| message.starts_with(start)) {
                    format!("`{path}`: {message}")
                } else if path == "network.secrets" {
                    // What was written here may be a secret.
                    format!("`{path}` must be {takes}")
                } else {
                    format!("`{path}` must be {takes}, not {}", shown(&value.to_string()))
                };
                return Some(LayerError::new(path, reason));
            }
        }
    }
    None
}

fn null_key(tree: &Value) -> Option<LayerError> {
    let null = |key: String| {
        let reason = format!("`{key}` is null, leave it out (or, for a limit, write \"none\")");
        LayerError::new(key, reason)
    };
    for (name, value) in tree.as_object()? {
        if value.is_null() {
            return Some(null(name.clone()));
        }
        let inner = value.as_object().into_iter().flatten().find(|(_, value)| value.is_null());
        if let Some((inner, _)) = inner {
            return Some(null(join(name, inner)));
        }
    }
    None
}

fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

/// The line of a key: `section.key`, or a key at the top (which may itself have dots in quotes).
fn toml_line(text: &str, path: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let find = |table: &DeTable<'_>, name: &str| {
        table.iter().find(|(key, _)| key.get_ref() == name).map(|(key, _)| key.span().start)
    };
    let nested = || {
        let (section, key) = path.split_once('.')?;
        let (_, value) = table.get_ref().iter().find(|(name, _)| name.get_ref() == section)?;
        match value.get_ref() {
            DeValue::Table(inner) => find(inner, key),
            _ => None,
        }
    };
    let offset = nested().or_else(|| find(table.get_ref(), path))?;
    Some(line_at(text, offset))
}

/// The line of a key, where the text has that key only once: JSON values carry no positions.
fn json_line(text: &str, path: &str) -> Option<usize> {
    let key = path.rsplit_once('.').map_or(path, |(_, key)| key);
    let quoted = format!("\"{key}\"");
    let mut found = text.match_indices(&quoted);
    let (offset, _) = found.next()?;
    found.next().is_none().then(|| line_at(text, offset))
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
