//! One container: what the daemon is asked for, as data, and its life. It is named and labelled after its owner, so that one
//! whose owner was killed is known for what it is.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_linux::{is_living, pid_namespace, start_time};
use serde::Deserialize;
use serde_json::{Value, json};

use super::engine::{Engine, PATIENCE, Trouble};
use super::image;
use crate::plan::Plan;

/// Where guard's program and its door are, in the container.
const GUARD: &str = "/.ringfence/guard";
const DOOR: &str = "/.ringfence/in";
/// In the directory of the door.
pub(super) const DOOR_NAME: &str = "door";
const OWNER: &str = "ringfence.owner";
const STATE: &str = "ringfence.state";

/// The first process of a container, by an argument of this program.
pub const GUARD_IN_CONTAINER: &str = "--guard-in-container";

/// What a container is made of beside the plan.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// A runtime other than the daemon's usual one.
    pub(super) runtime: Option<String>,
    /// This program.
    pub(super) executable: PathBuf,
    /// The directory with the door in it.
    pub(super) door: PathBuf,
    /// The caller's further groups, where the caller is an ordinary user.
    pub(super) groups: Vec<u32>,
    pub(super) owner: Owner,
    pub(super) state: PathBuf,
}

/// A process of ours, as it is known by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    start: u64,
    namespace: u64,
}

impl Owner {
    /// This process.
    pub(super) fn own() -> Self {
        let pid = std::process::id();
        Self { pid, start: start_time(pid).unwrap_or(0), namespace: pid_namespace() }
    }

    pub(super) fn key(self) -> String {
        format!("{}-{}-{}", self.pid, self.start, self.namespace)
    }

    pub(super) fn parse(key: &str) -> Option<Self> {
        let mut parts = key.split('-').map(|part| part.parse::<u64>().ok());
        let (pid, start, namespace) = (parts.next()??, parts.next()??, parts.next()??);
        if parts.next().is_some() {
            return None;
        }
        Some(Self { pid: pid.try_into().ok()?, start, namespace })
    }

    /// One of another pid namespace may live: that can't be seen from here.
    pub(super) fn is_gone(self) -> bool {
        self.namespace == pid_namespace() && !is_living(self.pid, self.start)
    }
}

/// Who the first process is outside: the caller, or for root an id that nobody uses.
pub(super) fn user(plan: &Plan) -> (u32, u32) {
    match plan.ids.mapped {
        Some(mapped) => (mapped.outside, mapped.outside),
        None => (plan.ids.uid, plan.ids.gid),
    }
}

/// What the daemon is asked for.
///
/// Its own masks of /proc and its own seccomp filter are left out: the kernel lets guard mount a /proc of its own only where one
/// is whole, and guard has to make namespaces. Until guard has masked that /proc and loaded our filter, nothing of the
/// caller's runs.
pub(super) fn spec(plan: &Plan, given: &Given) -> Value {
    let (uid, gid) = user(plan);
    let groups: Vec<String> = given.groups.iter().map(u32::to_string).collect();
    let bind = |source: &Path, target: &str| {
        json!({
            "Type": "bind", "Source": source, "Target": target, "ReadOnly": true,
            "BindOptions": { "Propagation": "rprivate" },
        })
    };
    let mut host = json!({
        "AutoRemove": true,
        "NetworkMode": if plan.own_network { "none" } else { "host" },
        "IpcMode": "none",
        "PidMode": "",
        "UTSMode": "",
        "UsernsMode": "host",
        "CgroupnsMode": "private",
        "Privileged": false,
        "ReadonlyRootfs": true,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined", "label=disable"],
        "MaskedPaths": [],
        "ReadonlyPaths": [],
        "RestartPolicy": { "Name": "no" },
        "LogConfig": { "Type": "none" },
        "GroupAdd": groups,
        "Mounts": [bind(&given.executable, GUARD), bind(&given.door, DOOR)],
    });
    if let Some(runtime) = &given.runtime {
        host["Runtime"] = json!(runtime);
    }
    json!({
        "Image": image::name(),
        "User": format!("{uid}:{gid}"),
        "Entrypoint": [GUARD, GUARD_IN_CONTAINER, format!("{DOOR}/{DOOR_NAME}")],
        "Cmd": [],
        "Env": [],
        "WorkingDir": "/",
        "StopSignal": "SIGKILL",
        "Healthcheck": { "Test": ["NONE"] },
        "Labels": { OWNER: given.owner.key(), STATE: given.state },
        "HostConfig": host,
    })
}

