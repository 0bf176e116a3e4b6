//! The plan: everything a provider will do for one request, as data. `plan` is pure; a provider only carries it out.

use std::path::{Path, PathBuf};

use ringfence_linux::{CgroupLimits, Hierarchy};
use ringfence_policy::{Clause, HostFiles, Policy, ProfileName, ProviderName, protected};
use serde::{Deserialize, Serialize};

use crate::attachment::{Attachment, FileId, plan_attachments};
use crate::environment::{environment, working_directory};
use crate::host::{Host, OuterIds, host_files};
use crate::limits::plan_limits;
use crate::network::{self, PlannedEgress, plan_egress, resolver_mount};
use crate::receipt::Receipt;
use crate::refusal::Refusal;
use crate::request::Request;

/// Where the workspace is inside every sandbox.
pub const WORKSPACE: &str = "/workspace";
/// The id of a sandbox that root started.
const INSIDE_ID: u32 = 1000;
/// From this Landlock version on the right to connect to a path can be withheld.
const RESOLVE_UNIX: i32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Read,
    Write,
}

/// One thing to put into the new root. In the order of the list; a later one may lie on an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "mount")]
pub enum Mount {
    /// What the host has at `source`. `own_ids`: shown as the sandbox user's, where the caller is root.
    Bind {
        source: PathBuf,
        target: PathBuf,
        access: Access,
        own_ids: bool,
    },
    /// The host's directory with writes into a throwaway layer.
    Overlay {
        source: PathBuf,
        target: PathBuf,
        own_ids: bool,
    },
    /// The workspace as a copy-on-write view of `lower`; `layers` holds what is written.
    Layered {
        lower: PathBuf,
        layers: PathBuf,
        target: PathBuf,
    },
    /// A directory in the private layer that the disk limit holds for.
    Private {
        target: PathBuf,
        mode: u32,
    },
    /// A directory for temporary files; all of them together have `bytes`.
    Temporary {
        target: PathBuf,
        bytes: u64,
        mode: u32,
    },
    Symlink {
        target: PathBuf,
        to: PathBuf,
    },
    /// A small read-only file of ours over the host's.
    File {
        target: PathBuf,
        text: String,
    },
    Device {
        target: PathBuf,
    },
    Terminals {
        target: PathBuf,
    },
    Proc {
        target: PathBuf,
    },
    /// A file of ours in a private place, the command's to change; added to what is there.
    Seed {
        target: PathBuf,
        text: String,
    },
    /// Shown empty, if it is there at all.
    Hide {
        target: PathBuf,
    },
}

impl Mount {
    pub fn target(&self) -> &Path {
        match self {
            Self::Bind { target, .. }
            | Self::Overlay { target, .. }
            | Self::Layered { target, .. }
            | Self::Private { target, .. }
            | Self::Temporary { target, .. }
            | Self::Symlink { target, .. }
            | Self::File { target, .. }
            | Self::Device { target }
            | Self::Terminals { target }
            | Self::Proc { target }
            | Self::Seed { target, .. }
            | Self::Hide { target } => target,
        }
    }
}

/// Who the command is, inside and outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    pub uid: u32,
    pub gid: u32,
    /// For root: the unused id outside, and the owner of the files that the sandbox sees as its own.
    pub mapped: Option<MappedIds>,
    pub user: String,
    pub home: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedIds {
    pub outside: u32,
    pub owner_uid: u32,
    pub owner_gid: u32,
}

