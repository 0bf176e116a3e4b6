//! What a skill asks for beyond a profile, under the key `ringfence` of its metadata. Being asked for grants nothing.

use serde::Serialize;
use serde_json::{Map, Value};

use super::origin::Origin;
use super::system::Certainty;
use super::text::{is_plain, shown};
use crate::manifest::{Level, Manifest, Problem};

/// The `ringfence` key of a manifest's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wants {
    /// As written (`api.example.com:443`, `*.example.com`); what is a valid rule is for the policy to say.
    pub hosts: Vec<String>,
    /// Names of environment variables.
    pub env: Vec<String>,
    pub limits: WantedLimits,
}

/// Limits as written (`90s`, `2G`); what is a valid one is for the policy to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WantedLimits {
    pub time: Option<String>,
    pub memory: Option<String>,
    pub cpus: Option<String>,
    pub processes: Option<String>,
    pub disk: Option<String>,
}

/// A host that the skill asks for, or that a URL in one of its scripts names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededHost {
    pub host: String,
    pub certainty: Certainty,
    pub origin: Origin,
}

/// Read strictly: an unknown key or a value of the wrong kind is an error, and nothing of it is taken. A manifest without
/// the key wants nothing.
pub fn wants(manifest: &Manifest) -> Result<Wants, Vec<Problem>> {
    let Some(value) = manifest.metadata.get(KEY) else { return Ok(Wants::default()) };
    let mut reader = Reader::default();
    match value {
        Value::Object(table) => reader.table(table),
        _ => reader.problem("wants-type", format!("metadata.{KEY} must be a table of what the skill wants")),
    }
    if reader.problems.is_empty() { Ok(reader.wants) } else { Err(reader.problems) }
}

const KEY: &str = "ringfence";
const KEYS: [&str; 7] = ["cpus", "disk", "env", "hosts", "memory", "processes", "time"];
/// More hosts or variables are not something a person can judge.
const MOST: usize = 100;
/// No name of a host is longer than 253, with a port.
const LONGEST: usize = 260;

#[derive(Default)]
struct Reader {
    wants: Wants,
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, code: &'static str, message: String) {
        if self.problems.len() < MOST {
            self.problems.push(Problem { code, level: Level::Error, message, line: None });
        }
    }

    fn table(&mut self, table: &Map<String, Value>) {
        for (key, value) in table {
            match key.as_str() {
                "hosts" => self.wants.hosts = self.list(key, value),
                "env" => self.variables(value),
                "time" => self.wants.limits.time = self.limit(key, value),
                "memory" => self.wants.limits.memory = self.limit(key, value),
                "cpus" => self.wants.limits.cpus = self.limit(key, value),
                "processes" => self.wants.limits.processes = self.limit(key, value),
                "disk" => self.wants.limits.disk = self.limit(key, value),
                _ => {
                    let meant = nearest(key).map_or_else(
                        || format!("known are {}", KEYS.join(", ")),
                        |known| format!("did you mean `{known}`?"),
                    );
                    self.problem(
                        "wants-unknown-key",
                        format!("metadata.{KEY}.{}: unknown, {meant}", shown(key)),
                    );
                }
            }
        }
    }

    fn variables(&mut self, value: &Value) {
        let names = self.list("env", value);
        for name in &names {
            let right = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !right {
                let message = format!("metadata.{KEY}.env: `{}` is not a name of a variable", shown(name));
                self.problem("wants-env", message);
            }
        }
        self.wants.env = names;
    }

    /// A list of texts, or one with commas or blanks between them.
    fn list(&mut self, key: &str, value: &Value) -> Vec<String> {
        let mut list: Vec<String> = match value {
            Value::String(text) => {
                let parts = text.split(|c: char| c == ',' || c.is_whitespace());
                parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            Value::Array(list) if list.iter().all(Value::is_string) => {
                list.iter().filter_map(Value::as_str).map(|text| text.trim().to_owned()).collect()
            }
            _ => {
                self.problem("wants-type", format!("metadata.{KEY}.{key}: must be a list of texts"));
                return Vec::new();
            }
        };
        let wrong = |text: &String| {
            text.is_empty() || text.len() > LONGEST || !is_plain(text) || text.contains(char::is_whitespace)
        };
        if let Some(text) = list.iter().find(|text| wrong(text)) {
            self.problem("wants-value", format!("metadata.{KEY}.{key}: `{}` can't be one", shown(text)));
        }
        if list.len() > MOST {
            self.problem("wants-too-many", format!("metadata.{KEY}.{key}: more than {MOST}"));
        }
        list.sort_unstable();
        list.dedup();
        list
    }

    /// A number, or a number with a unit.
    fn limit(&mut self, key: &str, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let right = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
        if !right {
            let message =
                format!("metadata.{KEY}.{key}: must be a number with or without a unit, like 90s or 2G");
            self.problem("wants-limit", message);
        }
        right.then_some(text)
    }
}

/// The known key that a misspelt one was most likely meant to be.
fn nearest(key: &str) -> Option<&'static str> {
    // Other words for the same.
    const ALSO: [(&str, &str); 7] = [
        ("domains", "hosts"),
        ("network", "hosts"),
        ("environment", "env"),
        ("variables", "env"),
        ("secrets", "env"),
        ("timeout", "time"),
        ("ram", "memory"),
    ];
    // A very long name is no typo, and the distance costs its length squared.
    if key.len() > 64 {
        return None;
    }
    let lower = key.to_lowercase();
    if let Some((_, known)) = ALSO.iter().find(|(other, _)| *other == lower) {
        return Some(known);
    }
    let allowed = (lower.chars().count() / 3).max(1);
    KEYS.into_iter()
        .map(|known| (strsim::damerau_levenshtein(&lower, known), known))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
#[path = "wants_tests.rs"]
mod tests;
