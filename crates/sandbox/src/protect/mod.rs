//! Names in a direct workspace that a program on the host acts on: read-only for the command, also where they do not
//! exist yet.
//!
//! What exists is bound read-only onto itself, a symlink and what it leads to alike, and every ancestor is bound too, so
//! that none can be renamed away. For what does not exist a placeholder is made in the user's directory and removed
//! again when the last sandbox in it ends.

mod beneath;
mod kept;
mod names;
mod pins;
mod registry;
mod repositories;
mod tracking;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use beneath::{open_workspace, parent};
use kept::Kept;
pub(crate) use names::Names;
pub(crate) use pins::Pins;
use pins::{Found, find};
use registry::{Placeholder, Registry};
pub(crate) use repositories::sockets_in;
use repositories::{Survey, created, git_places, survey};
use rustix::fs::{Mode, OFlags, fstat, openat};
pub(crate) use tracking::GitDirectory;

use crate::plan::PlannedWorkspace;
use crate::refusal::Refusal;

/// What held, and what must be looked at when the run ends.
#[derive(Debug)]
pub(crate) struct Protection {
    workspace: PathBuf,
    directory: Option<OwnedFd>,
    pins: Pins,
    registry: Option<Registry>,
    /// What existed, by inode, and what the small files among it held.
    existing: Vec<(PathBuf, u64)>,
    /// The same, held: the number of a file that is gone could be given to another one.
    held: Vec<OwnedFd>,
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
            held: Vec::new(),
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
        self.git_places = git_places(&workspace.source, &survey);
        let (lifted, too) = (&workspace.unprotect, &workspace.protect_too);
        let names = Names::find(directory, &workspace.source, survey, lifted, too).all_in_reach()?;
        for git in &names.git_directories {
            let head = git.join("HEAD");
            if let Some(kept) = Kept::read(directory, &head) {
                self.heads.push((head, kept));
            }
        }
        self.git_configs = names.git_configs();
        for (name, inode) in names.existing {
            self.keep(name, inode);
        }
        let absent = names.absent;
        let made =
            self.registry.as_mut().map(|registry| registry.place(directory.as_fd(), absent, &self.existing));
        for Placeholder { name, .. } in made.transpose()?.unwrap_or_default() {
            self.pins.read_only(name);
        }
        Ok(())
    }

    fn keep(&mut self, name: PathBuf, inode: u64) {
        if let Some(kept) = self.directory.as_ref().and_then(|directory| Kept::read(directory, &name)) {
            self.contents.push((name.clone(), kept));
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = self.directory.as_ref().and_then(|directory| parent(directory, &name).ok());
        self.held.extend(parent.and_then(|(parent, last)| openat(parent, last, flags, Mode::empty()).ok()));
        self.existing.push((name.clone(), inode));
        self.pins.read_only(name);
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
