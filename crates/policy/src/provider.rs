//! What builds sandboxes, by name. Which of them a host has, and what each can hold, is the sandbox crate's to say; here are
//! the names, and which wall is taken for the stronger one.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nearest::nearest;

/// A provider, as a policy and `--provider` name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderName {
    /// This program itself, on the kernel's mechanisms.
    #[default]
    Native,
    /// Bubblewrap.
    Bwrap,
    /// A runtime for OCI bundles: crun or runc.
    Oci,
    /// gVisor's runsc.
    Gvisor,
    Docker,
    Microvm,
    /// The strongest that is here and can enforce the whole policy; never one below `native`.
    Auto,
}

/// A name that is none of theirs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no provider `{name}`{}", .nearest.map_or_else(String::new, |near| format!(", did you mean `{near}`?")))]
pub struct ProviderNameError {
    name: String,
    nearest: Option<&'static str>,
}

impl ProviderName {
    pub const ALL: [Self; 7] =
        [Self::Native, Self::Bwrap, Self::Oci, Self::Gvisor, Self::Docker, Self::Microvm, Self::Auto];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Oci => "oci",
            Self::Gvisor => "gvisor",
            Self::Docker => "docker",
            Self::Microvm => "microvm",
            Self::Auto => "auto",
        }
    }

    /// The published ranking: a machine of its own, a kernel of its own, then the host's kernel. Of those on the host's kernel
    /// `native` is first: it needs no other program to be right.
    pub const fn strength(self) -> u8 {
        match self {
            Self::Microvm => 4,
            Self::Gvisor => 3,
            // At least native, and what it picks may be more.
            Self::Auto => 2,
            Self::Native => 1,
            Self::Bwrap | Self::Oci | Self::Docker => 0,
        }
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ProviderName {
    type Err = ProviderNameError;

    fn from_str(name: &str) -> Result<Self, ProviderNameError> {
        let known = Self::ALL.into_iter().find(|provider| provider.as_str() == name);
        known.ok_or_else(|| ProviderNameError {
            name: name.chars().filter(|letter| !letter.is_control()).take(40).collect(),
            nearest: nearest(name, Self::ALL.iter().map(|provider| provider.as_str())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Origin, ProfileName, capped, loosens, merge};

    fn policy(text: &str) -> crate::Policy {
        let layer = Layer::from_toml(text).unwrap();
        merge(ProfileName::Moderate, &[(Origin::flag("one"), layer)]).unwrap().policy
    }

    fn loosening(before: &str, after: &str) -> bool {
        let found = loosens(&policy(before), &Layer::from_toml(after).unwrap());
        assert!(found.iter().all(|one| one.clause == "provider"));
        !found.is_empty()
    }

    #[test]
    fn every_name_is_read_back() {
        for name in ProviderName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            assert_eq!(policy(&format!("provider = '{name}'")).provider, name);
        }
        let error = "bwarp".parse::<ProviderName>().unwrap_err().to_string();
        assert_eq!(error, "there is no provider `bwarp`, did you mean `bwrap`?");
    }

    /// A project's file may ask for a stronger wall, never for a weaker one.
    #[test]
    fn a_weaker_wall_loosens() {
        assert!(loosening("", "provider = 'docker'"));
        assert!(loosening("provider = 'gvisor'", "provider = 'native'"));
        assert!(loosening("provider = 'auto'", "provider = 'native'"));
        assert!(!loosening("", "provider = 'native'"));
        assert!(!loosening("", "provider = 'microvm'"));
        assert!(!loosening("provider = 'bwrap'", "provider = 'bwrap'"));
        assert!(loosening("provider = 'bwrap'", "provider = 'docker'"), "as weak, but not what was chosen");
    }

    #[test]
    fn a_ceiling_is_the_wall_of_whoever_names_none() {
        let asked = |ceiling: &str, text: &str| {
            let layers = capped(&policy(ceiling), Layer::from_toml(text).unwrap()).ok()?;
            let layers = layers.map(|layer| (Origin::flag("request"), layer));
            Some(merge(ProfileName::Moderate, &layers).unwrap().policy.provider)
        };
        assert_eq!(asked("provider = 'gvisor'", ""), Some(ProviderName::Gvisor));
        assert_eq!(asked("provider = 'bwrap'", ""), Some(ProviderName::Bwrap));
        assert_eq!(asked("provider = 'bwrap'", "provider = 'native'"), Some(ProviderName::Native));
        assert_eq!(asked("provider = 'gvisor'", "provider = 'native'"), None);
        assert_eq!(asked("", "provider = 'docker'"), None);
    }
}
