//! A Docker daemon for tests: one for all test processes of a run, out of everybody's reach, which ends when the last of them
//! has ended. It has a mount namespace of its own, so that what it mounts is in no test's way.
//!
//! Who uses it holds a shared lock, which the kernel takes back however a test ends; a watcher beside the daemon ends it, and
//! all that it started, once it has had the lock for itself for some seconds.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::skip::report_skip;
use crate::{Identity, USER_ID};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the daemon in `$1`, with the lock open as 8; ends it after `$2` moments without users.
const WATCHER: &str = r#"
cd / && exec </dev/null >>"$1/log" 2>&1 8<>"$1/users"
start() {
    dockerd --iptables=false --ip-masq=false --ip6tables=false --bridge=none --add-runtime crun=/usr/bin/crun --data-root "$1/data" --exec-root "$1/exec" \
        --pidfile "$1/pid" -H "unix://$1/docker.sock" -H "unix://$1/closed.sock" 8<&- &
    daemon=$!
}
had=; for at in /sys/fs/cgroup/*/docker /sys/fs/cgroup/docker; do [ -d "$at" ] && had=yes; done
start "$1"
idle=0
while [ "$idle" -lt "$2" ]; do
    sleep 0.2
    # One that was killed by a test is started again, as a service manager does.
    kill -0 "$daemon" 2>/dev/null || { wait "$daemon"; rm -f "$1/pid"; start "$1"; }
    if flock -n -x 8; then idle=$((idle + 1)); [ "$idle" -ge "$2" ] || flock -u 8; else idle=0; fi
done
kill "$daemon"; wait "$daemon"
for process in /proc/[0-9]*; do
    tr '\0' ' ' < "$process/cmdline" 2>/dev/null | grep -q "containerd.* $1/" && kill -9 "${process#/proc/}"
done
[ -n "$had" ] || for at in /sys/fs/cgroup/*/docker /sys/fs/cgroup/docker; do rmdir "$at" 2>/dev/null; done
for try in 1 2 3 4 5; do
    grep " $1/" /proc/self/mounts | cut -d' ' -f2 | sort -r | while read -r at; do umount -l "$at"; done
    rm -rf -- "$1" && break
    sleep 0.2
done
"#;

/// The daemon of this run.
#[derive(Debug)]
pub struct DockerDaemon {
    place: PathBuf,
    /// Held for as long as this process lives.
    _users: File,
}

/// Whether a daemon can be had here: reported, and a failure in CI, where not.
#[must_use]
pub fn has_docker() -> bool {
    if !Identity::Root.is_available() {
        return false;
    }
    let there = ["/usr/sbin/dockerd", "/usr/bin/dockerd", "/usr/local/bin/dockerd"];
    if there.iter().any(|path| Path::new(path).exists()) {
        return true;
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "dockerd is not installed: apt install docker.io");
    report_skip("dockerd is not installed (apt install docker.io): nothing of docker was tried");
    false
}

/// The one that tests of this process share with those of others. Started on first use.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn docker() -> &'static DockerDaemon {
    static SHARED: Mutex<Option<&'static DockerDaemon>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.get_or_insert_with(|| {
        let place = std::env::temp_dir().join("rftest-docker");
        Box::leak(Box::new(DockerDaemon::join(place, 25)))
    })
}

/// Those that this process uses.
fn in_use() -> &'static Mutex<Vec<PathBuf>> {
    static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    &IN_USE
}

