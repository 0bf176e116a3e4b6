//! What egress is told before it starts. No secret's value is in here: egress fetches those itself.

use ringfence_policy::{Network, SecretSource};

/// One secret that stays outside: what stands for it inside, and where the value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSetup {
    /// The variable's name, for messages.
    pub name: String,
    /// What the sandbox sees instead.
    pub placeholder: String,
    pub from: SecretSource,
    /// Index into `Network::secrets`, for hosts and the body switch.
    pub rule: usize,
}

/// The user's own proxies, as their environment names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    /// For plain HTTP, for everything else, and for whatever the two leave open; URLs.
    pub http: Option<String>,
    pub https: Option<String>,
    pub all: Option<String>,
    /// NO_PROXY as it is written.
    pub except: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub network: Network,
    pub secrets: Vec<SecretSetup>,
    pub upstream: Upstream,
    /// Connections at one time.
    pub connections: Option<u32>,
    /// Bytes a second, in each direction.
    pub bandwidth: Option<u64>,
    /// Give every valid name an address, so that the owner sees which ports are tried; grants nothing.
    pub learn: bool,
    /// The unused id to become, where the caller is root.
    pub become_id: Option<u32>,
    /// Where `ringfence secret` keeps its values.
    pub secret_store: std::path::PathBuf,
    /// Directories that the sandbox may write: no program for a secret's command is taken from there.
    pub written: Vec<std::path::PathBuf>,
}

/// Why egress can't start; becomes `Event::Failed`. Never holds a secret's value.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {what}: {why}; {fix}")]
pub(crate) struct StartError {
    /// What could not be done: the words after "cannot".
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) fix: String,
}
