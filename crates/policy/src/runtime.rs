//! The runtime that a provider drives, by name: `oci` has some, Docker has those that are registered with it. Which of them is
//! there is the provider's to say; here is only what can be a name.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

const LONGEST: usize = 64;

/// A runtime, as a policy and `--runtime` name it: letters, digits, `.`, `_` and `-`, a letter or digit first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RuntimeName(String);

/// What can't be the name of a runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can't be the name of a runtime: letters, digits, `.`, `_` and `-`, a letter or digit first, 64 at most"
)]
pub struct RuntimeNameError(String);

impl RuntimeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuntimeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RuntimeName {
    type Err = RuntimeNameError;

    fn from_str(name: &str) -> Result<Self, RuntimeNameError> {
        let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
        let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
        if begins && name.len() <= LONGEST && name.chars().all(fits) {
            return Ok(Self(name.to_owned()));
        }
        Err(RuntimeNameError(name.chars().filter(|letter| !letter.is_control()).take(40).collect()))
    }
}

impl TryFrom<String> for RuntimeName {
    type Error = RuntimeNameError;

    fn try_from(name: String) -> Result<Self, RuntimeNameError> {
        name.parse()
    }
}

impl From<RuntimeName> for String {
    fn from(name: RuntimeName) -> Self {
        name.0
    }
}

impl JsonSchema for RuntimeName {
    fn schema_name() -> Cow<'static, str> {
        "RuntimeName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A runtime of the provider, like \"crun\" or \"runc\".",
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Origin, Policy, ProfileName, capped, loosens, merge};

    fn policy(text: &str) -> Policy {
        let layer = Layer::from_toml(text).unwrap();
        merge(ProfileName::Moderate, &[(Origin::flag("one"), layer)]).unwrap().policy
    }

    #[test]
    fn names_are_names() {
        for name in ["crun", "runc", "kata-runtime", "io.containerd.runc.v2", "R2_d2"] {
            assert_eq!(name.parse::<RuntimeName>().unwrap().as_str(), name);
        }
        let long = "a".repeat(65);
        for name in ["", "-x", ".x", "a/b", "../runc", "a b", "a\n", "ä", long.as_str()] {
            assert!(name.parse::<RuntimeName>().is_err(), "{name:?}");
        }
        let told = Layer::from_toml("runtime = '../evil'").unwrap_err().to_string();
        assert!(told.contains("can't be the name of a runtime"), "{told}");
    }

    /// Which of two runtimes is the weaker wall is not known here: whatever was not chosen loosens.
    #[test]
    fn another_one_loosens() {
        let loosening = |before: &str, after: &str| {
            let found = loosens(&policy(before), &Layer::from_toml(after).unwrap());
            assert!(found.iter().all(|one| one.clause == "runtime"));
            !found.is_empty()
        };
        assert!(loosening("", "runtime = 'runc'"));
        assert!(loosening("runtime = 'runsc'", "runtime = 'runc'"));
        assert!(!loosening("runtime = 'runc'", "runtime = 'runc'"));
        assert!(!loosening("runtime = 'runc'", ""));
    }

    #[test]
    fn a_ceiling_has_the_runtime_of_whoever_names_none() {
        let asked = |ceiling: &str, text: &str| {
            let layers = capped(&policy(ceiling), Layer::from_toml(text).unwrap()).ok()?;
            let layers = layers.map(|layer| (Origin::flag("request"), layer));
            Some(merge(ProfileName::Moderate, &layers).unwrap().policy.runtime.map(String::from))
        };
        assert_eq!(asked("runtime = 'runsc'", ""), Some(Some("runsc".into())));
        assert_eq!(asked("runtime = 'runsc'", "runtime = 'runsc'"), Some(Some("runsc".into())));
        assert_eq!(asked("runtime = 'runsc'", "runtime = 'runc'"), None);
        assert_eq!(asked("", "runtime = 'runc'"), None);
        assert_eq!(asked("", ""), Some(None));
    }
}
