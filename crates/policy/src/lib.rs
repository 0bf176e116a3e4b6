//! What a sandbox may do: profiles, layers, merging, and the words for what was blocked.
//!
//! Invariant: pure. No I/O, no environment access, no clock: everything a decision needs is an argument, and the
//! same arguments give the same policy. Interfaces read files and flags; `sandbox` carries the policy out.

mod bound;
mod ceiling;
mod clause;
mod environment;
mod layer;
mod loosen;
mod merge;
mod model;
mod nearest;
mod network;
mod origin;
mod parse;
mod profiles;
mod protected;
mod reasons;
mod schema;
mod secrets;
mod show;
mod toolchains;
mod units;
mod validate;
mod whole;

pub use bound::{Bound, Cpus};
pub use ceiling::capped;
pub use clause::ClauseError;
pub use layer::{
    EnvironmentLayer, FilesystemLayer, IdentityLayer, Layer, LimitsLayer, NetworkLayer, SyscallsLayer,
};
pub use loosen::{Loosening, loosens, project_loosens};
pub use merge::{MergeError, Merged, merge};
pub use model::{
    Clause, Environment, Filesystem, HostFiles, Identity, Limits, Network, NetworkMode, Policy, ProfileName,
    SyscallProfile, Syscalls, Workspace,
};
pub use network::{
    AddressClass, AddressRange, AddressRangeError, DEFAULT_PORTS, Granted, GrantedPorts, Host, HostError,
    HostName, HostNameError, HostPattern, HostRule, HostRuleError, HttpRule, NetworkReason, NetworkRules,
    SecretRule, SecretRuleError, SecretSource, address_class,
};
pub use origin::{Origin, Origins};
pub use profiles::{ProfileError, profile};
pub use protected::{Protected, ProtectedKind, protected};
pub use reasons::{Blocked, Remedy, TomlRule, remedy, rule_layer};
pub use schema::json_schema;
pub use secrets::{Secret, secrets};
pub use show::Row;
pub use toolchains::{ToolchainDir, toolchains_for_path, usual_toolchains};
pub use units::{ByteSize, Span, UnitError};
pub use validate::LayerError;
