//! The three named policies, as Rust data: they are on the launch path, so nothing is parsed at run time.
//!
//! Invariant: `restrictive` gives no more than `moderate`, and `moderate` no more than `permissive`, in every
//! clause. The trust rule for project files stands on it, and a test checks it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::model::{
    Environment, Filesystem, HostFiles, Identity, Limits, Network, NetworkMode, Policy, ProfileName,
    SyscallProfile, Syscalls, Workspace,
};
use crate::nearest::nearest;
use crate::provider::ProviderName;
use crate::units::{ByteSize, Span, shown};

/// Variables that every profile passes: how to find programs, and how to speak to this user's terminal.
/// None of them can hold a secret.
const PASS_BASE: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "TZ",
    "CI",
];

/// What moderate and permissive pass as well: where a toolchain lives and how a build behaves. Left out on
/// purpose: proxies (`HTTP_PROXY` often holds a password), registries (`PIP_INDEX_URL`, `GOPROXY`: the same),
/// anything named TOKEN, KEY or SECRET, agent sockets (`SSH_AUTH_SOCK`), and loader variables (`LD_PRELOAD`).
const PASS_TOOLCHAINS: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "NVM_DIR",
    "NVM_BIN",
    "VOLTA_HOME",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "SDKMAN_DIR",
    "RBENV_ROOT",
    "BUN_INSTALL",
    "PNPM_HOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "RUST_BACKTRACE",
    "SOURCE_DATE_EPOCH",
];

/// Variables of a caller that say where their toolchains are.
pub fn toolchain_variables() -> &'static [&'static str] {
    PASS_TOOLCHAINS
}

impl ProfileName {
    /// From the tightest to the loosest.
    pub const ALL: [ProfileName; 3] =
        [ProfileName::Restrictive, ProfileName::Moderate, ProfileName::Permissive];

    pub const fn as_str(self) -> &'static str {
        match self {
            ProfileName::Restrictive => "restrictive",
            ProfileName::Moderate => "moderate",
            ProfileName::Permissive => "permissive",
        }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A profile name that is none of the three.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile `{name}`, {}", .nearest.map_or_else(
    || "the profiles are restrictive, moderate and permissive".to_owned(),
    |n| format!("did you mean `{n}`?")
))]
pub struct ProfileError {
    pub name: String,
    pub nearest: Option<&'static str>,
}

impl FromStr for ProfileName {
    type Err = ProfileError;

    fn from_str(name: &str) -> Result<Self, ProfileError> {
        Self::ALL.into_iter().find(|p| p.as_str() == name).ok_or_else(|| ProfileError {
            name: shown(name),
            nearest: nearest(name, Self::ALL.iter().map(|p| p.as_str())),
        })
    }
}

/// The policy that goes by this name.
pub fn profile(name: ProfileName) -> Policy {
    match name {
        ProfileName::Restrictive => restrictive(),
        ProfileName::Moderate => moderate(),
        ProfileName::Permissive => permissive(),
    }
}

/// Code that nobody has read: nothing of the user's is there.
fn restrictive() -> Policy {
    Policy {
        profile: ProfileName::Restrictive,
        provider: ProviderName::Native,
        image: None,
        runtime: None,
        filesystem: filesystem(HostFiles::System, false, Workspace::Private, ByteSize::mib(64)),
        network: network(NetworkMode::Off),
        limits: Limits {
            cpus: Some(1.0),
            memory: Some(ByteSize::gib(1)),
            processes: Some(128),
            disk: Some(ByteSize::mib(256)),
            open_files: Some(1024),
            output: Some(ByteSize::mib(1)),
            wall_time: Some(Span::from_secs(5 * 60)),
            connections: Some(256),
            bandwidth: None,
        },
        syscalls: syscalls(),
        environment: environment(&[PASS_BASE]),
        identity: Identity {
            user: Some("sandbox".to_owned()),
            hostname: "sandbox".to_owned(),
            own_home_path: false,
        },
        waived: BTreeSet::new(),
    }
}

/// The default: a build or a test run of the project in the current directory, as its user expects it to work.
fn moderate() -> Policy {
    Policy {
        profile: ProfileName::Moderate,
        provider: ProviderName::Native,
        image: None,
        runtime: None,
        filesystem: filesystem(HostFiles::System, true, Workspace::Current, ByteSize::gib(1)),
        network: network(NetworkMode::Off),
        limits: Limits {
            cpus: None,
            memory: Some(ByteSize::gib(8)),
            processes: Some(2048),
            disk: Some(ByteSize::gib(2)),
            // The hard limit that kernels and systemd have given an ordinary user for years: enforceable without
            // privilege nearly everywhere, and more than a linker or a bundler opens.
            open_files: Some(4096),
            output: Some(ByteSize::mib(10)),
            wall_time: None,
            connections: Some(1024),
            bandwidth: None,
        },
        syscalls: syscalls(),
        environment: environment(&[PASS_BASE, PASS_TOOLCHAINS]),
        identity: Identity { user: None, hostname: "sandbox".to_owned(), own_home_path: true },
        waived: BTreeSet::new(),
    }
}

