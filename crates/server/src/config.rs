//! What an admin decides about a server: where it listens, and for each role the most that may be asked for.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use ringfence_policy::{
    ActionRules, ActionsFile, ByteSize, Layer, Merged, Origin, Policy, ProfileName, Span, Workspace, merge,
};
use ringfence_service::{ErrorCode, ServiceError};
use ringfence_store::Role;
use serde::Deserialize;

use crate::jwt::JwtConfig;

/// `server.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerFile {
    roles: HashMap<Role, RoleFile>,
    server: ServerQuotas,
    limits: RequestLimits,
    actions: ActionsFile,
    audit: AuditConfig,
    jwt: Option<JwtConfig>,
}

/// Where the audit is anchored besides beside the database.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditConfig {
    /// Files on other disks, each in a directory of its own, which no sandbox sees.
    pub anchors: Vec<PathBuf>,
}

impl AuditConfig {
    fn check(&self) -> Result<(), String> {
        for path in &self.anchors {
            let normal =
                |path: &Path| path.components().filter(|part| matches!(part, Component::Normal(_))).count();
            let plain =
                path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
            if !path.is_absolute() || !plain || normal(path) < 3 {
                return Err(format!(
                    "audit.anchors: {} has no directory of its own: name it by an absolute path such as \
                     /mnt/elsewhere/audit.anchor, whose directory no sandbox will see",
                    path.display()
                ));
            }
            if !path.parent().is_some_and(Path::is_dir) {
                return Err(format!(
                    "audit.anchors: the directory of {} is not there: make it, or mount it",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RoleFile {
    ceiling: Option<Layer>,
    quotas: Option<Quotas>,
    skills: Option<SkillRules>,
}

/// What a role may do with the skills of the library, by domain; `*` is every domain. Nothing, unless somebody says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillRules {
    /// Find, read and run them.
    pub see: Vec<String>,
    /// Add new ones.
    pub publish: Vec<String>,
    /// Replace and remove those that are there.
    pub overwrite: Vec<String>,
}

impl SkillRules {
    fn everything() -> Self {
        let all = || vec!["*".to_owned()];
        Self { see: all(), publish: all(), overwrite: all() }
    }

    pub(crate) fn sees(&self, domain: &str) -> bool {
        names(&self.see, domain)
    }

    pub(crate) fn publishes(&self, domain: &str) -> bool {
        names(&self.publish, domain)
    }

    pub(crate) fn overwrites(&self, domain: &str) -> bool {
        names(&self.overwrite, domain)
    }
}

fn names(rules: &[String], domain: &str) -> bool {
    rules.iter().any(|rule| rule == "*" || rule == domain)
}

/// How much one user may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    pub sandboxes: u64,
    /// One-shot runs and commands in sandboxes.
    pub commands: u64,
    /// Of one key.
    pub requests_per_minute: u32,
    /// Of all keys of a user together; four times the former where nothing is said.
    pub user_requests_per_minute: Option<u32>,
    /// Keys that are good, at a time.
    pub keys: u64,
    /// Streams and waits that are held open: events, changes of files, logs, terminals, waits for a decision.
    pub streams: u32,
    /// Sessions of the Model Context Protocol, and what is kept for them of outputs that were too long to be told.
    pub mcp_sessions: u32,
    pub mcp_outputs: ByteSize,
    /// What their workspaces, snapshots and sandboxes hold on disk together.
    pub disk: ByteSize,
    /// What their sandboxes and runs may use together, by their limits. None: each has its own limit and no more.
    pub memory: Option<ByteSize>,
    /// Processors.
    pub cpus: Option<u32>,
    /// What their commands may take of each hour, added up.
    pub run_time: Option<Span>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            sandboxes: 16,
            commands: 16,
            requests_per_minute: 1_200,
            user_requests_per_minute: None,
            keys: 32,
            streams: 32,
            mcp_sessions: 64,
            mcp_outputs: ByteSize::mib(64),
            disk: ByteSize::mib(4 << 10),
            memory: None,
            cpus: None,
            run_time: None,
        }
    }
}

/// How much all users may have together.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerQuotas {
    pub sandboxes: u64,
    pub commands: u64,
    pub memory: Option<ByteSize>,
    pub cpus: Option<u32>,
    /// What all workspaces, snapshots and sandboxes of users hold on disk together.
    pub disk: Option<ByteSize>,
    /// What the commands of all users may take of each hour, added up.
    pub run_time: Option<Span>,
    /// Of all keys together; 0 for no limit.
    pub requests_per_minute: u32,
    /// With keys that this server has not seen to be good since it was started; 0 for no limit.
    pub unknown_keys_per_minute: u32,
    /// Sandboxes made ahead of runs, at most; 0 for none.
    pub pool: u32,
}

impl Default for ServerQuotas {
    fn default() -> Self {
        Self {
            sandboxes: 256,
            commands: 128,
            memory: None,
            cpus: None,
            disk: None,
            run_time: None,
            requests_per_minute: 0,
            unknown_keys_per_minute: 600,
            pool: 8,
        }
    }
}

/// How large a request may be, and how slow.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestLimits {
    pub body: ByteSize,
    /// At a time, on each address.
    pub connections: u32,
    /// A request's head must be there by then; a connection without one is closed.
    pub head_time: Span,
    /// How long a body may keep the server waiting, beside 1 KiB a second.
    pub body_time: Span,
    /// How long streams may go on when the server is told to stop.
    pub drain: Span,
    /// A client of `/mcp` that is silent for so long is gone, with what it started.
    pub mcp_idle: Span,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body: ByteSize::mib(16),
            connections: 1024,
            head_time: Span::from_secs(30),
            body_time: Span::from_secs(30),
            drain: Span::from_secs(20),
            mcp_idle: Span::from_secs(15 * 60),
        }
    }
}

