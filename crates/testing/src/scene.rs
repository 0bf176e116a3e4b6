//! A scratch place on the host for one test: a workspace, a home, a state directory, and a secret outside that
//! a sandbox must not reach. It is removed when the scene is dropped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::leftovers::PATIENCE;
use crate::{Identity, processes};

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
        own().states.push(scene.state());
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

impl Drop for Scene {
    /// A session outlives what tells of it, and is a test's to remove: one that stays fails the test, and is ended.
    fn drop(&mut self) {
        let state = self.state();
        let deadline = Instant::now() + PATIENCE;
        let mut left = living_sessions(&state);
        while !left.is_empty() && !std::thread::panicking() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            left = living_sessions(&state);
        }
        for Kept { keeper, .. } in &left {
            if let Some(keeper) = i32::try_from(*keeper).ok().and_then(Pid::from_raw) {
                let _ = kill_process(keeper, Signal::KILL);
            }
        }
        own().states.retain(|had| *had != state);
        assert!(left.is_empty() || std::thread::panicking(), "sessions are left behind: {left:?}");
    }
}

/// All scenes of this test.
struct Own {
    states: Vec<PathBuf>,
}

/// A session and its keeper.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) keeper: u32,
}

fn own() -> MutexGuard<'static, Own> {
    static OWN: Mutex<Own> = Mutex::new(Own { states: Vec::new() });
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state directories of this test's scenes.
pub(crate) fn own_states() -> Vec<PathBuf> {
    own().states.clone()
}

/// The sessions of this test's scenes whose keepers live.
pub(crate) fn own_sessions() -> Vec<Kept> {
    own().states.iter().flat_map(|state| living_sessions(state)).collect()
}

/// What every token of this test begins with.
pub(crate) fn own_tokens() -> String {
    format!("rftoken{}x", std::process::id())
}

fn living_sessions(state: &Path) -> Vec<Kept> {
    let kept = |place: PathBuf| -> Option<Kept> {
        let facts: Value = serde_json::from_slice(&fs::read(place.join("session.json")).ok()?).ok()?;
        let process = &facts["pillars"]["keeper"];
        let (keeper, start) = (u32::try_from(process["pid"].as_u64()?).ok()?, process["start"].as_u64()?);
        let name = facts["id"].as_str().unwrap_or_default().to_owned();
        processes::is_alive(keeper, start).then_some(Kept { name, keeper })
    };
    let places = fs::read_dir(state.join("sessions")).into_iter().flatten().flatten();
    places.filter_map(|place| kept(place.path())).collect()
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
    format!("{}{count}x{nanos:x}", own_tokens())
}
