//! Named workspaces: directories of ours that outlive the sessions which write them. With a size they are images of their
//! own, mounted for the session that has them and for nobody else.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_policy::ByteSize;
use ringfence_sandbox::{Place, SessionFacts, WorkspaceKind, own_mounts, system_program};
use ringfence_skills::remove_tree;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::sessions::list_sessions;

const FILES: &str = "files";
const IMAGE: &str = "image";
const MOUNTED: &str = "mounted";
const LOCK: &str = "lock";
const MOST_PARTS: usize = 2;
const LONGEST_PART: usize = 64;
/// A file system needs some room for itself.
const SMALLEST: u64 = 16 << 20;

/// A named workspace, held.
#[derive(Debug)]
pub struct NamedWorkspace {
    /// Where its files are.
    pub path: PathBuf,
    lock: File,
}

impl NamedWorkspace {
    pub(crate) fn into_lock(self) -> OwnedFd {
        self.lock.into()
    }
}

/// One workspace of a list.
#[derive(Clone, Debug, Serialize)]
pub struct WorkspaceRow {
    pub name: String,
    /// What its files take up.
    pub bytes: u64,
    pub files: u64,
    /// What they may take up, where that is held.
    pub limit: Option<u64>,
    /// Sessions that live in it.
    pub sessions: Vec<String>,
}

fn bad(message: String, hint: &str) -> ServiceError {
    ServiceError::new(ErrorCode::BadRequest, message, hint)
}

fn all(places: &Places) -> PathBuf {
    places.state.path().join("workspaces")
}

/// `NAME` or `TEAM/NAME`, each part checked: nothing in it leads elsewhere.
fn directory(places: &Places, name: &str) -> Result<PathBuf, ServiceError> {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part_fits = |part: &str| {
        part.len() <= LONGEST_PART
            && part.bytes().next().is_some_and(first)
            && part.bytes().all(|byte| first(byte) || b"._-".contains(&byte))
            && ![FILES, IMAGE, MOUNTED, LOCK].contains(&part)
    };
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > MOST_PARTS || !parts.iter().all(|part| part_fits(part)) {
        return Err(bad(
            format!("`{}` is no name for a workspace", name.escape_debug()),
            "use NAME or TEAM/NAME, each of up to 64 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit",
        ));
    }
    Ok(parts.iter().fold(all(places), |path, part| path.join(part)))
}

fn is_workspace(directory: &Path) -> bool {
    let kind = |part: &str| fs::symlink_metadata(directory.join(part)).map(|facts| facts.file_type());
    // Through no link: a session's commands write right below.
    kind(FILES).is_ok_and(|kind| kind.is_dir()) || kind(IMAGE).is_ok_and(|kind| kind.is_file())
}

/// Make a workspace. With a size its files can't grow beyond it, in whatever session: that takes root.
pub fn create_workspace(places: &Places, name: &str, size: Option<ByteSize>) -> Result<(), ServiceError> {
    let directory = directory(places, name)?;
    places.state.ensure()?;
    if is_workspace(&directory) {
        return Err(bad(format!("there is a workspace `{name}` already"), "see `ringfence workspace ls`"));
    }
    let problem = |error: io::Error| ServiceError::state("make", &directory, &error);
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(problem)?;
    let Some(size) = size else {
        return DirBuilder::new().mode(0o700).create(directory.join(FILES)).map_err(problem);
    };
    let made = make_image(&directory, size);
    if made.is_err() {
        let _ = fs::remove_file(directory.join(IMAGE));
        let _ = fs::remove_dir(&directory);
    }
    made
}

fn make_image(directory: &Path, size: ByteSize) -> Result<(), ServiceError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ServiceError::new(
            ErrorCode::NotEnforceable,
            "the size of a workspace can't be held here: its file system has no project quota, and only root can mount an \
             image",
            "leave --size out, or run as root",
        ));
    }
    if size.bytes() < SMALLEST {
        return Err(bad(format!("{size} is too small for a workspace"), "16M is the least"));
    }
    let image = directory.join(IMAGE);
    let problem = |error: io::Error| ServiceError::state("make", &image, &error);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&image).map_err(problem)?;
    file.set_len(size.bytes()).map_err(problem)?;
    let mut mkfs = program("mkfs.ext4")?;
    run("mkfs.ext4", mkfs.args(["-q", "-F", "-m", "0"]).arg(&image))
}