/// The workspace, where it has a directory of the host, and where it is inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedWorkspace {
    pub source: PathBuf,
    #[serde(skip)]
    pub device: u64,
    #[serde(skip)]
    pub inode: u64,
    /// Its own path inside, where the policy shows it there too.
    pub own_path: Option<PathBuf>,
    /// Copy-on-write: where writes go. Its protected names are filtered when they are committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<PathBuf>,
    /// Its protected names are pinned.
    pub protect: bool,
    pub unprotect: Vec<String>,
    /// Names that the policy protects beside the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect_too: Vec<String>,
    /// Sockets of the host in it, relative; shown as empty files.
    pub sockets: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedLimits {
    #[serde(skip)]
    pub cgroup: CgroupLimits,
    pub processes: Option<u32>,
    pub open_files: Option<u32>,
    pub disk: Option<u64>,
    pub output: Option<u64>,
    #[serde(skip)]
    pub wall_time: Option<std::time::Duration>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    #[serde(skip)]
    pub provider: ProviderName,
    /// What makes the namespaces, where that is another program, or the socket of a daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    pub mounts: Vec<Mount>,
    /// Which of them come with the order, by index: the others can be made before it.
    #[serde(skip)]
    pub late: Vec<bool>,
    pub workspace: Option<PlannedWorkspace>,
    pub ids: Ids,
    pub hostname: String,
    /// A network namespace of its own, or the host's (waived).
    pub own_network: bool,
    /// The way out of it, if there is one.
    pub egress: Option<PlannedEgress>,
    pub limits: PlannedLimits,
    pub environment: Vec<(String, String)>,
    pub directory: PathBuf,
    pub landlock: bool,
    pub seccomp: bool,
    /// Unix sockets that send to any path, with no `connect` that could be looked at.
    pub unix_datagrams: bool,
    #[serde(skip)]
    pub cgroups: Hierarchy,
    /// Which directory is meant by what is attached at a target.
    #[serde(skip)]
    pub attached: Vec<(PathBuf, FileId)>,
    pub receipt: Receipt,
}

/// Decide everything, or refuse. `provider` is named in the receipt.
pub fn plan(request: &Request, host: &Host, provider: ProviderName) -> Result<Plan, Refusal> {
    let policy = &request.policy.policy;
    let mut receipt = Receipt::new(provider.as_str());
    let egress = plan_egress(request, host);
    network::describe(policy, egress.as_ref(), &mut receipt);
    let needs_filter = egress.is_some() && policy.waived.contains(&Clause::Syscalls);
    if needs_filter {
        return Err(Refusal::NotEnforceable {
            clause: "network",
            why: "which program connects, and to what, is seen by the syscall filter, which is waived".into(),
            fix: "leave `--waive syscalls` out, or open single calls with --allow-syscall".into(),
        });
    }
    let ids = plan_ids(policy, host);
    let workspace = plan_workspace(policy, host);
    let attached = plan_attachments(host, &request.attached)?;
    let attached_at: Vec<PathBuf> = attached.iter().map(|mount| mount.target().to_path_buf()).collect();
    let mut mounts = plan_mounts(policy, host, &ids, workspace.as_ref(), attached);
    mounts.extend(request.attached.hidden.iter().map(|target| Mount::Hide { target: target.clone() }));
    if egress.is_some() {
        mounts.extend(resolver_mount(host));
    }
    let limits = plan_limits(request, host, &mut receipt)?;
    let environment = environment(request, host, &ids, egress.as_ref());
    let directory = working_directory(request, host, workspace.as_ref())?;
    let waived = |clause| policy.waived.contains(&clause);
    let plan = Plan {
        provider,
        program: None,
        own_network: !waived(Clause::Network),
        egress,
        landlock: !waived(Clause::FilesystemLandlock) && host.landlock > 0,
        seccomp: !waived(Clause::Syscalls),
        unix_datagrams: datagrams_stay_inside(policy, host),
        hostname: policy.identity.hostname.clone(),
        cgroups: host.cgroups.clone(),
        attached: host
            .attachments
            .iter()
            .filter_map(|attachment| Some((attachment.target.clone(), attachment.expected?)))
            .collect(),
        late: late_mounts(&mounts, workspace.as_ref(), &attached_at),
        mounts,
        workspace,
        ids,
        limits,
        environment,
        directory,
        receipt,
    };
    crate::clauses::describe(plan, policy, host, request.strict)
}

