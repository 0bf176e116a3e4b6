//! A secret that stays outside: where its value comes from, and towards which hosts it is used.
//!
//! Only the source is in a policy, never the value.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::host::Host;
use super::rule::{HostPattern, HostRule, HostRuleError};
use crate::units::shown;

/// Inside, the variable holds a placeholder; on the way to these hosts the value takes its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRule {
    /// The variable that holds the placeholder inside.
    pub name: String,
    /// Where the value comes from, outside.
    pub from: SecretSource,
    /// The hosts that get the value: names, with or without a port. They must be granted, too.
    pub hosts: Vec<HostRule>,
    /// Look for the placeholder in request bodies as well as in headers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub body: bool,
}

/// Where a secret's value comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretSource {
    /// `env:NAME`, the caller's variable.
    Env(String),
    /// `file:PATH`.
    File(PathBuf),
    /// `cmd:COMMAND`, run by a shell outside the sandbox; its output without the last line break.
    Command(String),
    /// `store:NAME`, set with `ringfence secret set`.
    Store(String),
}

/// Why a text is no secret rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretRuleError {
    // The text is not repeated here: somebody may have written the value itself.
    #[error(
        "a secret is written like NAME=env:VARIABLE@HOST, with file:PATH, cmd:COMMAND or store:NAME in the place of env:VARIABLE; the value itself is never written"
    )]
    Form,
    #[error("`{name}` is not a variable's name, use letters, digits and _, the first not a digit")]
    Name { name: String },
    #[error(
        "the source of a secret is env:VARIABLE, file:PATH, cmd:COMMAND or store:NAME; the value itself is never written"
    )]
    Source,
    #[error("secret `{name}` has no host to be used for, write it like {name}=env:{name}@api.example.com")]
    NoHost { name: String },
    #[error("secret `{name}`: {problem}")]
    Host { name: String, problem: HostRuleError },
    #[error(
        "secret `{name}`: `{rule}` is no host name; a secret goes only to names, whose certificates are checked"
    )]
    NotAName { name: String, rule: HostRule },
}

impl SecretRule {
    /// `NAME=SOURCE@HOST[,HOST…]`, and `+body` at the end to look into bodies, too.
    pub fn parse(text: &str) -> Result<Self, SecretRuleError> {
        let (name, rest) = text.split_once('=').ok_or(SecretRuleError::Form)?;
        if !is_variable(name) {
            return Err(SecretRuleError::Form);
        }
        // The last one: a path or a command may have others, a host none.
        let (from, hosts) =
            rest.rsplit_once('@').ok_or_else(|| SecretRuleError::NoHost { name: name.to_owned() })?;
        let (hosts, body) = match hosts.strip_suffix("+body") {
            Some(hosts) => (hosts, true),
            None => (hosts, false),
        };
        let host = |host: &str| {
            HostRule::parse(host).map_err(|problem| SecretRuleError::Host { name: name.to_owned(), problem })
        };
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(host).collect::<Result<_, _>>()?;
        let rule = Self { name: name.to_owned(), from: SecretSource::parse(from)?, hosts, body };
        rule.check()?;
        Ok(rule)
    }

    /// What the types can't say.
    pub(crate) fn check(&self) -> Result<(), SecretRuleError> {
        let name = || shown(&self.name);
        if !is_variable(&self.name) {
            return Err(SecretRuleError::Name { name: name() });
        }
        if self.hosts.is_empty() {
            return Err(SecretRuleError::NoHost { name: name() });
        }
        for rule in &self.hosts {
            match rule.pattern {
                HostPattern::Name(_) | HostPattern::Below(_) => {
                    rule.grantable().map_err(|problem| SecretRuleError::Host { name: name(), problem })?
                }
                HostPattern::Address(_) | HostPattern::Group(_) => {
                    return Err(SecretRuleError::NotAName { name: name(), rule: rule.clone() });
                }
            }
        }
        Ok(())
    }

    /// Is the secret used towards this host and port?
    pub fn is_for(&self, host: &Host, port: u16) -> bool {
        self.hosts.iter().any(|rule| rule.names(host) && rule.port.is_none_or(|known| known == port))
    }
}

impl SecretSource {
    pub fn parse(text: &str) -> Result<Self, SecretRuleError> {
        let (kind, value) = text.split_once(':').ok_or(SecretRuleError::Source)?;
        if value.is_empty() || value.contains('\0') {
            return Err(SecretRuleError::Source);
        }
        match kind {
            "env" if is_variable(value) => Ok(Self::Env(value.to_owned())),
            "file" => Ok(Self::File(PathBuf::from(value))),
            "cmd" => Ok(Self::Command(value.to_owned())),
            "store" if is_variable(value) => Ok(Self::Store(value.to_owned())),
            _ => Err(SecretRuleError::Source),
        }
    }
}

fn is_variable(name: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    matches!(name.len(), 1..=128) && name.bytes().all(fine) && !name.starts_with(|c: char| c.is_ascii_digit())
}

impl fmt::Display for SecretRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(HostRule::to_string).collect();
        write!(f, "{}={}@{}{}", self.name, self.from, hosts.join(","), if self.body { "+body" } else { "" })
    }
}

impl FromStr for SecretRule {
    type Err = SecretRuleError;

    fn from_str(text: &str) -> Result<Self, SecretRuleError> {
        Self::parse(text)
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Command(command) => write!(f, "cmd:{command}"),
            Self::Store(name) => write!(f, "store:{name}"),
        }
    }
}

impl FromStr for SecretSource {
    type Err = SecretRuleError;

    fn from_str(text: &str) -> Result<Self, SecretRuleError> {
        Self::parse(text)
    }
}

impl Serialize for SecretSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for SecretSource {
    fn schema_name() -> Cow<'static, str> {
        "SecretSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where the value comes from: \"env:VARIABLE\", \"file:PATH\", \"cmd:COMMAND\" or \
                            \"store:NAME\". Never the value itself.",
            "type": "string",
            "pattern": "^(env|file|cmd|store):."
        })
    }
}
