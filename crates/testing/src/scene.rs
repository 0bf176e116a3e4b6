//! A scratch place on the host for one test: a workspace, a home, a state directory, and a secret outside that
//! a sandbox must not reach. It is removed when the scene is dropped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use crate::Identity;

#[derive(Debug)]
pub struct Scene {
    pub identity: Identity,
    /// A word that occurs nowhere else on this machine.
    pub token: String,
    root: TempDir,
}

impl Scene {
    /// Make the scene, owned by `identity`.
    ///
    /// # Panics
    /// If the temp directory can't be written.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        let root = tempfile::Builder::new().prefix("rftest-").tempdir_in(base()).expect("make a scene");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("chmod the scene");
        identity.own(root.path());
        let scene = Self { identity, token: unique_token(), root };
        for dir in ["ws", "outside", "home", "state"] {
            scene.mkdir(dir);
        }
        scene.write("outside/secret", &scene.token);
        scene
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.path("ws")
    }

    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.path("outside")
    }

    /// The file outside that holds the token.
    #[must_use]
    pub fn secret(&self) -> PathBuf {
        self.path("outside/secret")
    }

    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// A path below the scene.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    /// Make a directory and its parents, owned by the identity.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn mkdir(&self, relative: &str) {
        let mut path = self.root.path().to_owned();
        for part in Path::new(relative) {
            path.push(part);
            match fs::create_dir(&path) {
                Ok(()) => self.identity.own(&path),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("mkdir {}: {error}", path.display()),
            }
        }
    }

    /// Write a file (and its parents), owned by the identity, mode 0644.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn write(&self, relative: &str, content: &str) {
        if let Some(parent) = Path::new(relative).parent().and_then(Path::to_str) {
            self.mkdir(parent);
        }
        let path = self.path(relative);
        fs::write(&path, content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        self.identity.own(&path);
    }

    /// Read a file of the scene; `None` if it isn't there.
    #[must_use]
    pub fn read(&self, relative: &str) -> Option<String> {
        fs::read(self.path(relative)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Make a symbolic link, owned by the identity.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn symlink(&self, target: &str, relative: &str) {
        let path = self.path(relative);
        std::os::unix::fs::symlink(target, &path)
            .unwrap_or_else(|error| panic!("symlink {}: {error}", path.display()));
        self.identity.own(&path);
    }
}

/// Where scenes are made: among home directories if that can be. A sandbox has a `/tmp` and `/var/tmp` of its own,
/// so a scene there would be out of its sight whatever the policy says.
fn base() -> PathBuf {
    if let Some(dir) = std::env::var_os("RINGFENCE_TEST_DIR") {
        return dir.into();
    }
    let homes = Path::new("/home");
    if rustix::process::geteuid().is_root() && homes.is_dir() {
        return homes.to_owned();
    }
    std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// Unique on this machine and while it is up: the process, a counter and the clock.
fn unique_token() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!("rftoken{}x{count}x{nanos:x}", std::process::id())
}
