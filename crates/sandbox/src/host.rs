//! What a plan needs to know of this host, looked up once, before the plan. The plan itself does no I/O.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_linux::{Hierarchy, environment_names, landlock_abi, read_kernel_file};
use ringfence_policy::{
    Clause, HostFiles, Policy, SecretSource, ToolchainDir, Workspace, secrets, toolchains_for_path,
};

use crate::attachment::Attachment;
use crate::image::{ImageFacts, ImageTree};
use crate::layers::LayersDir;
use crate::network::{NetworkFacts, needs_egress};
use crate::protect::sockets_in;
use crate::refusal::Refusal;
use crate::request::Request;

/// A directory or symlink in `/` of the host, or of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootEntry {
    pub path: PathBuf,
    pub link: Option<PathBuf>,
    /// Where an image has it; `None`: the host, at the same path.
    pub source: Option<PathBuf>,
}

/// A host path that a clause names, as it was written and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPath {
    pub written: PathBuf,
    pub real: PathBuf,
    pub is_dir: bool,
}

/// The user's own directory that a sandbox may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceDir {
    pub path: PathBuf,
    pub uid: u32,
    pub gid: u32,
    /// Told apart from anything that is put in its place between here and the mount.
    pub device: u64,
    pub inode: u64,
}

impl WorkspaceDir {
    /// Of the directory at `path`, which has no link in it.
    pub(crate) fn of(path: PathBuf) -> std::io::Result<Self> {
        let facts = fs::symlink_metadata(&path)?;
        if !facts.is_dir() {
            return Err(rustix::io::Errno::NOTDIR.into());
        }
        Ok(Self { uid: facts.uid(), gid: facts.gid(), device: facts.dev(), inode: facts.ino(), path })
    }
}

/// The name and address that commits carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitUser {
    pub name: String,
    pub email: String,
}

/// Which ids a sandbox of this caller can have outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterIds {
    /// The caller's own, an ordinary user's.
    Own,
    /// One that nobody uses: the caller is root, and root is never mapped in.
    Unused(u32),
}

#[derive(Clone, Debug)]
pub struct Host {
    pub uid: u32,
    pub gid: u32,
    pub user: String,
    pub home: PathBuf,
    pub ids: OuterIds,
    pub current: PathBuf,
    pub environment: BTreeMap<String, String>,
    pub roots: Vec<RootEntry>,
    pub workspace: Option<WorkspaceDir>,
    /// What is said of the image that takes the host's place.
    pub image: Option<ImageFacts>,
    /// For a copy-on-write workspace: what lies beneath, and where writes go.
    pub layers: Option<LayersDir>,
    pub read: Vec<HostPath>,
    pub write: Vec<HostPath>,
    /// With their sources as they really are.
    pub attachments: Vec<Attachment>,
    pub hide: Vec<PathBuf>,
    pub toolchains: Vec<ToolchainDir>,
    /// Who the caller is to git, where the policy shows anything of the caller's.
    pub git_user: Option<GitUser>,
    /// Directories other than the system's are shown, where a program of the host could make a socket.
    pub shows_more: bool,
    /// Unix sockets that programs of the host listen on now.
    pub sockets: Vec<PathBuf>,
    /// What a plan with a network needs to know; nothing without one.
    pub network: NetworkFacts,
    pub cgroups: Hierarchy,
    pub landlock: i32,
    pub open_files_hard: u64,
    pub home_exists: bool,
    /// An overlay can keep its writes in a tmpfs of an ordinary user.
    pub overlay: bool,
}

/// System directories: programs, libraries and their settings, nothing of a user's.
const SYSTEM: &[&str] =
    &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu"];
/// Never shown from the host, whatever the policy: kernel interfaces, devices, others' sockets and temporary files.
pub(crate) const NEVER: &[&str] = &["proc", "sys", "dev", "run", "tmp", "lost+found", "workspace", "skills"];

