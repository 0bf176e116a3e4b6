//! What an admin decides about a server: where it listens, and for each role the most that may be asked for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ringfence_policy::{ByteSize, Layer, Merged, Origin, Policy, ProfileName, Workspace, merge};
use ringfence_service::{ErrorCode, ServiceError};
use ringfence_store::Role;
use serde::Deserialize;

/// `server.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerFile {
    roles: HashMap<Role, RoleFile>,
    server: ServerQuotas,
    limits: RequestLimits,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RoleFile {
    ceiling: Option<Layer>,
    quotas: Option<Quotas>,
}

/// How much one user may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    pub sandboxes: u64,
    /// One-shot runs and commands in sandboxes.
    pub commands: u64,
    pub requests_per_minute: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { sandboxes: 16, commands: 16, requests_per_minute: 1_200 }
    }
}

/// How much all users may have together.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerQuotas {
    pub sandboxes: u64,
    pub commands: u64,
}

impl Default for ServerQuotas {
    fn default() -> Self {
        Self { sandboxes: 256, commands: 128 }
    }
}

/// How large a request may be.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestLimits {
    pub body: ByteSize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { body: ByteSize::mib(16) }
    }
}

/// What a role may ask for.
#[derive(Clone, Debug)]
pub struct RoleRules {
    /// None: it runs nothing.
    pub ceiling: Option<Policy>,
    pub quotas: Quotas,
}

#[derive(Clone, Debug)]
pub struct ServerConfig {
    roles: HashMap<Role, RoleRules>,
    pub server: ServerQuotas,
    pub limits: RequestLimits,
}

/// Shipped: no host of the network, no path of the host, no toolchain of the server's home.
const OPERATOR: &str =
    "profile = 'moderate'\n[filesystem]\ntoolchains = false\n[limits]\nwall_time = '10m'\n";
/// An admin may grant hosts too, but the server's files are no more visible to them.
const ADMIN: &str = "profile = 'moderate'\n[filesystem]\ntoolchains = false\n[network]\nmode = 'open'\n[limits]\nwall_time = '1h'\n";

impl ServerConfig {
    /// From a file; without one, what is shipped.
    pub fn load(path: Option<&Path>) -> Result<Self, ServiceError> {
        let bad = |path: &Path, why: String| {
            ServiceError::new(
                ErrorCode::BadPolicy,
                format!("{}: {why}", path.display()),
                "correct the file; docs/server.md says what it may hold",
            )
        };
        let (file, path) = match path {
            None => (ServerFile::default(), PathBuf::new()),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| bad(path, error.to_string()))?;
                let file = toml::from_str(&text).map_err(|error| bad(path, error.to_string()))?;
                (file, path.to_path_buf())
            }
        };
        let mut roles = HashMap::new();
        for role in Role::ALL.iter().copied() {
            let given = file.roles.get(&role).cloned().unwrap_or_default();
            let shipped = match role {
                Role::Admin => Layer::from_toml(ADMIN).ok(),
                Role::Operator => Layer::from_toml(OPERATOR).ok(),
                Role::Viewer | Role::Approver => None,
            };
            let ceiling = given.ceiling.or(shipped).map(|layer| ceiling(role, layer)).transpose();
            let ceiling = ceiling.map_err(|why| bad(&path, why))?.map(|merged| merged.policy);
            roles.insert(role, RoleRules { ceiling, quotas: given.quotas.unwrap_or_default() });
        }
        Ok(Self { roles, server: file.server, limits: file.limits })
    }

    pub fn role(&self, role: Role) -> &RoleRules {
        &self.roles[&role]
    }
}

fn ceiling(role: Role, mut layer: Layer) -> Result<Merged, String> {
    if layer.filesystem.workspace.is_some() {
        return Err(format!(
            "roles.{role}.ceiling: the workspace is always the caller's own and can't be named"
        ));
    }
    layer.filesystem.workspace = Some(Workspace::Private);
    merge(ProfileName::Moderate, &[(Origin::flag(format!("roles.{role}.ceiling")), layer)])
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_policy::{HostFiles, NetworkMode};

    #[test]
    fn what_is_shipped_is_tight() {
        let config = ServerConfig::load(None).unwrap();
        assert!(config.role(Role::Viewer).ceiling.is_none());
        assert!(config.role(Role::Approver).ceiling.is_none());
        let operator = config.role(Role::Operator).ceiling.as_ref().unwrap();
        assert_eq!(operator.network.mode, NetworkMode::Off);
        assert_eq!(operator.filesystem.host, HostFiles::System);
        assert!(!operator.filesystem.toolchains && operator.network.allow.is_empty());
        assert!(operator.waived.is_empty() && operator.filesystem.read.is_empty());
        let admin = config.role(Role::Admin).ceiling.as_ref().unwrap();
        assert!(!admin.filesystem.toolchains && admin.filesystem.write.is_empty() && admin.waived.is_empty());
    }

    #[test]
    fn a_file_is_read_strictly() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("server.toml");
        std::fs::write(&path, "[roles.operator.ceiling]\nprofile = 'restrictive'\n[server]\nsandboxes = 3\n")
            .unwrap();
        let config = ServerConfig::load(Some(&path)).unwrap();
        assert_eq!(config.server.sandboxes, 3);
        assert_eq!(config.role(Role::Operator).ceiling.as_ref().unwrap().profile, ProfileName::Restrictive);
        for text in [
            "[roles.boss]",
            "[roles.operator]\nceilings = 1",
            "sandboxes = 3",
            "[roles.operator.ceiling.filesystem]\nworkspace = '/'",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(ServerConfig::load(Some(&path)).is_err(), "{text}");
        }
        assert!(ServerConfig::load(Some(&root.path().join("none"))).is_err());
    }
}