impl DockerDaemon {
    /// One that no other test uses, for a test that ends it.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn alone(name: &str) -> Self {
        Self::join(std::env::temp_dir().join(format!("rftest-docker-{name}-{}", std::process::id())), 1)
    }

    fn join(place: PathBuf, moments: u32) -> Self {
        let deadline = Instant::now() + PATIENCE;
        let users = loop {
            assert!(Instant::now() < deadline, "no lock of {}", place.display());
            if let Some(users) = enter(&place) {
                break users;
            }
        };
        let this = Self { place, _users: users };
        let starting = File::create(this.place.join("starting")).expect("a lock");
        flock(&starting, FlockOperation::LockExclusive).expect("the lock");
        if !this.answers() {
            let status = Command::new("setsid")
                .args([
                    "--fork",
                    "unshare",
                    "--mount",
                    "--propagation",
                    "slave",
                    "--",
                    "bash",
                    "-c",
                    WATCHER,
                    "watcher",
                ])
                .arg(&this.place)
                .arg(moments.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            assert!(status.expect("setsid (util-linux) starts").success());
        }
        this.wait();
        drop(starting);
        // An ordinary user is granted one of the two sockets, and not the other.
        chown(this.place.join("docker.sock"), None, Some(USER_ID)).expect("grant the socket");
        in_use().lock().unwrap_or_else(PoisonError::into_inner).push(this.place.clone());
        this
    }

    fn answers(&self) -> bool {
        UnixStream::connect(self.place.join("docker.sock")).is_ok()
    }

    /// Wait until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.answers() {
            let log = || fs::read_to_string(self.place.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "dockerd does not answer:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// For `DOCKER_HOST`: the socket that root and the ordinary user may use.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}/docker.sock", self.place.display())
    }

    /// The socket that only root may use.
    #[must_use]
    pub fn closed_host(&self) -> String {
        format!("unix://{}/closed.sock", self.place.display())
    }

    /// The daemon's own process.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let text = fs::read_to_string(self.place.join("pid")).expect("its pid");
        text.trim().parse().expect("a number")
    }

    /// The first process of the container that this process of ours has.
    #[must_use]
    pub fn container_of(&self, owner: u32) -> Option<u32> {
        let own = |container: &Container| container.owner.starts_with(&format!("{owner}-"));
        containers(&self.place).into_iter().find(own).map(|container| container.pid).filter(|pid| *pid > 0)
    }

    /// How many containers there are of any kind.
    #[must_use]
    pub fn containers(&self) -> usize {
        containers(&self.place).len()
    }
}

/// The lock of a place that is not being taken away.
fn enter(place: &Path) -> Option<File> {
    match DirBuilder::new().mode(0o755).create(place) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{}", place.display()),
    }
    let own = fs::symlink_metadata(place).ok()?;
    assert!(own.is_dir() && own.uid() == 0, "{} is not root's: remove it", place.display());
    let path = place.join("users");
    let users = File::options().create(true).append(true).open(&path).ok()?;
    flock(&users, FlockOperation::LockShared).ok()?;
    let found = fs::metadata(&path).ok()?;
    (found.ino() == users.metadata().ok()?.ino()).then_some(users)
}

struct Container {
    id: String,
    pid: u32,
    owner: String,
    state: String,
}

/// As the daemon has them on its disk: asking it would take longer.
fn containers(place: &Path) -> Vec<Container> {
    let entries = fs::read_dir(place.join("data/containers")).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("config.v2.json")).unwrap_or_default();
        let facts: Value = serde_json::from_str(&text).unwrap_or_default();
        let label = |name: &str| facts["Config"]["Labels"][name].as_str().unwrap_or_default().to_owned();
        Container {
            id: entry.file_name().to_string_lossy().into_owned(),
            pid: facts["State"]["Pid"].as_u64().unwrap_or(0) as u32,
            owner: label("ringfence.owner"),
            state: label("ringfence.state"),
        }
    };
    entries.map(read).collect()
}

/// What is left in the daemons of this process: containers of its own scenes, and shims of containers that are no more.
pub(crate) fn left_in_daemons(states: &[PathBuf]) -> Vec<String> {
    let mut left = Vec::new();
    for place in in_use().lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let found = containers(place);
        for container in &found {
            if container.state.is_empty() || states.iter().any(|state| Path::new(&container.state) == state) {
                left.push(format!("container {} of {}", container.id, container.owner));
            }
        }
        for id in shims(place).into_iter().filter(|id| found.iter().all(|container| container.id != *id)) {
            left.push(format!("shim of container {id}"));
        }
    }
    left
}

fn shims(place: &Path) -> Vec<String> {
    let mark = place.display().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let shim = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let is_ours =
            words.first()?.contains("containerd-shim") && words.iter().any(|word| word.contains(&mark));
        let at = words.iter().position(|word| word == "-id")?;
        words.get(at + 1).filter(|_| is_ours).cloned()
    };
    entries.filter_map(shim).collect()
}
