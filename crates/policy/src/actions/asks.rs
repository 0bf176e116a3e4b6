//! What an action asks for, as facts.

use std::path::PathBuf;

use crate::actions::{ActionKind, Level};
use crate::model::{Clause, HostFiles, NetworkMode, Policy, ProfileName};
use crate::network::{HostPattern, HostRule, SecretRule};
use crate::profiles::profile;

/// All that a level is computed from. `Asks::default()` asks for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asks {
    /// None where no sandbox is made.
    pub profile: Option<ProfileName>,
    pub waived: Vec<Clause>,
    /// Host paths beside the workspace.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub all_host_files: bool,
    /// Protected names that are to be writable.
    pub unprotect: Vec<String>,
    /// Every public host.
    pub any_host: bool,
    /// With groups written out.
    pub hosts: Vec<HostRule>,
    /// Private address ranges and ports of the host's own loopback.
    pub private: Vec<String>,
    pub secrets: Vec<SecretRule>,
    /// System calls beyond the reviewed list.
    pub syscalls: Vec<String>,
    /// Variables taken from whoever makes the sandbox, beyond those of the profile.
    pub passed: Vec<String>,
    pub reach: Reach,
    /// Of the lint of a skill.
    pub findings: Vec<Finding>,
    pub suspicions: Vec<Suspicion>,
    pub asker: Asker,
}

/// How much a destructive operation takes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    #[default]
    One,
    /// A directory with all that is in it.
    Tree,
}

/// One thing that lint has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// `prompt-injection in SKILL.md:3`.
    pub what: String,
}

/// Text that looks like instructions to a model, or hides something from its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// `the command`, `the file data/in.txt`.
    pub place: String,
    pub what: String,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Asker {
    /// For what is theirs.
    #[default]
    Owner,
    /// Whoever reached a server without authentication.
    Anybody,
    /// An admin, for what belongs to this user.
    For(String),
}

impl Asks {
    /// The kinds that rules may name beside that of the action itself.
    pub fn brings(&self) -> &'static [ActionKind] {
        let closed = self.hosts.is_empty() && self.private.is_empty() && !self.any_host;
        if closed { &[] } else { &[ActionKind::EgressGrant] }
    }

    /// What a sandbox with this policy is given.
    pub fn of(policy: &Policy) -> Self {
        let network = &policy.network;
        let hosts = network.allow.iter().flat_map(|rule| match &rule.pattern {
            HostPattern::Group(name) => network.groups.get(name).map_or(&[][..], Vec::as_slice),
            _ => std::slice::from_ref(rule),
        });
        let reached = network.mode != NetworkMode::Off;
        let local = network.local.iter().map(|port| format!("loopback port {port}"));
        let usual = profile(policy.profile).environment.pass;
        Self {
            profile: Some(policy.profile),
            waived: policy.waived.iter().copied().collect(),
            read: policy.filesystem.read.clone(),
            write: policy.filesystem.write.clone(),
            all_host_files: policy.filesystem.host == HostFiles::All,
            unprotect: policy.filesystem.unprotect.iter().cloned().collect(),
            any_host: network.mode == NetworkMode::Open,
            hosts: hosts.filter(|_| reached).cloned().collect(),
            private: network
                .private
                .iter()
                .map(ToString::to_string)
                .chain(local)
                .filter(|_| reached)
                .collect(),
            secrets: network.secrets.clone(),
            syscalls: policy
                .syscalls
                .allow
                .iter()
                .cloned()
                .chain(policy.syscalls.compat.then(|| "32-bit entry points".to_owned()))
                .collect(),
            passed: policy.environment.pass.difference(&usual).cloned().collect(),
            ..Self::default()
        }
    }
}
