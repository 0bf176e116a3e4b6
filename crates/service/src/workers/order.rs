//! What a worker is told, and what it tells.

use std::path::PathBuf;
use std::time::Duration;

use ringfence_policy::Layer;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;

#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    Run(Box<RunOrder>),
    Create(Box<CreateOrder>),
}

/// What every sandbox that is made for somebody else has.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SandboxOrder {
    /// In order, the last one the strongest. They are the whole policy: no file of this machine adds to it.
    pub layers: Vec<Layer>,
    /// Without one, the workspace goes with the sandbox.
    pub workspace: Option<String>,
    /// Written to the workspace first.
    pub files: Vec<FileOrder>,
    /// Empty for a session.
    pub argv: Vec<String>,
    pub directory: Option<PathBuf>,
    /// Show the library at `/skills`.
    pub skills: bool,
    pub trace: bool,
    pub strict: bool,
}

/// A file to be written to the workspace.
#[derive(Debug, Serialize, Deserialize)]
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

#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// A [`RunFacts`](crate::RunFacts).
    Ran {
        facts: serde_json::Value,
    },
    Created(CreateReport),
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
