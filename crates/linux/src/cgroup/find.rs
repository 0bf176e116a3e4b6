//! Where on this host a control group can be made, by whom, and if not, why.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::process::read_kernel_file;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// The directories beneath which a group can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// One directory a controller; those that can't be used are absent.
    V1(Vec<(Controller, PathBuf)>),
    /// One directory for all of `controllers`.
    V2 { base: PathBuf, controllers: BTreeSet<Controller> },
    /// No group can be made, and why.
    Absent { why: String, fix: String },
}

const ROOT: &str = "/sys/fs/cgroup";

impl Hierarchy {
    /// Look at this host, for the calling process.
    pub fn detect() -> Self {
        let own = read_kernel_file("/proc/self/cgroup").unwrap_or_default();
        Self::detect_in(Path::new(ROOT), &own)
    }

    /// The same for a tree at `root` and the text of a `/proc/<pid>/cgroup`.
    pub fn detect_in(root: &Path, own: &str) -> Self {
        if root.join("cgroup.controllers").exists() {
            return detect_v2(root, own);
        }
        let found: Vec<_> = Controller::ALL
            .into_iter()
            .filter_map(|controller| Some((controller, v1_directory(root, own, controller)?)))
            .collect();
        if !found.is_empty() {
            return Self::V1(found);
        }
        let (why, fix) = if root.exists() {
            (
                "no control group here may be written by this user",
                "run as root, or let root make a group and chown it: see docs/limits.md",
            )
        } else {
            ("no control groups are mounted at /sys/fs/cgroup", "mount cgroup2 there")
        };
        Self::Absent { why: why.into(), fix: fix.into() }
    }

    /// Can a group with this controller be made?
    pub fn has(&self, controller: Controller) -> bool {
        match self {
            Self::V1(found) => found.iter().any(|(has, _)| *has == controller),
            Self::V2 { controllers, .. } => controllers.contains(&controller),
            Self::Absent { .. } => false,
        }
    }

    /// "cgroup v1", "cgroup v2", as a receipt names it.
    pub fn version(&self) -> &'static str {
        match self {
            Self::V1(_) => "cgroup v1",
            Self::V2 { .. } => "cgroup v2",
            Self::Absent { .. } => "no cgroup",
        }
    }

    /// Why a controller is not to be had, and what would change that.
    pub fn gap(&self, controller: Controller) -> (String, String) {
        let name = controller.name();
        match self {
            Self::Absent { why, fix } => (why.clone(), fix.clone()),
            Self::V1(_) => (
                format!("the cgroup v1 controller `{name}` is not mounted, or not writable by this user"),
                format!("mount it at {ROOT}/{name}, or run as root"),
            ),
            Self::V2 { base, .. } => (
                format!("the cgroup v2 controller `{name}` is not enabled beneath {}", base.display()),
                format!("as root: echo +{name} > {}/cgroup.subtree_control", base.display()),
            ),
        }
    }
}

fn writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

/// The line of `/proc/<pid>/cgroup` for a v1 controller: `4:memory:/path`, `2:cpu,cpuacct:/path`.
fn v1_path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (names, path) = rest.split_once(':')?;
        names.split(',').any(|name| name == controller).then_some(path)
    })
}

fn v1_directory(root: &Path, own: &str, controller: Controller) -> Option<PathBuf> {
    let mount = root.join(controller.name());
    let path = v1_path(own, controller.name())?.trim_start_matches('/');
    let beneath = mount.join(path);
    // In a container without a cgroup namespace the path is the host's and is not there.
    [beneath, mount]
        .into_iter()
        .find(|directory| directory.join("tasks").exists())
        .filter(|found| writable(found))
}

fn controllers_in(file: &Path) -> BTreeSet<Controller> {
    let text = fs::read_to_string(file).unwrap_or_default();
    Controller::ALL
        .into_iter()
        .filter(|controller| text.split_whitespace().any(|word| word == controller.name()))
        .collect()
}

/// The nearest ancestor that hands controllers down and lets this user move a process from the own group into a
/// new one: both the directory and its `cgroup.procs` must be writable.
fn detect_v2(root: &Path, own: &str) -> Hierarchy {
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").trim_start_matches('/');
    let own_directory = root.join(path);
    let mut best: Option<(PathBuf, BTreeSet<Controller>)> = None;
    for base in own_directory.ancestors().take_while(|ancestor| ancestor.starts_with(root)) {
        let is_root = base == root;
        if base == own_directory && !is_root {
            continue;
        }
        if !writable(base) || !writable(&base.join("cgroup.procs")) {
            break;
        }
        let enabled = enable_v2(base);
        if best.as_ref().is_none_or(|(_, had)| enabled.len() > had.len()) {
            best = Some((base.to_path_buf(), enabled));
        }
        if best.as_ref().is_some_and(|(_, had)| had.len() == Controller::ALL.len()) {
            break;
        }
    }
    match best {
        Some((base, controllers)) => Hierarchy::V2 { base, controllers },
        None => Hierarchy::Absent {
            why: format!("no cgroup above {} may be written by this user", own_directory.display()),
            fix:
                "start it in a delegated scope: systemd-run --user --scope -p Delegate=yes -- ringfence run …"
                    .into(),
        },
    }
}

/// The controllers that groups in `base` have, after handing down those that can be.
fn enable_v2(base: &Path) -> BTreeSet<Controller> {
    let control = base.join("cgroup.subtree_control");
    let enabled = controllers_in(&control);
    let available = controllers_in(&base.join("cgroup.controllers"));
    if available.is_subset(&enabled) {
        return enabled;
    }
    for controller in available.difference(&enabled) {
        // Fails where the group has processes or is another's: what is not enabled is then not used.
        let _ = fs::write(&control, format!("+{}", controller.name()));
    }
    controllers_in(&control)
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
