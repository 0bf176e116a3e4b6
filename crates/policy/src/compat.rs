//! The defaults of other clients' own sandboxes, as layers: what a command may write and reach there, and which names are
//! kept from it. `native` is Ringfence's own, and adds nothing.
//!
//! A preset only says what that client says by default; flags and files over it still hold. docs/compat.md has the table.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layer::Layer;
use crate::model::{HostFiles, NetworkMode, Policy, ProfileName, Workspace};
use crate::nearest::nearest;
use crate::units::shown;

/// Whose defaults a sandbox has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compat {
    #[default]
    Native,
    ClaudeCode,
    Codex,
    Gemini,
}

impl Compat {
    pub const ALL: [Compat; 4] = [Self::Native, Self::ClaudeCode, Self::Codex, Self::Gemini];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// The client's defaults. Never more than that client gives: its `/tmp` is shared with the host, ours is not.
    pub fn layer(self) -> Layer {
        let mut layer = Layer::default();
        if self == Self::Native {
            return layer;
        }
        layer.profile = Some(ProfileName::Moderate);
        layer.filesystem.workspace = Some(Workspace::Current);
        layer.network.mode = Some(NetworkMode::Off);
        let (host, protect): (_, &[&str]) = match self {
            Self::ClaudeCode => (HostFiles::All, &[".gitmodules", ".ripgreprc"]),
            Self::Codex => (HostFiles::All, &crate::import::CODEX_PROTECTED),
            Self::Gemini | Self::Native => (HostFiles::System, &[]),
        };
        layer.filesystem.host = Some(host);
        layer.filesystem.protect = protect.iter().map(|name| (*name).to_owned()).collect();
        layer
    }

    /// The same beneath a ceiling: as with a profile, nobody asked for what is beyond it, and it is lowered in silence. Where
    /// the sandbox works is left to whoever makes it.
    pub fn layer_within(self, ceiling: &Policy) -> Layer {
        let mut layer = self.layer();
        layer.profile = layer.profile.map(|profile| profile.min(ceiling.profile));
        layer.filesystem.host = layer.filesystem.host.map(|host| host.min(ceiling.filesystem.host));
        layer.filesystem.workspace = None;
        layer
    }
}

impl fmt::Display for Compat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Compat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|compat| compat.as_str() == name).ok_or_else(|| {
            let near = nearest(name, Self::ALL.iter().map(|compat| compat.as_str()));
            let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            format!("`{}` is none of native, claude-code, codex and gemini{hint}", shown(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, loosens, merge};

    fn policy(compat: Compat) -> crate::Policy {
        merge(ProfileName::Moderate, &[(Origin::flag("--compat"), compat.layer())]).unwrap().policy
    }

    #[test]
    fn native_adds_nothing() {
        assert_eq!(Compat::Native.layer(), Layer::default());
    }

    #[test]
    fn no_client_has_more_than_a_ceiling() {
        for name in [ProfileName::Restrictive, ProfileName::Moderate, ProfileName::Permissive] {
            let ceiling = merge(name, &[]).unwrap().policy;
            for compat in Compat::ALL {
                let layer = compat.layer_within(&ceiling);
                assert_eq!(loosens(&ceiling, &layer), [], "{compat} within {name}");
                assert_eq!(layer.filesystem.protect, compat.layer().filesystem.protect);
            }
        }
    }

    #[test]
    fn each_client_clause_by_clause() {
        for (compat, host, protect) in [
            (Compat::ClaudeCode, HostFiles::All, &[".gitmodules", ".ripgreprc"][..]),
            (Compat::Codex, HostFiles::All, &[".agents/", ".codex/", ".git/"]),
            (Compat::Gemini, HostFiles::System, &[]),
        ] {
            let policy = policy(compat);
            assert_eq!(policy.filesystem.host, host, "{compat}");
            assert_eq!(policy.filesystem.workspace, Workspace::Current, "{compat}");
            assert_eq!(policy.filesystem.protect.iter().map(String::as_str).collect::<Vec<_>>(), protect);
            assert!(policy.filesystem.write.is_empty() && policy.filesystem.unprotect.is_empty(), "{compat}");
            assert_eq!(policy.network.mode, NetworkMode::Off, "{compat}");
            assert!(policy.waived.is_empty(), "{compat}");
            assert_eq!(compat.as_str().parse::<Compat>(), Ok(compat));
        }
        assert!("codeks".parse::<Compat>().unwrap_err().contains("did you mean `codex`"));
    }
}