/// A tool that its user trusts, kept from secrets and from changing anything but the workspace.
fn permissive() -> Policy {
    Policy {
        profile: ProfileName::Permissive,
        provider: ProviderName::Native,
        image: None,
        runtime: None,
        filesystem: filesystem(HostFiles::All, true, Workspace::Current, ByteSize::gib(4)),
        network: network(NetworkMode::Open),
        limits: Limits {
            cpus: None,
            memory: None,
            processes: Some(16384),
            disk: Some(ByteSize::gib(16)),
            open_files: None,
            output: Some(ByteSize::mib(100)),
            wall_time: None,
            // Egress holds memory for each: a limit, though a generous one.
            connections: Some(4096),
            bandwidth: None,
        },
        syscalls: syscalls(),
        environment: environment(&[PASS_BASE, PASS_TOOLCHAINS]),
        identity: Identity { user: None, hostname: "sandbox".to_owned(), own_home_path: true },
        waived: BTreeSet::new(),
    }
}

fn filesystem(host: HostFiles, toolchains: bool, workspace: Workspace, tmp: ByteSize) -> Filesystem {
    Filesystem {
        host,
        toolchains,
        workspace,
        read: Vec::new(),
        write: Vec::new(),
        hide: Vec::new(),
        tmp,
        unprotect: BTreeSet::new(),
        protect: BTreeSet::new(),
    }
}

fn network(mode: NetworkMode) -> Network {
    Network {
        mode,
        allow: Vec::new(),
        deny: Vec::new(),
        private: Vec::new(),
        local: BTreeSet::new(),
        no_sni: BTreeSet::new(),
        groups: BTreeMap::new(),
        http: Vec::new(),
        secrets: Vec::new(),
    }
}

fn syscalls() -> Syscalls {
    Syscalls {
        profile: SyscallProfile::Default,
        allow: BTreeSet::new(),
        deny: BTreeSet::new(),
        compat: false,
    }
}

fn environment(pass: &[&[&str]]) -> Environment {
    let pass = pass.iter().flat_map(|names| names.iter()).map(|name| (*name).to_owned()).collect();
    Environment { set: BTreeMap::new(), pass, withhold: BTreeSet::new() }
}

impl From<Workspace> for String {
    fn from(workspace: Workspace) -> Self {
        workspace.to_string()
    }
}

impl From<String> for Workspace {
    fn from(text: String) -> Self {
        match text.as_str() {
            "private" => Workspace::Private,
            "current" => Workspace::Current,
            _ => Workspace::Path(PathBuf::from(text)),
        }
    }
}

impl fmt::Display for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workspace::Private => f.write_str("private"),
            Workspace::Current => f.write_str("current"),
            Workspace::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl JsonSchema for Workspace {
    fn schema_name() -> Cow<'static, str> {
        "Workspace".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "\"private\": an empty directory that is gone at the end. \"current\": the directory \
                            the command was started in. Else the absolute path of a directory.",
            "anyOf": [{ "enum": ["private", "current"] }, { "type": "string", "pattern": "^(/|~/)" }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ProfileName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            assert_eq!(profile(name).profile, name);
        }
        let error = |name: &str| name.parse::<ProfileName>().unwrap_err().to_string();
        insta::assert_snapshot!(error("moderat"), @"unknown profile `moderat`, did you mean `moderate`?");
        insta::assert_snapshot!(error("none"), @"unknown profile `none`, the profiles are restrictive, moderate and permissive");
    }

    #[test]
    fn a_workspace_is_a_plain_string() {
        for text in ["private", "current", "/srv/work"] {
            let workspace = Workspace::from(text.to_owned());
            assert_eq!(serde_json::to_value(&workspace).unwrap(), text);
            assert_eq!(workspace.to_string(), text);
        }
    }

    #[test]
    fn no_profile_waives_anything_and_only_permissive_has_a_network() {
        for name in ProfileName::ALL {
            let policy = profile(name);
            assert!(policy.waived.is_empty() && policy.filesystem.unprotect.is_empty());
            assert!(policy.syscalls.allow.is_empty() && !policy.syscalls.compat);
            let open = if name == ProfileName::Permissive { NetworkMode::Open } else { NetworkMode::Off };
            assert_eq!(policy.network, network(open));
        }
    }
}
