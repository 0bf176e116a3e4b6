//! Where things are for this user, read from the environment once: home, config files, state, current directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{ErrorCode, ServiceError};
use crate::state::StateDir;

/// The directories and variables that every use case starts from.
#[derive(Clone, Debug)]
pub struct Places {
    pub current: PathBuf,
    pub home: PathBuf,
    pub system_config: PathBuf,
    pub user_config: PathBuf,
    pub state: StateDir,
    /// `RINGFENCE_PROFILE`.
    pub profile: Option<String>,
    /// `RINGFENCE_POLICY`: a policy file.
    pub policy: Option<PathBuf>,
    /// `RINGFENCE_LIBRARY`: the directory of the skill library.
    pub library: Option<PathBuf>,
    /// One user of a server: their snapshots, secrets and grants are apart from everybody else's.
    pub tenant: Option<PathBuf>,
}

impl Places {
    /// Those of the calling process.
    pub fn from_env() -> Result<Self, ServiceError> {
        let current = env::current_dir().map_err(|error| {
            ServiceError::new(
                ErrorCode::BadRequest,
                format!("the current directory cannot be used: {error}"),
                "change to a directory that exists",
            )
        })?;
        let uid = rustix::process::getuid().as_raw();
        let home = absolute_variable("HOME").unwrap_or_else(|| home_of(uid));
        let config = absolute_variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let state = match env::var_os("RINGFENCE_STATE_DIR").filter(|value| !value.is_empty()) {
            Some(given) => current.join(given),
            None if uid == 0 => PathBuf::from("/var/lib/ringfence"),
            None => absolute_variable("XDG_STATE_HOME")
                .unwrap_or_else(|| home.join(".local/state"))
                .join("ringfence"),
        };
        Ok(Self {
            system_config: PathBuf::from("/etc/ringfence/config.toml"),
            user_config: config.join("ringfence/config.toml"),
            state: StateDir::new(state),
            profile: env::var("RINGFENCE_PROFILE").ok().filter(|value| !value.is_empty()),
            policy: env::var_os("RINGFENCE_POLICY").filter(|value| !value.is_empty()).map(PathBuf::from),
            library: env::var_os("RINGFENCE_LIBRARY").filter(|value| !value.is_empty()).map(PathBuf::from),
            tenant: None,
            current,
            home,
        })
    }

    /// The same for one user of a server.
    pub fn of_tenant(&self, user: &str) -> Result<Self, ServiceError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if user.is_empty() || user.len() > 64 || user.starts_with('.') || !user.bytes().all(plain) {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!("`{}` is no name of a user", user.escape_debug()),
                "use up to 64 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit",
            ));
        }
        Ok(Self { tenant: Some(self.state.path().join("tenants").join(user)), ..self.clone() })
    }

    /// Where snapshots, secrets and grants are.
    pub(crate) fn own(&self) -> &Path {
        self.tenant.as_deref().unwrap_or(self.state.path())
    }

    /// `path` as an absolute one: `~` is the home, anything else relative is below `directory`.
    pub(crate) fn absolute(&self, path: &Path, directory: &Path) -> PathBuf {
        let joined = match path.strip_prefix("~") {
            Ok(rest) => self.home.join(rest),
            Err(_) => directory.join(path),
        };
        // Takes out `.` and doubled slashes, and leaves `..`, which means another place after a symlink.
        joined.components().collect()
    }
}

/// A relative path in an XDG variable is to be ignored, its specification says.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// From the passwd file: a static program asks no name service.
fn home_of(uid: u32) -> PathBuf {
    let text = fs::read("/etc/passwd").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let found = text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(uid)).then(|| PathBuf::from(fields.get(5).copied().unwrap_or_default()))
    });
    found.filter(|home| home.is_absolute()).unwrap_or_else(|| PathBuf::from("/home/user"))
}
