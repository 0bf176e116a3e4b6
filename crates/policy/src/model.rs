//! The resolved policy: what one sandbox may do, with every question answered.
//!
//! A `Policy` is made only by merging layers (profile < file < flags); providers read it and never change it.
//! Where two clauses meet, the closing one wins: `hide` over `read` and `write`, `deny` over `allow`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::network::{AddressRange, HostName, HostRule, HttpRule, SecretRule};
use crate::provider::ProviderName;
use crate::runtime::RuntimeName;
use crate::units::{ByteSize, Span};

/// The named policies, from the tightest to the loosest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    Restrictive,
    #[default]
    Moderate,
    Permissive,
}

/// What one sandbox may do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    pub profile: ProfileName,
    pub provider: ProviderName,
    /// The image whose system directories are shown. `None`: the host's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Which runtime it drives, where it has more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeName>,
    pub filesystem: Filesystem,
    pub network: Network,
    pub limits: Limits,
    pub syscalls: Syscalls,
    pub environment: Environment,
    pub identity: Identity,
    /// Clauses that the caller gave up by name; the receipt lists them.
    pub waived: BTreeSet<Clause>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filesystem {
    pub host: HostFiles,
    /// Show the toolchains that PATH reaches in the home directory; writes go to a throwaway layer.
    pub toolchains: bool,
    pub workspace: Workspace,
    /// Extra host paths, readable at their own path.
    #[serde(serialize_with = "lossy")]
    pub read: Vec<PathBuf>,
    /// Extra host paths, writable at their own path.
    #[serde(serialize_with = "lossy")]
    pub write: Vec<PathBuf>,
    /// Host paths that are shown empty even where another clause would show them.
    #[serde(serialize_with = "lossy")]
    pub hide: Vec<PathBuf>,
    /// Size of the private `/tmp`.
    pub tmp: ByteSize,
    /// Protected names of the workspace that the caller lifted.
    pub unprotect: BTreeSet<String>,
    /// More names of the workspace that the caller protects.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub protect: BTreeSet<String>,
}

/// A path that is not UTF-8 is printed with replacement characters; without this it would fail a whole receipt.
fn lossy<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// How much of the host's filesystem is there to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostFiles {
    /// System directories only.
    System,
    /// Everything but secrets.
    All,
}

/// The one directory that a sandbox may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Workspace {
    /// An empty directory that is gone at the end.
    Private,
    /// The directory the command was started in, the user's own files.
    Current,
    /// This directory, the user's own files.
    Path(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    pub mode: NetworkMode,
    pub allow: Vec<HostRule>,
    /// Wins over `allow` and over mode `open`.
    pub deny: Vec<HostRule>,
    /// Private addresses that granted names may lead to.
    pub private: Vec<AddressRange>,
    /// Ports of the caller's own loopback.
    pub local: BTreeSet<u16>,
    /// Names that TLS may be spoken to without a server name.
    pub no_sni: BTreeSet<HostName>,
    /// Rules that go by one name, `@name`.
    pub groups: BTreeMap<String, Vec<HostRule>>,
    pub http: Vec<HttpRule>,
    pub secrets: Vec<SecretRule>,
}

/// From the tightest to the loosest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    Off,
    Allow,
    Open,
}

/// `None` is "no limit".
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    pub cpus: Option<f64>,
    pub memory: Option<ByteSize>,
    pub processes: Option<u32>,
    /// Bytes in the private layers (HOME, a private workspace, throwaway layers).
    pub disk: Option<ByteSize>,
    pub open_files: Option<u32>,
    /// Bytes of captured output, each of stdout and stderr.
    pub output: Option<ByteSize>,
    pub wall_time: Option<Span>,
    /// Connections out at one time.
    pub connections: Option<u32>,
    /// Bytes a second over the network, in each direction.
    pub bandwidth: Option<ByteSize>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Syscalls {
    pub profile: SyscallProfile,
    pub allow: BTreeSet<String>,
    pub deny: BTreeSet<String>,
    /// Open the 32-bit and x32 entry points too.
    pub compat: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyscallProfile {
    /// The reviewed allowlist.
    Default,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Environment {
    pub set: BTreeMap<String, String>,
    /// Names taken from the caller's environment where they are set; a trailing `*` matches a prefix.
    pub pass: BTreeSet<String>,
    /// Names that are never passed, since they belong to a secret that stays outside. Wins over `pass`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub withhold: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Identity {
    /// The name in the sandbox's passwd entry. `None`: the caller's own (for root: `sandbox`).
    pub user: Option<String>,
    pub hostname: String,
    /// HOME is at the caller's own home path (moderate, permissive) or at `/home/<user>`.
    pub own_home_path: bool,
}

/// The clauses of a policy, by the name that receipts, `--waive` and `policy show` use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "&'static str")]
pub enum Clause {
    FilesystemHost,
    FilesystemToolchains,
    FilesystemWorkspace,
    FilesystemRead,
    FilesystemWrite,
    /// Skills and what they need: named by what is run, not by a policy.
    FilesystemAttached,
    FilesystemHide,
    FilesystemTmp,
    FilesystemProtected,
    FilesystemLandlock,
    Network,
    Processes,
    Ipc,
    Hostname,
    Cgroups,
    Devices,
    Proc,
    Capabilities,
    NoNewPrivs,
    Identity,
    Environment,
    Syscalls,
    LimitCpus,
    LimitMemory,
    LimitProcesses,
    LimitDisk,
    LimitOpenFiles,
    LimitOutput,
    LimitWallTime,
    LimitConnections,
    LimitBandwidth,
}
