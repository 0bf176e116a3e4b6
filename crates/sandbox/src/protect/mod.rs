//! Names in a direct workspace that a program on the host acts on: read-only for the command, also where they do not
//! exist yet.
//!
//! What exists is bound read-only onto itself, and every ancestor is bound too, so that none can be renamed away. For
//! what does not exist a placeholder is made in the user's directory and removed again when the last sandbox in it
//! ends. A symlink can't be a mountpoint: it is compared, and put back, at the end.

mod pins;
mod registry;
mod repositories;
mod tracking;

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub(crate) use pins::Pins;
use pins::{Found, find};
use registry::{Placeholder, Registry};
use repositories::{created_since, nested};
use ringfence_policy::{ProtectedKind, protected};
pub(crate) use tracking::GitDirectory;
use rustix::fs::{Mode, OFlags, fstat, open};

use crate::plan::PlannedWorkspace;
use crate::refusal::Refusal;

/// What held, and what must be looked at when the run ends.
#[derive(Debug)]
pub(crate) struct Protection {
    workspace: PathBuf,
    pins: Pins,
    registry: Option<Registry>,
    /// Inodes of what existed, and the targets of what are symlinks.
    existing: Vec<(PathBuf, u64)>,
    links: Vec<(PathBuf, PathBuf)>,
    started: SystemTime,
}

/// Remove the placeholders of runs that were killed.
pub(crate) fn sweep_placeholders(state: &Path) {
    registry::sweep(state);
}

impl Protection {
    pub(crate) fn none() -> Self {
        Self {
            workspace: PathBuf::new(),
            pins: Pins::default(),
            registry: None,
            existing: Vec::new(),
            links: Vec::new(),
            started: SystemTime::now(),
        }
    }

    pub(crate) fn prepare(workspace: &PlannedWorkspace, state: &Path) -> Result<Self, Refusal> {
        let mut protection = Self { workspace: workspace.source.clone(), ..Self::none() };
        let failed = |error: &std::io::Error| Refusal::step("protect names in", workspace.source.display().to_string(), error);
        let directory =
            open(&workspace.source, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| failed(&error.into()))?;
        let facts = fstat(&directory).map_err(|error| failed(&error.into()))?;
        if facts.st_dev != workspace.device || facts.st_ino != workspace.inode {
            return Err(Refusal::bad(
                format!("{} was replaced while the sandbox was being made", workspace.source.display()),
                "run the command again",
            ));
        }
        for socket in &workspace.sockets {
            protection.pins.cover(socket.clone());
        }
        if workspace.protect {
            let result = protection.protect(&directory, workspace, state);
            if let Err(error) = result {
                protection.finish();
                return Err(failed(&error));
            }
        }
        Ok(protection)
    }

    fn protect(&mut self, directory: &OwnedFd, workspace: &PlannedWorkspace, state: &Path) -> std::io::Result<()> {
        self.registry = Some(Registry::open(state, workspace)?);
        let lifted: BTreeSet<&str> = workspace.unprotect.iter().map(String::as_str).collect();
        let mut absent = Vec::new();
        let mut repositories = vec![PathBuf::new()];
        repositories.extend(nested(&workspace.source));
        for entry in protected() {
            if lifted.contains(entry.name) {
                continue;
            }
            let roots: &[PathBuf] = if entry.parent == Some(".git") { &repositories } else { &repositories[..1] };
            for root in roots {
                let name = root.join(entry.name);
                let parent = entry.parent.map(|parent| root.join(parent));
                match parent.map(|parent| (find(directory, &parent), parent)) {
                    None => {}
                    Some((Found::Directory(_), _)) => {}
                    // A worktree's or submodule's `.git` file says where the repository is: it must not change.
                    Some((Found::File(inode), parent)) => {
                        self.keep(parent, inode);
                        continue;
                    }
                    Some((Found::Link(to), parent)) => {
                        self.links.push((parent, to));
                        continue;
                    }
                    Some((Found::Absent | Found::Elsewhere, _)) => continue,
                }
                match find(directory, &name) {
                    Found::Directory(inode) | Found::File(inode) => self.keep(name, inode),
                    Found::Link(to) => self.links.push((name, to)),
                    Found::Absent => absent.push((name, entry.kind == ProtectedKind::Dir)),
                    Found::Elsewhere => {}
                }
            }
        }
        let made = self.registry.as_mut().map(|registry| registry.place(directory.as_fd(), absent, &self.existing));
        for Placeholder { name, .. } in made.transpose()?.unwrap_or_default() {
            self.pins.read_only(name);
        }
        Ok(())
    }

    fn keep(&mut self, name: PathBuf, inode: u64) {
        if !self.existing.iter().any(|(had, _)| *had == name) {
            self.existing.push((name.clone(), inode));
            self.pins.read_only(name);
        }
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The repositories whose config is pinned.
    pub(crate) fn git_directories(&self) -> Vec<GitDirectory> {
        let configs = self.existing.iter().filter(|(name, _)| name.ends_with(".git/config"));
        configs
            .filter_map(|(name, inode)| GitDirectory::open(self.workspace.join(name).parent()?, *inode).ok())
            .collect()
    }

    /// The end check: what changed all the same, what was put back, and what in new repositories a host tool would
    /// execute. One line each.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, to) in &self.links {
            let path = self.workspace.join(name);
            if fs::read_link(&path).is_ok_and(|now| now == *to) {
                continue;
            }
            let aside = aside(&path);
            let moved = fs::rename(&path, &aside);
            let restored = std::os::unix::fs::symlink(to, &path);
            notes.push(match (moved, restored) {
                (_, Err(error)) => format!("protected: {} was changed and could not be put back: {error}", name.display()),
                (Ok(()), Ok(())) => format!(
                    "protected: {} was changed and has been put back; what the command left is {}",
                    name.display(),
                    aside.display()
                ),
                (Err(_), Ok(())) => format!("protected: {} was removed and has been put back", name.display()),
            });
        }
        for (name, inode) in &self.existing {
            use std::os::unix::fs::MetadataExt;
            let now = self.workspace.join(name).symlink_metadata().map(|facts| facts.ino()).ok();
            if now != Some(*inode) {
                notes.push(format!(
                    "protected: {} was replaced during the run by a program outside this sandbox",
                    name.display()
                ));
            }
        }
        if let Some(registry) = self.registry.take() {
            notes.extend(registry.leave());
            notes.extend(created_since(&self.workspace, self.started));
        }
        notes
    }
}

/// A free name beside `path`.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (0..)
        .map(|number| path.with_file_name(format!("{name}.from-sandbox-{}-{number}", std::process::id())))
        .find(|candidate| candidate.symlink_metadata().is_err())
        .unwrap_or_else(|| path.with_extension("from-sandbox"))
}