impl Host {
    pub fn look(request: &Request) -> Result<Self, Refusal> {
        let policy = &request.policy.policy;
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        if uid != rustix::process::geteuid().as_raw() || gid != rustix::process::getegid().as_raw() {
            return Err(Refusal::bad(
                "ringfence was started with an effective user other than the real one",
                "do not install it setuid; run it as the user whose sandbox it is",
            ));
        }
        let (user, home) = account(uid);
        let current = std::env::current_dir().map_err(|error| {
            Refusal::bad(
                format!("the current directory cannot be used: {error}"),
                "change to a directory that exists",
            )
        })?;
        let environment = passed_environment(policy);
        let workspace = find_workspace(policy, &current, &home)?;
        let layers =
            request.workspace_layers.as_ref().map(|layers| layers.look(workspace.as_ref())).transpose()?;
        let image = image_of(request)?;
        // With an image those of the home are shown only where somebody asked for them: they are made for the host's libraries.
        let toolchains_wanted = policy.filesystem.toolchains
            && (image.is_none() || request.policy.origins.asked(Clause::FilesystemToolchains));
        let toolchains = if toolchains_wanted { find_toolchains(&home) } else { Vec::new() };
        let all = host_files(policy) == HostFiles::All;
        let resolve = |paths: &[PathBuf]| -> Result<Vec<HostPath>, Refusal> {
            paths.iter().map(|path| host_path(path, &current, &home)).collect()
        };
        let (read, write) = (resolve(&policy.filesystem.read)?, resolve(&policy.filesystem.write)?);
        let mut hide: Vec<PathBuf> =
            policy.filesystem.hide.iter().map(|path| absolute(path, &current, &home)).collect();
        if all {
            let named = |path: &PathBuf| read.iter().chain(&write).any(|shown| shown.written == *path);
            hide.extend(find_secrets(&home).filter(|path| !named(path)));
        }
        // What a secret is read from stays outside, as its value does.
        hide.extend(policy.network.secrets.iter().filter_map(|secret| match &secret.from {
            SecretSource::File(path) => Some(absolute(path, &current, &home)),
            _ => None,
        }));
        hide.push(request.state.clone());
        let real: Vec<PathBuf> = hide.iter().filter_map(|path| real_path(path)).collect();
        hide.extend(real);
        hide.sort();
        hide.dedup();
        let attachments = request
            .attached
            .directories
            .iter()
            .map(|attachment| attachment.look(host_path(&attachment.source, &current, &home)?.real));
        let attachments = attachments.collect::<Result<Vec<_>, Refusal>>()?;
        let shows_more = all
            || workspace.is_some()
            || layers.is_some()
            || !read.is_empty()
            || !write.is_empty()
            || !toolchains.is_empty()
            || !attachments.is_empty();
        refuse_shown_and_hidden(read.iter().chain(&write), &hide)?;
        refuse_writing_above(&request.state, write.iter().map(|path| &path.real), workspace.as_ref())?;
        let asked: Vec<PathBuf> =
            policy.filesystem.hide.iter().map(|path| absolute(path, &current, &home)).collect();
        hide.retain(|path| asked.contains(path) || !is_our_own(path));
        let roots = match image {
            Some(image) => {
                let mut places = vec![PathBuf::from("/var/tmp"), home.clone()];
                places.extend(workspace.as_ref().map(|workspace| workspace.path.clone()));
                places.extend(
                    read.iter().chain(&write).flat_map(|path| [path.written.clone(), path.real.clone()]),
                );
                places.extend(toolchains.iter().map(|toolchain| toolchain.path.clone()));
                places.extend(attachments.iter().map(|attachment| attachment.target.clone()));
                places.extend(request.attached.aliases.iter().map(|alias| alias.target.clone()));
                image.roots(&places)?
            }
            None if all => all_roots(),
            None => system_roots(),
        };
        let shown = read.iter().chain(&write).filter(|path| path.is_dir).map(|path| &*path.real);
        let shown = shown.chain(attachments.iter().filter_map(Attachment::workspace));
        let sockets = if shows_more { sockets_shown(shown) } else { Vec::new() };
        Ok(Self {
            uid,
            gid,
            ids: outer_ids(uid)?,
            environment,
            roots,
            image: image.map(ImageTree::facts),
            read,
            write,
            attachments,
            hide,
            toolchains,
            git_user: if policy.identity.own_home_path { git_user(&home) } else { None },
            shows_more,
            sockets,
            network: network_facts(request),
            cgroups: Hierarchy::detect(),
            landlock: landlock_abi(),
            open_files_hard: rustix::process::getrlimit(rustix::process::Resource::Nofile)
                .maximum
                .unwrap_or(u64::MAX),
            home_exists: home.is_dir(),
            overlay: kernel_release() >= (6, 6),
            user,
            home,
            current,
            workspace,
            layers,
        })
    }
}