impl RequestLimits {
    /// For a connection that has no place of its own, and says at once what it wants or goes.
    pub(crate) fn in_a_hurry(self) -> Self {
        let soon = |time: Span| Span::from_millis(time.duration().as_millis().min(1000) as u64);
        Self { head_time: soon(self.head_time), body_time: soon(self.body_time), ..self }
    }
}

/// What a role may ask for.
#[derive(Clone, Debug)]
pub struct RoleRules {
    /// None: it runs nothing.
    pub ceiling: Option<Policy>,
    /// The ceiling is the shipped one, and nobody's decision.
    pub shipped: bool,
    pub quotas: Quotas,
    pub skills: SkillRules,
}

/// Who decides on actions, and how long they wait.
#[derive(Clone, Debug)]
pub struct ActionsConfig {
    pub rules: ActionRules,
    /// Milliseconds.
    pub expires: i64,
    /// Of one user, at a time.
    pub waiting: u64,
}

impl ActionsConfig {
    const EXPIRES: i64 = 60 * 60 * 1000;
    const WAITING: u32 = 64;

    fn new(file: ActionsFile) -> Result<Self, String> {
        let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
        let expires = match file.expires {
            Some(span) if span.duration().is_zero() => {
                return Err("actions.expires: what expires at once can't be decided".into());
            }
            Some(span) => i64::try_from(span.duration().as_millis()).unwrap_or(i64::MAX),
            None => Self::EXPIRES,
        };
        let waiting = u64::from(file.waiting.unwrap_or(Self::WAITING));
        Ok(Self { rules: ActionRules::new(file.rules, &roles)?, expires, waiting })
    }
}

#[derive(Clone, Debug)]
pub struct ServerConfig {
    roles: HashMap<Role, RoleRules>,
    pub server: ServerQuotas,
    pub limits: RequestLimits,
    pub actions: ActionsConfig,
    pub audit: AuditConfig,
    pub jwt: Option<JwtConfig>,
}

/// Shipped: no host of the network, no path of the host, no toolchain of the server's home.
const OPERATOR: &str =
    "profile = 'moderate'\n[filesystem]\ntoolchains = false\n[limits]\ncpus = 2\nwall_time = '10m'\n";
/// An admin may grant hosts too, but the server's files are no more visible to them.
const ADMIN: &str = "profile = 'moderate'\n[filesystem]\ntoolchains = false\n[network]\nmode = 'open'\n[limits]\ncpus = 2\nwall_time = '1h'\n";

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
            let is_shipped = given.ceiling.is_none();
            let ceiling = given.ceiling.or(shipped).map(|layer| ceiling(role, layer)).transpose();
            let ceiling = ceiling.map_err(|why| bad(&path, why))?.map(|merged| merged.policy);
            let skills = match (given.skills, role) {
                (Some(skills), _) => skills,
                (None, Role::Admin) => SkillRules::everything(),
                (None, _) => SkillRules::default(),
            };
            let quotas = given.quotas.unwrap_or_default();
            roles.insert(role, RoleRules { ceiling, shipped: is_shipped, quotas, skills });
        }
        let actions = ActionsConfig::new(file.actions).map_err(|why| bad(&path, why))?;
        file.audit.check().map_err(|why| bad(&path, why))?;
        let ServerFile { server, limits, audit, jwt, .. } = file;
        Ok(Self { roles, server, limits, actions, audit, jwt })
    }

    /// Files that this configuration names: never shown in a sandbox. An anchor takes the place of the one before it, so that it
    /// is its directory that is hidden.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let keys = self.jwt.iter().flat_map(|jwt| [&jwt.secret_file, &jwt.jwks_file]).flatten();
        let anchors = self.audit.anchors.iter().filter_map(|path| path.parent());
        keys.map(PathBuf::as_path).chain(anchors)
    }

    /// The one file of those that is a secret and may be renewed.
    pub(crate) fn secret(&self) -> Option<&Path> {
        self.jwt.as_ref()?.secret_file.as_deref()
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
        for role in [Role::Operator, Role::Admin] {
            assert_eq!(config.role(role).ceiling.as_ref().unwrap().limits.cpus, Some(2.0), "{role}");
        }
        assert!(operator.waived.is_empty() && operator.filesystem.read.is_empty());
        for role in [Role::Viewer, Role::Operator, Role::Approver] {
            assert_eq!(config.role(role).skills, SkillRules::default(), "{role} sees no skill unasked");
        }
        assert!(config.role(Role::Admin).skills.overwrites("any"));
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
            "[actions]\nexpires = '0s'",
            "[actions]\nrule = []",
            "[[actions.rules]]\nthen = 'allow'\nroles = ['boss']",
            "[[actions.rules]]\nkinds = ['run']",
            "[audit]\nanchors = ['audit.anchor']",
            "[audit]\nanchors = ['/tmp/audit.anchor']",
            "[audit]\nanchors = ['/no/such/directory/audit.anchor']",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(ServerConfig::load(Some(&path)).is_err(), "{text}");
        }
        assert!(ServerConfig::load(Some(&root.path().join("none"))).is_err());
    }
}