/// Which mounts come with the order: the workspace, what is attached, what depends on either, and throwaway layers, whose
/// lower directories must not change beneath them for long. So does what lies above or below one of those and comes after
/// it: what is left can be placed before all of them, with the same result.
fn late_mounts(mounts: &[Mount], workspace: Option<&PlannedWorkspace>, attached: &[PathBuf]) -> Vec<bool> {
    let own_path = workspace.and_then(|workspace| workspace.own_path.as_deref());
    let overlap = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
    let mut late: Vec<bool> = Vec::with_capacity(mounts.len());
    for (index, mount) in mounts.iter().enumerate() {
        let target = mount.target();
        let is_late = matches!(
            mount,
            Mount::Overlay { .. } | Mount::Layered { .. } | Mount::Seed { .. } | Mount::Hide { .. }
        ) || target == Path::new(WORKSPACE)
            || own_path == Some(target)
            || attached.iter().any(|at| at == target)
            || mounts[..index].iter().zip(&late).any(|(had, late)| *late && overlap(had.target(), target));
        late.push(is_late);
    }
    late
}

/// Either there is no place where a program of the host could put a socket, or Landlock keeps it out of reach.
fn datagrams_stay_inside(policy: &Policy, host: &Host) -> bool {
    let landlock = !policy.waived.contains(&Clause::FilesystemLandlock) && host.landlock >= RESOLVE_UNIX;
    landlock || !host.shows_more
}

fn plan_ids(policy: &Policy, host: &Host) -> Ids {
    let mapped = match host.ids {
        OuterIds::Own => None,
        OuterIds::Unused(outside) => {
            let shown = host.layers.as_ref().map(|layers| &layers.lower).or(host.workspace.as_ref());
            let owner = shown.map_or((host.uid, host.gid), |found| (found.uid, found.gid));
            Some(MappedIds { outside, owner_uid: owner.0, owner_gid: owner.1 })
        }
    };
    let (uid, gid) = if mapped.is_some() { (INSIDE_ID, INSIDE_ID) } else { (host.uid, host.gid) };
    let own_name = || if mapped.is_some() { "sandbox".into() } else { host.user.clone() };
    let user = policy.identity.user.clone().unwrap_or_else(own_name);
    // Where all of the host is shown, read-only, there is a place for a home only where it has one.
    let own_path = match host_files(policy) {
        HostFiles::All => host.home_exists,
        HostFiles::System => policy.identity.own_home_path,
    };
    let home = match host_files(policy) {
        _ if own_path => host.home.clone(),
        HostFiles::All => Path::new("/run/home").join(&user),
        HostFiles::System => Path::new("/home").join(&user),
    };
    Ids { uid, gid, mapped, user, home }
}

fn plan_workspace(policy: &Policy, host: &Host) -> Option<PlannedWorkspace> {
    let layers = host.layers.as_ref();
    let found = layers.map(|layers| &layers.lower).or(host.workspace.as_ref())?;
    // One in a place that is hidden, our own state say, is at its second name only.
    let is_hidden = |path: &Path| host.hide.iter().any(|hidden| path.starts_with(hidden));
    let own_path = host
        .workspace
        .as_ref()
        .filter(|workspace| policy.profile != ProfileName::Restrictive && !is_hidden(&workspace.path));
    let sockets = host.sockets.iter().filter_map(|path| path.strip_prefix(&found.path).ok());
    Some(PlannedWorkspace {
        source: found.path.clone(),
        device: found.device,
        inode: found.inode,
        own_path: own_path.map(|workspace| workspace.path.clone()),
        layers: layers.map(|layers| layers.directory.clone()),
        protect: layers.is_none() && !policy.waived.contains(&Clause::FilesystemProtected),
        unprotect: policy.filesystem.unprotect.iter().cloned().collect(),
        protect_too: policy.filesystem.protect.iter().cloned().collect(),
        sockets: sockets.map(Path::to_path_buf).collect(),
    })
}

/// Device files that programs take for granted; none reaches hardware.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

