//! What a sandbox may do: profiles, layers, merging, and the words for what was blocked.
//!
//! Invariant: pure. No I/O, no environment access, no clock: everything a decision needs is an argument, and the
//! same arguments give the same policy. Interfaces read files and flags; `sandbox` carries the policy out.

mod actions;
mod bound;
mod ceiling;
mod clause;
mod compat;
mod credentials;
mod environment;
mod import;
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
mod provider;
mod reasons;
mod runtime;
mod schema;
mod secrets;
mod show;
mod toolchains;
mod units;
mod validate;
mod whole;

pub use actions::{
    ActionFacts, ActionKind, ActionRule, ActionRules, ActionsFile, Asker, Asks, Finding, Glob, Judgement,
    Level, Reach, Ruling, Suspicion, Verdict, WordPattern, judge,
};
pub use bound::{Bound, Cpus};
pub use ceiling::{capped, capped_but_network};
pub use clause::ClauseError;
pub use compat::Compat;
pub use credentials::{MASKED, is_secret_name, masked_text, masked_variable, masked_words, secret_values};
pub use import::{Became, ImportError, ImportFrom, ImportPlaces, ImportRow, Imported, import};
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
pub use profiles::{ProfileError, profile, toolchain_variables};
pub use protected::{Protected, ProtectedKind, protected};
pub use provider::{ProviderName, ProviderNameError};
pub use reasons::{Blocked, Remedy, TomlRule, remedy, rule_layer};
pub use runtime::{RuntimeName, RuntimeNameError};
pub use schema::{actions_schema, json_schema};
pub use secrets::{Secret, secrets};
pub use show::Row;
pub use toolchains::{ToolchainDir, toolchains_for_path, usual_toolchains};
pub use units::{ByteSize, Span, UnitError};
pub use validate::LayerError;
