//! Names in a direct workspace that a program on the host acts on: read-only for the command, also where they do not
//! exist yet.
//!
//! What exists is bound read-only onto itself, a symlink and what it leads to alike, and every ancestor is bound too, so
//! that none can be renamed away. For what does not exist a placeholder is made in the user's directory and removed
//! again when the last sandbox in it ends.

mod beneath;
mod kept;
mod pins;
mod registry;
mod repositories;
mod tracking;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use beneath::open_workspace;
use kept::Kept;
pub(crate) use pins::Pins;
use pins::{Found, find};
use registry::{Placeholder, Registry};
pub(crate) use repositories::sockets_in;
use repositories::{Survey, created, git_directories_in, git_places, gitdir_of, survey};
use ringfence_policy::{Protected, ProtectedKind, protected};
use rustix::fs::fstat;
pub(crate) use tracking::GitDirectory;

use crate::plan::{PlannedWorkspace, WORKSPACE};
use crate::refusal::Refusal;
use crate::view::normal;

/// How many symlinks in a row are followed.
const HOPS: u32 = 8;

/// What held, and what must be looked at when the run ends.
#[derive(Debug)]
pub(crate) struct Protection {
    workspace: PathBuf,
    directory: Option<OwnedFd>,
    pins: Pins,
    registry: Option<Registry>,
    /// What existed, by inode, and what the small files among it held.
    existing: Vec<(PathBuf, u64)>,
    contents: Vec<(PathBuf, Kept)>,
    /// Git directories, and the inodes of their configs.
    git_configs: Vec<(PathBuf, u64)>,
    /// `HEAD` of each: without it git looks for a repository elsewhere.
    heads: Vec<(PathBuf, Kept)>,
    /// What git takes for a repository at the start.
    git_places: BTreeSet<PathBuf>,
}

/// Remove the placeholders of runs that were killed.
pub(crate) fn sweep_placeholders(state: &Path) {
    registry::sweep(state);
}

impl Protection {
    pub(crate) fn none() -> Self {
        Self {
            workspace: PathBuf::new(),
            directory: None,
            pins: Pins::default(),
            registry: None,
            existing: Vec::new(),
            contents: Vec::new(),
            git_configs: Vec::new(),
            heads: Vec::new(),
            git_places: BTreeSet::new(),
        }
    }

    pub(crate) fn prepare(workspace: &PlannedWorkspace, state: &Path) -> Result<Self, Refusal> {
        let mut protection = Self { workspace: workspace.source.clone(), ..Self::none() };
        let failed = |error: &std::io::Error| {
            Refusal::step("protect names in", workspace.source.display().to_string(), error)
        };
        let directory = open_workspace(&workspace.source).map_err(|error| failed(&error))?;
        let facts = fstat(&directory).map_err(|error| failed(&error.into()))?;
        if facts.st_dev != workspace.device || facts.st_ino != workspace.inode {
            return Err(Refusal::bad(
                format!("{} was replaced while the sandbox was being made", workspace.source.display()),
                "run the command again",
            ));
        }
        // Without it the end check could not be made.
        protection.directory = Some(directory.try_clone().map_err(|error| failed(&error))?);
        let survey = survey(&workspace.source);
        for socket in workspace.sockets.iter().chain(&survey.sockets) {
            protection.pins.cover(socket.clone());
        }
        if workspace.protect {
            let result = protection.protect(&directory, workspace, survey, state);
            if let Err(error) = result {
                protection.finish();
                return Err(failed(&error));
            }
        }
        Ok(protection)
    }

    fn protect(
        &mut self,
        directory: &OwnedFd,
        workspace: &PlannedWorkspace,
        survey: Survey,
        state: &Path,
    ) -> std::io::Result<()> {
        self.registry = Some(Registry::open(state, workspace)?);
        let lifted = |entry: &Protected| workspace.unprotect.iter().any(|name| name == entry.name);
        self.git_places = git_places(&workspace.source, &survey);
        let mut scan = Scan { directory, workspace: &workspace.source, absent: Vec::new() };
        // A bare repository is its own git directory.
        let mut git_directories = survey.bare;
        for root in [PathBuf::new()].into_iter().chain(survey.repositories) {
            self.git_directory(&mut scan, &root.join(".git"), &mut git_directories);
        }
        for git in &git_directories {
            let head = git.join("HEAD");
            if let Some(kept) = Kept::read(directory, &head) {
                self.heads.push((head, kept));
            }
        }
        for entry in protected().iter().filter(|entry| !lifted(entry)) {
            let is_dir = entry.kind == ProtectedKind::Dir;
            match entry.name.strip_prefix(".git/") {
                None => self.name(&mut scan, entry.name.into(), is_dir, HOPS),
                Some(below) => {
                    for git in &git_directories {
                        self.name(&mut scan, git.join(below), is_dir, HOPS);
                        if below == "config"
                            && let Some((_, inode)) =
                                self.existing.iter().find(|(name, _)| *name == git.join(below))
                        {
                            self.git_configs.push((git.clone(), *inode));
                        }
                    }
                }
            }
        }
        let absent = scan.absent;
        let made =
            self.registry.as_mut().map(|registry| registry.place(directory.as_fd(), absent, &self.existing));
        for Placeholder { name, .. } in made.transpose()?.unwrap_or_default() {
            self.pins.read_only(name);
        }
        Ok(())
    }

