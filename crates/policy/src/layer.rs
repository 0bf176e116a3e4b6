//! A layer: the partial policy that a file or a set of flags spells out. Everything is optional.
//!
//! Invariant: no I/O, and paths are kept as written; the service resolves `~` and relative paths.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bound::{Bound, Cpus};
use crate::model::{Clause, HostFiles, NetworkMode, ProfileName, SyscallProfile, Workspace};
use crate::network::{AddressRange, HostName, HostRule, HttpRule, SecretRule};
use crate::provider::ProviderName;
use crate::runtime::RuntimeName;
use crate::units::{ByteSize, Span};

/// A Ringfence policy as written in `ringfence.toml`, `config.toml` or a `--policy` file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Layer {
    /// The named policy to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// What builds the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
    /// The image whose system directories are shown in place of the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Which runtime the provider drives: of `oci`, or one that Docker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeName>,
    /// Clauses to give up, by name. The receipt lists them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waive: Vec<Clause>,
    #[serde(skip_serializing_if = "is_default")]
    pub filesystem: FilesystemLayer,
    #[serde(skip_serializing_if = "is_default")]
    pub network: NetworkLayer,
    #[serde(skip_serializing_if = "is_default")]
    pub limits: LimitsLayer,
    #[serde(skip_serializing_if = "is_default")]
    pub syscalls: SyscallsLayer,
    #[serde(skip_serializing_if = "is_default")]
    pub environment: EnvironmentLayer,
    #[serde(skip_serializing_if = "is_default")]
    pub identity: IdentityLayer,
}

/// What the sandbox sees of the host's files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilesystemLayer {
    /// `system`: system directories only. `all`: everything but secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFiles>,
    /// Show the toolchains that PATH reaches in the home directory, without their credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolchains: Option<bool>,
    /// `private`, `current` or an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Extra host paths, readable at their own path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Extra host paths, writable at their own path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Host paths shown empty, also where another clause would show them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<PathBuf>,
    /// Size of the private /tmp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmp: Option<ByteSize>,
    /// Protected names of the workspace to leave writable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unprotect: Vec<String>,
    /// More names of the workspace to protect, relative to it; one that ends in `/` is a directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
}

/// What the sandbox may reach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkLayer {
    /// `off`: loopback only. `allow`: the hosts in `allow`. `open`: every public host but those in `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<NetworkMode>,
    /// Hosts that may be reached, on ports 80 and 443 or on the port written: "example.org", "*.example.org:443",
    /// "192.0.2.10:22". Turns mode `off` into `allow`, unless this or a later layer says `off`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<HostRule>,
    /// Hosts that may not be reached; wins over `allow` and over mode `open`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<HostRule>,
    /// Private addresses that granted names may lead to, as ranges: "10.0.0.0/8".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<AddressRange>,
    /// Ports of your own loopback that may be reached, at 127.0.0.1 and ::1. Turns mode `off` into `allow` as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<u16>,
    /// Names that TLS may be spoken to without a server name in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_sni: Vec<HostName>,
    /// Lists of hosts to name in `allow` and `deny`, as "@name".
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Vec<HostRule>>,
    /// Which requests a host takes. A host without a rule takes all; TLS to one with a rule is ended by egress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpRule>,
    /// Secrets that stay outside, and the hosts they are used for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretRule>,
}

/// How much the sandbox may use. Each is a value, or "none" for no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsLayer {
    /// Processors' worth of time: 1.5 is one and a half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Bound<Cpus>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bound<ByteSize>>,
    /// Processes and threads at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Bound<u32>>,
    /// Bytes written to private layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Bound<ByteSize>>,
    /// File descriptors of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<Bound<u32>>,
    /// Captured bytes, each of stdout and stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Bound<ByteSize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_time: Option<Bound<Span>>,
    /// Connections out at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Bound<u32>>,
    /// Bytes a second over the network, in each direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bound<ByteSize>>,
}

/// Which system calls may be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SyscallsLayer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<SyscallProfile>,
    /// System calls to open, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// System calls to close, by name; wins over `allow`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Open the 32-bit and x32 entry points too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compat: Option<bool>,
}

/// Which environment variables are there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentLayer {
    /// Variables with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Variables taken from the caller's environment; a trailing `*` matches a prefix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<String>,
}

/// Who the command is, inside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IdentityLayer {
    /// The name in the sandbox's passwd entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

impl NetworkLayer {
    /// A layer that grants something means it: mode `off` below it becomes `allow`, unless it says a mode itself.
    pub(crate) fn lifts(&self) -> bool {
        self.mode.is_none() && !(self.allow.is_empty() && self.local.is_empty())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