fn plan_mounts(
    policy: &Policy,
    host: &Host,
    ids: &Ids,
    workspace: Option<&PlannedWorkspace>,
    attached: Vec<Mount>,
) -> Vec<Mount> {
    let filesystem = &policy.filesystem;
    let path = PathBuf::from;
    let mut mounts = Vec::with_capacity(64);
    for root in &host.roots {
        mounts.push(match (&root.link, &root.source) {
            (Some(to), _) => Mount::Symlink { target: root.path.clone(), to: to.clone() },
            // Our own files, in a directory that is closed to all others: whoever may open it has to do so.
            (None, Some(source)) => bind(source, &root.path, Access::Read, true),
            (None, None) => bind(&root.path, &root.path, Access::Read, false),
        });
    }
    mounts.push(Mount::File { target: path("/etc/passwd"), text: passwd(ids) });
    mounts.push(Mount::File { target: path("/etc/group"), text: group(ids) });
    mounts.push(Mount::File { target: path("/etc/hosts"), text: hosts(&policy.identity.hostname) });
    for device in DEVICES {
        mounts.push(Mount::Device { target: Path::new("/dev").join(device) });
    }
    mounts.push(Mount::Terminals { target: path("/dev/pts") });
    for (target, to) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        mounts.push(Mount::Symlink { target: path(target), to: path(to) });
    }
    let tmp = filesystem.tmp.bytes();
    mounts.push(Mount::Temporary { target: path("/dev/shm"), bytes: tmp, mode: 0o1777 });
    mounts.push(Mount::Temporary { target: path("/tmp"), bytes: tmp, mode: 0o1777 });
    mounts.push(Mount::Private { target: path("/var/tmp"), mode: 0o1777 });
    mounts.push(Mount::Private { target: path("/run"), mode: 0o755 });
    mounts.push(Mount::Proc { target: path("/proc") });
    if host_files(policy) == HostFiles::All && host.overlay && host.home_exists {
        mounts.push(Mount::Overlay { source: host.home.clone(), target: ids.home.clone(), own_ids: true });
    } else {
        mounts.push(Mount::Private { target: ids.home.clone(), mode: 0o700 });
        for toolchain in &host.toolchains {
            let target = toolchain.path.clone();
            mounts.push(if host.overlay {
                Mount::Overlay { source: target.clone(), target, own_ids: true }
            } else {
                bind(&toolchain.path, &target, Access::Read, true)
            });
        }
    }
    if host_files(policy) == HostFiles::System {
        mounts.push(Mount::Seed { target: ids.home.join(".gitconfig"), text: git_config(policy, host, ids) });
    }
    if let Some(workspace) = workspace.filter(|workspace| workspace.protect) {
        let text = git_ignore(&workspace.protect_too);
        mounts.push(Mount::Seed { target: ids.home.join(".config/git/ignore"), text });
    }
    for (paths, access) in [(&host.read, Access::Read), (&host.write, Access::Write)] {
        for shown in paths {
            mounts.push(bind(&shown.real, &shown.real, access, true));
            if shown.written != shown.real {
                mounts.push(bind(&shown.real, &shown.written, access, true));
            }
        }
    }
    match workspace {
        None => mounts.push(Mount::Private { target: path(WORKSPACE), mode: 0o700 }),
        Some(workspace) => {
            mounts.push(match &workspace.layers {
                None => bind(&workspace.source, Path::new(WORKSPACE), Access::Write, true),
                Some(layers) => Mount::Layered {
                    lower: workspace.source.clone(),
                    layers: layers.clone(),
                    target: path(WORKSPACE),
                },
            });
            if let Some(own) = &workspace.own_path {
                mounts.push(bind(&workspace.source, own, Access::Write, true));
            }
        }
    }
    mounts.extend(attached);
    // A file that we write is ours: never one of the user's, where a bind shows the place.
    let bound: Vec<PathBuf> = mounts
        .iter()
        .filter(|mount| matches!(mount, Mount::Bind { .. } | Mount::Layered { .. }))
        .map(|mount| mount.target().to_path_buf())
        .collect();
    mounts.retain(
        |mount| !matches!(mount, Mount::Seed { target, .. } if bound.iter().any(|at| target.starts_with(at))),
    );
    // Parents before children; the sort is stable, so that of two at one place the later one lies on top.
    mounts.sort_by_key(|mount| mount.target().components().count());
    let hidden = hidden(host, workspace, &mounts);
    mounts.extend(hidden.into_iter().map(|target| Mount::Hide { target }));
    mounts
}