/// Run by root: never what a project put on PATH.
fn program(name: &str) -> Result<Command, ServiceError> {
    let found = system_program(name).ok_or_else(|| missing(name, "no directory of the system has it"))?;
    Ok(Command::new(found))
}

fn missing(name: &str, why: &str) -> ServiceError {
    let hint = "install the packages e2fsprogs and mount";
    ServiceError::new(ErrorCode::Missing, format!("cannot start {name}: {why}"), hint)
}

fn run(name: &str, command: &mut Command) -> Result<(), ServiceError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| missing(name, &error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ServiceError::new(
        ErrorCode::SandboxFailed,
        format!("{name} failed: {said}"),
        "see whether loop devices are there",
    ))
}

/// Hold a workspace for a session that is about to be made, and make it if it isn't there. An image is mounted for this
/// process and its children alone, so that it goes with the session.
pub fn use_workspace(places: &Places, name: &str) -> Result<NamedWorkspace, ServiceError> {
    let directory = directory(places, name)?;
    // Of two that want it first, one makes it, and the other finds it.
    if !is_workspace(&directory)
        && let Err(error) = create_workspace(places, name, None)
        && !is_workspace(&directory)
    {
        return Err(error);
    }
    let path = directory.join(LOCK);
    let problem = |error: io::Error| ServiceError::state("hold", &path, &error);
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(problem)?;
    let has_image = directory.join(IMAGE).is_file();
    // Two mounts of one image would ruin it; a directory can be shared.
    let how = match has_image {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    match flock(&lock, how) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(bad(
                format!("the workspace `{name}` is in use, and one with a size can be in one session only"),
                "end that session first: `ringfence workspace ls` tells which",
            ));
        }
        Err(error) => return Err(problem(error.into())),
    }
    let path = if has_image { mount_image(&directory)? } else { directory.join(FILES) };
    Ok(NamedWorkspace { path, lock })
}

fn mount_image(directory: &Path) -> Result<PathBuf, ServiceError> {
    let mounted = directory.join(MOUNTED);
    let problem = |error: io::Error| ServiceError::state("mount", &mounted, &error);
    match DirBuilder::new().mode(0o700).create(&mounted) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(problem(error)),
        _ => {}
    }
    own_mounts().map_err(problem)?;
    let mut mount = program("mount")?;
    mount.args(["--no-mtab", "-o", "loop,nosuid,nodev"]).arg(directory.join(IMAGE)).arg(&mounted);
    run("mount", &mut mount)?;
    let files = mounted.join(FILES);
    match DirBuilder::new().mode(0o700).create(&files) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(problem(error)),
        _ => Ok(files),
    }
}

/// All workspaces, with what they hold.
pub fn list_workspaces(places: &Places) -> Result<Vec<WorkspaceRow>, ServiceError> {
    workspaces_named(places, |_| true)
}