/// What of the host's files a policy shows. An image takes their place, whatever the profile has.
pub(crate) fn host_files(policy: &Policy) -> HostFiles {
    if policy.image.is_some() { HostFiles::System } else { policy.filesystem.host }
}

/// The image that the policy names, and no other. A request without it is refused: the host's own directories would be shown.
fn image_of(request: &Request) -> Result<Option<&ImageTree>, Refusal> {
    match (&request.policy.policy.image, &request.image) {
        (None, None) => Ok(None),
        (Some(name), Some(image)) if image.name == *name => Ok(Some(image)),
        (Some(name), _) => Err(Refusal::NotEnforceable {
            clause: Clause::FilesystemHost.as_str(),
            why: format!("the image `{name}` is not used by what makes this sandbox"),
            fix: "leave the image out, or run the command with `ringfence run --image`".into(),
        }),
        (None, Some(image)) => Err(Refusal::bad(
            format!("the image `{}` is given and the policy names none", image.name),
            "name it in the policy",
        )),
    }
}

fn network_facts(request: &Request) -> NetworkFacts {
    if !needs_egress(request) {
        return NetworkFacts::default();
    }
    let facts = NetworkFacts::look();
    match &request.image {
        Some(image) => image.network(facts),
        None => facts,
    }
}

/// (6, 6) of "6.6.1-generic". tmpfs has the attributes that an overlay's upper layer needs since then.
fn kernel_release() -> (u32, u32) {
    let name = rustix::system::uname();
    let mut numbers =
        name.release().to_str().unwrap_or_default().split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Name and home of a uid, from the passwd file: a static program asks no name service.
fn account(uid: u32) -> (String, PathBuf) {
    let home_variable = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let text = fs::read("/etc/passwd").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let entry = text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.len() >= 6 && fields[2].parse() == Ok(uid))
            .then(|| (fields[0].to_string(), PathBuf::from(fields[5])))
    });
    match (entry, home_variable) {
        (Some((user, home)), variable) => (user, variable.unwrap_or(home)),
        (None, variable) => (format!("user{uid}"), variable.unwrap_or_else(|| PathBuf::from("/home/user"))),
    }
}

/// From the caller's global git configuration: these two keys and nothing else of it.
fn git_user(home: &Path) -> Option<GitUser> {
    let text = [".gitconfig", ".config/git/config"]
        .iter()
        .find_map(|name| fs::read_to_string(home.join(name)).ok())?;
    let mut in_user = false;
    let (mut name, mut email) = (None, None);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_user = line.eq_ignore_ascii_case("[user]");
        } else if in_user && let Some((key, value)) = line.split_once('=') {
            let value = value.trim().trim_matches('"').to_string();
            match key.trim().to_ascii_lowercase().as_str() {
                "name" => name = Some(value),
                "email" => email = Some(value),
                _ => {}
            }
        }
    }
    let plain =
        |text: &String| !text.is_empty() && !text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\'));
    Some(GitUser { name: name.filter(plain)?, email: email.filter(plain)? })
}

/// The ids that the caller's own user namespace has, as (first, count).
fn id_ranges() -> Vec<(u64, u64)> {
    let text = read_kernel_file("/proc/self/uid_map").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let first = fields.next()?.parse().ok()?;
            Some((first, fields.nth(1)?.parse().ok()?))
        })
        .collect()
}

/// The first of a range that no distribution gives to users or containers.
const UNUSED_IDS: u64 = 0x7000_0000;