/// The same, with a caller that is always one.
#[cfg(test)]
pub(crate) fn spec_for_tests(plan: &Plan, runtime: Option<&str>) -> Value {
    let given = Given {
        runtime: runtime.map(str::to_owned),
        executable: "/usr/bin/ringfence".into(),
        door: "/home/ann/.local/state/ringfence/docker/7-8-9.0/in".into(),
        groups: if plan.ids.mapped.is_some() { Vec::new() } else { vec![27, 100] },
        owner: Owner { pid: 7, start: 8, namespace: 9 },
        state: "/home/ann/.local/state/ringfence".into(),
    };
    spec(plan, &given)
}

/// A container that this process made; taken away when it is dropped.
#[derive(Debug)]
pub(in crate::providers) struct Container {
    engine: Engine,
    pub(super) id: String,
    gone: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Created {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    state: State,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct State {
    pub(super) running: bool,
    pub(super) pid: i32,
    #[serde(default)]
    pub(super) exit_code: i64,
    #[serde(default)]
    pub(super) error: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

impl Container {
    /// Make one; the empty image is put there first, where it is not yet.
    pub(super) fn create(engine: &Engine, spec: &Value, name: &str) -> Result<Self, Trouble> {
        let target = format!("/containers/create?name={name}");
        let make = || engine.post::<Created>("make a container", &target, spec);
        let made = match make() {
            Err(trouble) if trouble.is_said(404) => {
                image::provide(engine)?;
                make()
            }
            made => made,
        };
        let id = made?.id;
        // It goes into paths.
        if id.is_empty() || id.len() > 128 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Trouble::Strange(
                engine.socket.display().to_string(),
                "a container without a number".into(),
            ));
        }
        Ok(Self { engine: engine.clone(), id, gone: false })
    }

    pub(super) fn start(&self) -> Result<(), Trouble> {
        let target = format!("/containers/{}/start", self.id);
        self.engine.call("start a container", PATIENCE, "POST", &target, "application/json", b"").map(|_| ())
    }

    /// How it is; `None` where it is gone.
    pub(super) fn state(&self) -> Result<Option<State>, Trouble> {
        match self.engine.get::<Inspected>("look at a container", &format!("/containers/{}/json", self.id)) {
            Ok(found) => Ok(Some(found.state)),
            Err(trouble) if trouble.is_said(404) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Have it taken away, and wait until it is. Its first process has ended, or is ended by this.
    pub(in crate::providers) fn remove(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.gone, true) {
            return None;
        }
        let left = remove(&self.engine, &self.id).err();
        left.map(|trouble| {
            format!(
                "left behind: container {}, until the daemon is back or the next start: {trouble}",
                &self.id
            )
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

/// The daemon takes away by itself what has ended; where it is at that, it says so, and is waited for.
fn remove(engine: &Engine, id: &str) -> Result<(), Trouble> {
    let deadline = Instant::now() + PATIENCE;
    let step = "take a container away";
    let mut pause = Duration::from_millis(5);
    loop {
        let target = format!("/containers/{id}?force=true&v=true");
        match engine.call(step, PATIENCE, "DELETE", &target, "application/json", b"") {
            Ok(_) => return Ok(()),
            Err(trouble) if trouble.is_said(404) => return Ok(()),
            Err(trouble) if trouble.is_said(409) && Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            Err(trouble) => return Err(trouble),
        }
    }
}

/// Take away the containers of owners that are no more; how many those were. One that stays is the next start's.
pub(super) fn sweep(engine: &Engine) -> Result<usize, Trouble> {
    // {"label":["ringfence.owner"]}
    let target = format!("/containers/json?all=true&filters=%7B%22label%22%3A%5B%22{OWNER}%22%5D%7D");
    let listed: Vec<Listed> = engine.get("list containers", &target)?;
    let mut swept = 0;
    for Listed { id, labels } in listed {
        let owner = labels.get(OWNER).and_then(|key| Owner::parse(key));
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if plain && owner.is_some_and(Owner::is_gone) && remove(engine, &id).is_ok() {
            swept += 1;
        }
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_known_by_its_key() {
        let own = Owner::own();
        assert_eq!(Owner::parse(&own.key()), Some(own));
        assert!(!own.is_gone());
        let earlier = Owner { start: own.start + 1, ..own };
        assert!(earlier.is_gone(), "another process had this number");
        let elsewhere = Owner { start: own.start + 1, namespace: own.namespace + 1, ..own };
        assert!(!elsewhere.is_gone(), "it can't be seen from here");
        for strange in ["", "1", "1-2", "1-2-x", "1-2-3-4", "-1-2-3"] {
            assert_eq!(Owner::parse(strange), None, "{strange}");
        }
    }
}