/// Those of these names. Of the others no file is looked at.
pub fn workspaces_named(
    places: &Places,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<WorkspaceRow>, ServiceError> {
    let names: Vec<String> = names(places)?.into_iter().filter(|name| wanted(name)).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let sessions = list_sessions(places, false)?;
    let mut rows = Vec::new();
    for name in names {
        let directory = directory(places, &name)?;
        let image = fs::symlink_metadata(directory.join(IMAGE)).ok().filter(fs::Metadata::is_file);
        let (bytes, files) = match &image {
            // What the image takes on its own disk; its files are seen by its session only.
            Some(image) => (image.blocks() * 512, 0),
            None => usage(&directory.join(FILES)),
        };
        let lives = |row: &&crate::sessions::SessionRow| {
            row.facts.workspace.as_ref().is_some_and(|path| path.starts_with(&directory))
        };
        let sessions = sessions.iter().filter(lives).map(|row| row.facts.id.clone()).collect();
        rows.push(WorkspaceRow { name, bytes, files, limit: image.map(|image| image.len()), sessions });
    }
    Ok(rows)
}

fn names(places: &Places) -> Result<Vec<String>, ServiceError> {
    let root = all(places);
    let mut found = Vec::new();
    for (name, path) in entries(&root)? {
        if directory(places, &name).is_err() {
            continue;
        }
        if is_workspace(&path) {
            found.push(name.clone());
        }
        for (inner, path) in entries(&path)? {
            let inner = format!("{name}/{inner}");
            // The parts of a workspace are none.
            if directory(places, &inner).is_ok() && is_workspace(&path) {
                found.push(inner);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<(String, PathBuf)>, ServiceError> {
    let read = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|error| ServiceError::state("read", directory, &error))?,
    };
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = read.flatten().filter(is_directory);
    Ok(entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect())
}

/// Bytes on disk and entries, through no link, whatever the depth.
fn usage(top: &Path) -> (u64, u64) {
    counted(top, &mut HashSet::new())
}

/// A file with several names is counted once for all that `seen` has met.
fn counted(top: &Path, seen: &mut HashSet<(u64, u64)>) -> (u64, u64) {
    let (mut bytes, mut files) = (0, 0);
    let mut waiting = vec![top.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(facts) = entry.metadata() else { continue };
            files += 1;
            if facts.is_dir() {
                waiting.push(entry.path());
            } else if facts.nlink() > 1 && !seen.insert((facts.dev(), facts.ino())) {
                continue;
            }
            bytes += facts.blocks() * 512;
        }
    }
    (bytes, files)
}

/// What a session's workspace takes up on this machine's own disk: its copy-on-write layer, or the named workspace. None for one in
/// memory, which its private disk counts, and for a directory of its user's, which others write too.
pub fn workspace_bytes(facts: &SessionFacts, place: &Place) -> Option<u64> {
    match (facts.workspace_kind, &facts.workspace) {
        (WorkspaceKind::Overlay, _) => Some(usage(&place.layers()).0),
        (WorkspaceKind::Named, Some(path)) => {
            let image = path.parent().and_then(Path::parent).map(|directory| directory.join(IMAGE));
            let image =
                image.and_then(|image| fs::symlink_metadata(image).ok()).filter(fs::Metadata::is_file);
            Some(image.map_or_else(|| usage(path).0, |image| image.blocks() * 512))
        }
        _ => None,
    }
}

/// Where one user of a server has workspaces, and snapshots.
pub(crate) fn tenant_directories(places: &Places, user: &str) -> [PathBuf; 2] {
    [all(places).join(user), places.state.path().join("tenants").join(user)]
}

/// What one user of a server holds on its disk: workspaces, snapshots, and what their sandboxes have written apart. A fork
/// begins with other names of a snapshot's files, which are counted once, and also when the snapshot is gone.
pub fn tenant_usage(places: &Places, user: &str, sandboxes: &[String]) -> (u64, u64) {
    let sessions = places.state.path().join("sessions");
    let apart = sandboxes.iter().flat_map(|id| {
        let place = sessions.join(id);
        ["layers", "beginning", "logs"].map(|part| place.join(part))
    });
    let mut seen = HashSet::new();
    tenant_directories(places, user).into_iter().chain(apart).fold((0, 0), |(bytes, files), top| {
        let (more, many) = counted(&top, &mut seen);
        (bytes + more, files + many)
    })
}

/// Remove a workspace with all its files. Refused while a session lives in it.
pub fn remove_workspace(places: &Places, name: &str) -> Result<(), ServiceError> {
    let directory = directory(places, name)?;
    if !is_workspace(&directory) {
        return Err(bad(format!("there is no workspace `{name}`"), "see `ringfence workspace ls`"));
    }
    let path = directory.join(LOCK);
    let problem = |error: io::Error| ServiceError::state("remove", &directory, &error);
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(problem)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(bad(
            format!("a session lives in the workspace `{name}`"),
            "end it first: `ringfence workspace ls` tells which",
        ));
    }
    for part in [FILES, MOUNTED] {
        match remove_tree(&directory.join(part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(problem(error)),
            _ => {}
        }
    }
    for part in [IMAGE, LOCK] {
        match fs::remove_file(directory.join(part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(problem(error)),
            _ => {}
        }
    }
    // A team's directory may hold other workspaces.
    for directory in [Some(directory.as_path()), directory.parent().filter(|parent| *parent != all(places))] {
        let _ = directory.map(fs::remove_dir);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let places = Places { state: crate::StateDir::new(root.path()), ..Places::from_env().unwrap() };
        for name in ["a", "team/a", "a.b-c_d", "0"] {
            assert!(directory(&places, name).unwrap().starts_with(root.path().join("workspaces")), "{name}");
        }
        for name in
            ["", "/", "a/", "/a", "..", "a/..", "../a", "a/b/c", "A", ".a", "a/files", "image", "a\0", "a b"]
        {
            assert!(directory(&places, name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn made_listed_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let places = Places { state: crate::StateDir::new(root.path()), ..Places::from_env().unwrap() };
        create_workspace(&places, "team/one", None).unwrap();
        assert!(create_workspace(&places, "team/one", None).is_err());
        let held = use_workspace(&places, "team/one").unwrap();
        fs::write(held.path.join("x"), "hello").unwrap();
        let rows = list_workspaces(&places).unwrap();
        assert_eq!((rows.len(), rows[0].name.as_str(), rows[0].files), (1, "team/one", 1));
        assert!(remove_workspace(&places, "team/one").is_err(), "it is held");
        drop(held);
        remove_workspace(&places, "team/one").unwrap();
        assert!(list_workspaces(&places).unwrap().is_empty());
        assert!(remove_workspace(&places, "team/one").is_err());
    }

    /// A hostile command has all of a workspace's top.
    #[test]
    fn a_list_is_of_workspaces_only_and_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let places = Places { state: crate::StateDir::new(root.path()), ..Places::from_env().unwrap() };
        let held = use_workspace(&places, "one").unwrap();
        fs::write(root.path().join("secret"), vec![1; 12345]).unwrap();
        std::os::unix::fs::symlink(root.path(), held.path.join("files")).unwrap();
        std::os::unix::fs::symlink(root.path().join("secret"), held.path.join("image")).unwrap();
        for inner in ["team", "files"] {
            fs::create_dir_all(held.path.join("deep").join(inner).join("files")).unwrap();
        }
        let rows = list_workspaces(&places).unwrap();
        assert_eq!((rows.len(), rows[0].name.as_str(), rows[0].limit), (1, "one", None));
        assert_eq!(rows[0].files, 7, "{rows:?}");
        // Nor where such links are in a place of ours.
        let team = root.path().join("workspaces/team/two");
        fs::create_dir_all(&team).unwrap();
        std::os::unix::fs::symlink(root.path(), team.join("files")).unwrap();
        std::os::unix::fs::symlink(root.path().join("secret"), team.join("image")).unwrap();
        assert_eq!(list_workspaces(&places).unwrap().len(), 1);
    }

    /// A first request and a session that is made ahead come at the same moment.
    #[test]
    fn all_who_want_it_first_have_it() {
        let root = tempfile::tempdir().unwrap();
        let places = Places { state: crate::StateDir::new(root.path()), ..Places::from_env().unwrap() };
        for round in 0..200 {
            let name = format!("ada/w{round}");
            let begin = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                let one = || {
                    begin.wait();
                    use_workspace(&places, &name).map(drop)
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
                for done in all {
                    done.join().unwrap().unwrap();
                }
            });
        }
    }

    #[test]
    fn what_a_user_holds_is_counted_once_whatever_its_names() {
        let root = tempfile::tempdir().unwrap();
        let places = Places { state: crate::StateDir::new(root.path()), ..Places::from_env().unwrap() };
        let held = use_workspace(&places, "ada/one").unwrap();
        let other = use_workspace(&places, "bob/one").unwrap();
        for path in [&held.path, &other.path] {
            fs::write(path.join("x"), vec![1; 1 << 20]).unwrap();
        }
        let kept = root.path().join("tenants/ada/snapshots");
        let beginning = root.path().join("sessions/s1/beginning");
        for directory in [&kept, &beginning] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(kept.join("object"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(kept.join("object"), beginning.join("file")).unwrap();
        let mib = || tenant_usage(&places, "ada", &["s1".into()]).0 >> 20;
        assert_eq!(mib(), 2);
        fs::remove_file(kept.join("object")).unwrap();
        assert_eq!(mib(), 2, "a fork holds what was taken out of the store");
        assert_eq!(tenant_usage(&places, "bob", &[]).0 >> 20, 1);
        assert_eq!(tenant_usage(&places, "eve", &[]), (0, 0));
    }
}