fn outer_ids(uid: u32) -> Result<OuterIds, Refusal> {
    if uid != 0 {
        return Ok(OuterIds::Own);
    }
    let ranges = id_ranges();
    // A process id is unique while its process lives, and so is the id made of it.
    let wanted = UNUSED_IDS + u64::from(std::process::id());
    if ranges.iter().any(|(first, count)| (*first..first + count).contains(&wanted)) {
        return Ok(OuterIds::Unused(wanted as u32));
    }
    match ranges.iter().max_by_key(|(_, count)| *count) {
        // A container that maps a single id has no other: "root" there is an ordinary user outside.
        Some((_, 1)) => Ok(OuterIds::Own),
        Some((first, count)) if first + count > 2 => Ok(OuterIds::Unused((first + count - 2) as u32)),
        _ => Err(Refusal::NotEnforceable {
            clause: "identity",
            why: "the ids of this user namespace cannot be read from /proc/self/uid_map".into(),
            fix: "mount /proc, or run as an ordinary user".into(),
        }),
    }
}

/// Secrets are withheld by `passes`: their values are egress's to know, and not even this process reads them.
fn passed_environment(policy: &Policy) -> BTreeMap<String, String> {
    environment_names()
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| policy.environment.passes(name))
        .filter_map(|name| std::env::var(&name).ok().map(|value| (name, value)))
        .collect()
}

/// `path` with its symlinks resolved; where its last part does not exist, that of its parent.
fn real_path(path: &Path) -> Option<PathBuf> {
    match fs::canonicalize(path) {
        Ok(real) => Some(real),
        Err(_) => Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?)),
    }
}

/// `path` made absolute; `~/` is the caller's home.
fn absolute(path: &Path, current: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => current.join(path),
    }
}

fn host_path(path: &Path, current: &Path, home: &Path) -> Result<HostPath, Refusal> {
    let written = absolute(path, current, home);
    let problem = |error: std::io::Error| {
        Refusal::bad(
            format!("{} cannot be shown in the sandbox: {error}", written.display()),
            "name a path that exists, or leave the clause out",
        )
    };
    let real = fs::canonicalize(&written).map_err(problem)?;
    let is_dir = fs::metadata(&real).map_err(problem)?.is_dir();
    let never = real.components().nth(1).is_some_and(|first| {
        first.as_os_str().to_str().is_some_and(|first| matches!(first, "proc" | "sys" | "dev"))
    });
    if never || real == Path::new("/") {
        return Err(Refusal::bad(
            format!("{} cannot be shown in the sandbox: it is not a place for files", real.display()),
            "name a directory or file of a disk",
        ));
    }
    Ok(HostPath { written, real, is_dir })
}

fn find_workspace(policy: &Policy, current: &Path, home: &Path) -> Result<Option<WorkspaceDir>, Refusal> {
    let (path, asked) = match &policy.filesystem.workspace {
        Workspace::Private => return Ok(None),
        Workspace::Current => (current.to_path_buf(), false),
        Workspace::Path(path) => (absolute(path, current, home), true),
    };
    let fix = "pass --workspace DIR with a directory of your own";
    let problem =
        |what: &str| Refusal::bad(format!("{} cannot be the workspace: {what}", path.display()), fix);
    let real = fs::canonicalize(&path).map_err(|error| problem(&error.to_string()))?;
    if !fs::metadata(&real).map_err(|error| problem(&error.to_string()))?.is_dir() {
        return Err(problem("it is not a directory"));
    }
    let real_home = fs::canonicalize(home).unwrap_or_else(|_| home.to_path_buf());
    if real_home.starts_with(&real) {
        let which = if asked { "it" } else { "the current directory" };
        return Err(problem(&format!(
            "{which} holds your whole home directory, keys and passwords included"
        )));
    }
    let first = real.components().nth(1).map(|first| first.as_os_str().to_owned());
    let is_system = first.is_none_or(|first| {
        let first = first.to_string_lossy();
        let whole = real.components().count() == 2;
        matches!(&*first, "proc" | "sys" | "dev") || (whole && (SYSTEM.contains(&&*first) || first == "run"))
    });
    if is_system {
        return Err(problem("it is a directory of the system"));
    }
    WorkspaceDir::of(real).map(Some).map_err(|error| problem(&error.to_string()))
}