    /// Find the git directory that `name` is or leads to, with those of its submodules and worktrees.
    fn git_directory(&mut self, scan: &mut Scan<'_>, name: &Path, found: &mut BTreeSet<PathBuf>) {
        let mut name = name.to_path_buf();
        for _ in 0..HOPS {
            let next = match find(scan.directory, &name) {
                Found::Directory(_) => {
                    found.extend(git_directories_in(scan.workspace, &name));
                    found.insert(name);
                    return;
                }
                Found::Link(inode, to) => {
                    self.keep(name.clone(), inode);
                    to
                }
                // A worktree's or submodule's `.git` file says where the repository is: it must not change.
                Found::File(inode) => {
                    self.keep(name.clone(), inode);
                    let Some(to) = gitdir_of(scan.directory, &name) else { return };
                    to
                }
                Found::Absent | Found::Elsewhere => return,
            };
            let Some(within) = scan.within(&name, &next) else { return };
            name = within;
        }
    }

    /// Protect one name, and what it leads to if it is a symlink to another place in the workspace.
    fn name(&mut self, scan: &mut Scan<'_>, name: PathBuf, is_dir: bool, hops: u32) {
        match find(scan.directory, &name) {
            Found::Directory(inode) | Found::File(inode) => self.keep(name, inode),
            Found::Link(inode, to) => {
                let target = scan.within(&name, &to);
                self.keep(name, inode);
                if let Some(target) = target.filter(|_| hops > 0) {
                    self.name(scan, target, is_dir, hops - 1);
                }
            }
            Found::Absent => {
                // The first part that is missing: behind it the command could make the rest.
                let (mut name, mut is_dir) = (name, is_dir);
                while let Some(above) = name.parent().filter(|above| !above.as_os_str().is_empty())
                    && matches!(find(scan.directory, above), Found::Absent)
                {
                    (name, is_dir) = (above.to_path_buf(), true);
                }
                if !scan.absent.iter().any(|(had, _)| *had == name) {
                    scan.absent.push((name, is_dir));
                }
            }
            Found::Elsewhere => {}
        }
    }

    fn keep(&mut self, name: PathBuf, inode: u64) {
        if !self.existing.iter().any(|(had, _)| *had == name) {
            if let Some(kept) = self.directory.as_ref().and_then(|directory| Kept::read(directory, &name)) {
                self.contents.push((name.clone(), kept));
            }
            self.existing.push((name.clone(), inode));
            self.pins.read_only(name);
        }
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The repositories whose config is pinned.
    pub(crate) fn git_directories(&self) -> Vec<GitDirectory> {
        let open =
            |(name, inode): &(PathBuf, u64)| GitDirectory::open(&self.workspace.join(name), *inode).ok();
        self.git_configs.iter().filter_map(open).collect()
    }

    /// The end check: what changed all the same, and what in new repositories a host tool would execute. One line each.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, inode) in &self.existing {
            let Some(directory) = &self.directory else { break };
            if matches!(find(directory, name), Found::File(now) | Found::Directory(now) | Found::Link(now, _) if now == *inode)
            {
                continue;
            }
            let kept = self.contents.iter().find(|(had, _)| had == name).map(|(_, kept)| kept);
            notes.push(match kept.map(|kept| kept.put_back(directory, name)) {
                Some(Ok(Some(aside))) => format!(
                    "protected: {} was replaced from outside during the run, after which the command could write it; \
                     what it held before has been put back, the other is {}",
                    name.display(),
                    aside.display()
                ),
                Some(Ok(None)) => continue,
                Some(Err(error)) => format!(
                    "protected: {} was replaced from outside during the run and could not be put back: {error}; look \
                     at it before you use it",
                    name.display()
                ),
                None => format!(
                    "protected: {} was replaced from outside during the run; look at it before you use it",
                    name.display()
                ),
            });
        }
        if let Some(registry) = self.registry.take() {
            notes.extend(registry.leave());
            for (head, kept) in &self.heads {
                let restored = self.directory.as_ref().map(|directory| kept.restore_if_gone(directory, head));
                if matches!(restored, Some(Ok(true))) {
                    notes.push(format!(
                        "protected: {} was removed, which makes git on the host look for a repository elsewhere; it has \
                         been put back",
                        head.display()
                    ));
                }
            }
            notes.extend(created(&self.workspace, &self.git_places));
        }
        notes
    }
}

/// Looking through a workspace.
struct Scan<'a> {
    directory: &'a OwnedFd,
    workspace: &'a Path,
    /// Names that need a placeholder, and whether it is a directory.
    absent: Vec<(PathBuf, bool)>,
}

impl Scan<'_> {
    /// Where a link at `name` leads, as a name of the workspace, if it stays in it.
    fn within(&self, name: &Path, to: &Path) -> Option<PathBuf> {
        let base = self.workspace.join(name);
        let target = normal(base.parent()?, to);
        let below =
            target.strip_prefix(self.workspace).ok().or_else(|| target.strip_prefix(WORKSPACE).ok())?;
        (!below.as_os_str().is_empty()).then(|| below.to_path_buf())
    }
}
