//! What a worker is told, and what it tells.

use std::path::PathBuf;
use std::time::Duration;

use ringfence_policy::{Compat, Layer};
use serde::{Deserialize, Serialize};

use crate::client_rules::FileRules;
use crate::error::ServiceError;

#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    Run(Box<RunOrder>),
    /// Make a sandbox ahead, say so, and take one `Run` for it.
    Ready(Box<ReadyOrder>),
    Create(Box<CreateOrder>),
    Fork(Box<ForkOrder>),
}

/// What every sandbox that is made for somebody else has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SandboxOrder {
    /// The user of the server that it is for.
    pub tenant: Option<String>,
    /// In order, the last one the strongest. They are the whole policy: no file of this machine adds to it. With `own`,
    /// what is asked for beneath that.
    pub layers: Vec<Layer>,
    /// For the user of this process, in their own directory and under their own policy. There is no tenant then.
    #[serde(default)]
    pub own: Option<OwnPolicy>,
    /// With `own`: whose defaults to begin from, as far as that allows.
    #[serde(default)]
    pub compat: Option<Compat>,
    /// With `own`: its user was asked, and allows the network of these layers beyond it.
    #[serde(default)]
    pub granted: bool,
    /// Bytes that all of the tenant's workspaces and snapshots may hold: what runs is ended beyond them.
    pub disk: Option<u64>,
    /// Without one, the workspace goes with the sandbox.
    pub workspace: Option<String>,
    /// Written to the workspace first.
    pub files: Vec<FileOrder>,
    /// Empty for a session.
    pub argv: Vec<String>,
    pub directory: Option<PathBuf>,
    /// Show the library at `/skills`.
    pub skills: bool,
    /// These domains of it; all of them without.
    pub domains: Option<Vec<String>>,
    pub trace: bool,
    pub strict: bool,
}

/// What a user said about the policy of their own sandboxes, as `ringfence run` takes it. Their files of policy and the
/// project's are read by the worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OwnPolicy {
    pub file: Option<PathBuf>,
    /// Each with the flag that it came by.
    pub flags: Vec<(String, Layer)>,
    /// Package clients whose registries are granted, by name.
    pub registries: Vec<String>,
    /// A client started it, and a project's settings may have set the variables: they may only tighten.
    #[serde(default)]
    pub variables_tighten: bool,
    /// What they deny their client's own file tools.
    #[serde(default)]
    pub files: Option<FileRules>,
}

/// A file to be written to the workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileOrder {
    /// Relative to the workspace.
    pub path: String,
    #[serde(with = "as_base64")]
    pub content: Vec<u8>,
    pub mode: u32,
}

/// One command, with the job's stdio.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RunOrder {
    pub sandbox: SandboxOrder,
    /// In place of a command.
    pub skill: Option<SkillOrder>,
}

/// A script of a skill of the library.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SkillOrder {
    pub domain: String,
    pub name: String,
    /// Without one: the only one that it has.
    pub script: Option<String>,
    pub args: Vec<String>,
    /// The version that was looked at: no other is run.
    pub version: Option<String>,
}

/// A sandbox for runs to come.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ReadyOrder {
    pub sandbox: SandboxOrder,
    /// They have a workspace or skills, which are attached then.
    pub open: bool,
}

impl ReadyOrder {
    /// For runs like this one: without what each brings itself.
    pub fn like(run: &RunOrder) -> Self {
        let SandboxOrder { layers, workspace, skills, trace, strict, .. } = &run.sandbox;
        let mut layers = layers.clone();
        for layer in &mut layers {
            layer.environment = Default::default();
            layer.limits.wall_time = None;
        }
        Self {
            open: workspace.is_some() || *skills,
            sandbox: SandboxOrder { layers, trace: *trace, strict: *strict, ..SandboxOrder::default() },
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreateOrder {
    pub sandbox: SandboxOrder,
    pub name: String,
    pub ttl: Option<Duration>,
    pub idle: Option<Duration>,
    pub overlay: bool,
    /// What to show as what it was made with.
    pub asked: Vec<String>,
}

/// Sandboxes that begin where another one, or a snapshot, is.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForkOrder {
    pub tenant: String,
    pub from: String,
    pub wanted: Vec<CreateOrder>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// A [`RunFacts`](crate::RunFacts); of a skill with `skill` beside them.
    Ran {
        facts: serde_json::Value,
    },
    Created(CreateReport),
    Forked(Vec<CreateReport>),
    Refused {
        error: ServiceError,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CreateReport {
    pub warnings: Vec<String>,
    pub notes: Vec<String>,
}

mod as_base64 {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