fn find_toolchains(home: &Path) -> Vec<ToolchainDir> {
    let path = std::env::var("PATH").unwrap_or_default();
    let locators =
        ["CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "NVM_DIR", "GOPATH", "GOROOT", "VOLTA_HOME", "DENO_DIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)))
            .collect();
    let mut found = toolchains_for_path(&path, home, &locators);
    found.retain(|toolchain| toolchain.path.is_dir());
    found
}

/// Those of the list that exist. A parent of the home is not one of them here: the home is shown by other rules.
fn find_secrets(home: &Path) -> impl Iterator<Item = PathBuf> {
    secrets()
        .iter()
        .map(|secret| home.join(secret.path))
        .filter(move |path| !home.starts_with(path) && path.symlink_metadata().is_ok())
}

/// A directory in whose place there is one of ours inside, `/run` say, also under another name: nothing of the host is
/// there to be hidden, only what we put there.
fn is_our_own(path: &Path) -> bool {
    let real = real_path(path);
    real.is_some_and(|real| NEVER.iter().any(|name| real == Path::new("/").join(name)))
}

/// Hiding wins, so that a path to be shown beneath a hidden one would silently be missing.
fn refuse_shown_and_hidden<'a>(
    shown: impl Iterator<Item = &'a HostPath>,
    hidden: &[PathBuf],
) -> Result<(), Refusal> {
    for path in shown {
        if let Some(over) =
            hidden.iter().find(|over| path.real.starts_with(over) || path.written.starts_with(over))
        {
            return Err(Refusal::bad(
                format!(
                    "{} cannot be shown: {} is hidden, and hiding wins",
                    path.written.display(),
                    over.display()
                ),
                "copy the file elsewhere, or take the rule that hides it out",
            ));
        }
    }
    Ok(())
}

/// Our own state is hidden, but whoever may write above it could put another directory in its place, with trust and grants of
/// their own making.
fn refuse_writing_above<'a>(
    state: &Path,
    written: impl Iterator<Item = &'a PathBuf>,
    workspace: Option<&'a WorkspaceDir>,
) -> Result<(), Refusal> {
    // It may not be there yet: then what is there above it counts.
    let real = state.ancestors().find_map(real_path).unwrap_or_else(|| state.to_path_buf());
    let holds = |path: &Path| state.starts_with(path) || real.starts_with(path);
    let workspace = workspace.map(|workspace| &workspace.path);
    match written.chain(workspace).find(|path| holds(path)) {
        None => Ok(()),
        Some(path) => Err(Refusal::bad(
            format!(
                "{} cannot be written in the sandbox: ringfence keeps its own state in it, {}, which a command could exchange",
                path.display(),
                state.display()
            ),
            "name the directories below it that the command needs, or keep the state elsewhere with XDG_STATE_HOME",
        )),
    }
}

fn root_entry(name: &str) -> Option<RootEntry> {
    let path = Path::new("/").join(name);
    let facts = path.symlink_metadata().ok()?;
    if facts.is_symlink() {
        let link = fs::read_link(&path).ok()?;
        return Some(RootEntry { path, link: Some(link), source: None });
    }
    facts.is_dir().then_some(RootEntry { path, link: None, source: None })
}

fn system_roots() -> Vec<RootEntry> {
    SYSTEM.iter().filter_map(|name| root_entry(name)).collect()
}

fn all_roots() -> Vec<RootEntry> {
    let Ok(entries) = fs::read_dir("/") else { return system_roots() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.iter().filter(|name| !NEVER.contains(&name.as_str())).filter_map(|name| root_entry(name)).collect()
}

/// Those, and the ones near the top of extra directories: one that was bound by a relative name has no path in the table.
fn sockets_shown<'a>(shown: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut sockets = listening_sockets();
    sockets.extend(shown.flat_map(sockets_in));
    sockets.sort();
    sockets.dedup();
    sockets
}

/// Paths of the sockets in this network namespace's table. Those of other namespaces, and those made later, are
/// what SECURITY.md says of a direct workspace.
fn listening_sockets() -> Vec<PathBuf> {
    let Ok(table) = fs::read_to_string("/proc/net/unix") else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        table.lines().filter_map(|line| line.find(" /").map(|at| PathBuf::from(&line[at + 1..]))).collect();
    paths.sort();
    paths.dedup();
    paths
}