/// Credentials of shown toolchains, what the policy hides, and sockets of the host that a bind would show. Sockets
/// in the workspace are hidden with its protected names.
fn hidden(host: &Host, workspace: Option<&PlannedWorkspace>, mounts: &[Mount]) -> Vec<PathBuf> {
    let binds: Vec<&Path> = mounts
        .iter()
        .filter_map(|mount| match mount {
            Mount::Bind { source, target, .. } if source == target => Some(target.as_path()),
            _ => None,
        })
        .collect();
    let in_workspace = |path: &Path| workspace.is_some_and(|workspace| path.starts_with(&workspace.source));
    let credentials = host.toolchains.iter().flat_map(|toolchain| toolchain.hide.iter());
    let sockets = host
        .sockets
        .iter()
        .filter(|path| !in_workspace(path) && binds.iter().any(|shown| path.starts_with(shown)));
    let mut hidden: Vec<PathBuf> = credentials.chain(&host.hide).chain(sockets).cloned().collect();
    if let Some(workspace) = &host.workspace {
        // The same place under the workspace's other name.
        let twins: Vec<PathBuf> = host
            .hide
            .iter()
            .filter_map(|path| path.strip_prefix(&workspace.path).ok())
            .map(|rest| Path::new(WORKSPACE).join(rest))
            .collect();
        hidden.extend(twins);
    }
    for workspace in host.attachments.iter().filter_map(Attachment::workspace) {
        let below = |path: &PathBuf| Some(Path::new(WORKSPACE).join(path.strip_prefix(workspace).ok()?));
        hidden.extend(host.hide.iter().chain(&host.sockets).filter_map(below));
    }
    hidden
}

fn bind(source: &Path, target: &Path, access: Access, own_ids: bool) -> Mount {
    Mount::Bind { source: source.to_path_buf(), target: target.to_path_buf(), access, own_ids }
}

/// git knows who it is, also where the caller's own configuration is out of sight.
fn git_config(policy: &Policy, host: &Host, ids: &Ids) -> String {
    let (name, email) = match &host.git_user {
        Some(user) => (user.name.clone(), user.email.clone()),
        None => (ids.user.clone(), format!("{}@{}", ids.user, policy.identity.hostname)),
    };
    format!("[user]\n\tname = {name}\n\temail = {email}\n")
}

/// Placeholders are nobody's files: `git add -A` must not commit them.
fn git_ignore(too: &[String]) -> String {
    let usual = protected().iter().filter(|entry| entry.parent.is_none()).map(|entry| entry.name);
    // A name that is a pattern to git is not written: it would leave out files of the user's.
    let plain = |name: &&str| !name.contains(['*', '?', '[', '\\', '\n', '#', '!', ' ']);
    usual.chain(too.iter().map(String::as_str).filter(plain)).map(|name| format!("/{name}\n")).collect()
}

fn passwd(ids: &Ids) -> String {
    let Ids { uid, gid, user, home, .. } = ids;
    let home = home.display().to_string().replace([':', '\n'], "_");
    format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n{user}:x:{uid}:{gid}:{user}:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
    )
}

fn group(ids: &Ids) -> String {
    format!("root:x:0:\n{}:x:{}:\nnogroup:x:65534:\n", ids.user, ids.gid)
}

fn hosts(hostname: &str) -> String {
    format!("127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost {hostname}\n")
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;
