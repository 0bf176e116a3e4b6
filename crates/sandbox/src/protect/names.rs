//! Which paths of a workspace are protected, as it is at this moment: the names themselves, those of every repository in
//! it, and whatever a symlink at one of them leads to.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ringfence_policy::{Protected, ProtectedKind, protected};

use super::beneath::open_workspace;
use super::pins::{Found, find};
use super::repositories::{Survey, git_directories_in, gitdir_of, survey};
use crate::plan::WORKSPACE;
use crate::view::normal;

/// How many symlinks in a row are followed.
const HOPS: u32 = 8;

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// What is there, by inode.
    pub(crate) existing: Vec<(PathBuf, u64)>,
    /// What is not: the first part of each that is missing, and whether it would be a directory.
    pub(crate) absent: Vec<(PathBuf, bool)>,
    /// Of the workspace, of repositories in it, of their submodules and worktrees, and bare ones.
    pub(crate) git_directories: BTreeSet<PathBuf>,
    /// What a policy asked to protect and can't be pinned: it is reached through a symlink.
    pub(crate) out_of_reach: Vec<PathBuf>,
}

impl Names {
    /// Those of the directory at `workspace`, except the names that were `lifted`, and those that are protected `too`.
    pub(crate) fn of(workspace: &Path, lifted: &[String], too: &[String]) -> io::Result<Self> {
        let directory = open_workspace(workspace)?;
        Self::find(&directory, workspace, survey(workspace), lifted, too).all_in_reach()
    }

    /// What was asked for by name is protected, or nothing runs.
    pub(super) fn all_in_reach(self) -> io::Result<Self> {
        match self.out_of_reach.first() {
            None => Ok(self),
            Some(name) => Err(io::Error::other(format!(
                "`{}` of `protect` is reached through a symlink, name the place that it leads to",
                name.display()
            ))),
        }
    }

    pub(super) fn find(
        directory: &OwnedFd,
        workspace: &Path,
        survey: Survey,
        lifted: &[String],
        too: &[String],
    ) -> Self {
        // A bare repository is its own git directory.
        let names = Self { git_directories: survey.bare, ..Self::default() };
        let mut scan = Scan { directory, workspace, names };
        for root in [PathBuf::new()].into_iter().chain(survey.repositories) {
            scan.git_directory(&root.join(".git"));
        }
        let is_lifted = |entry: &&Protected| lifted.iter().any(|name| name == entry.name);
        for entry in protected().iter().filter(|entry| !is_lifted(entry)) {
            let is_dir = entry.kind == ProtectedKind::Dir;
            match entry.name.strip_prefix(".git/") {
                None => scan.name(entry.name.into(), is_dir, HOPS),
                Some(below) => {
                    for git in scan.names.git_directories.clone() {
                        scan.name(git.join(below), is_dir, HOPS);
                    }
                }
            }
        }
        for name in too {
            let path = PathBuf::from(name.trim_end_matches('/'));
            if matches!(find(directory, &path), Found::Elsewhere) {
                scan.names.out_of_reach.push(path);
            } else {
                scan.name(path, name.ends_with('/'), HOPS);
            }
        }
        scan.names
    }

    /// Git directories whose config is there, with its inode.
    pub(super) fn git_configs(&self) -> Vec<(PathBuf, u64)> {
        let config = |git: &PathBuf| {
            let (_, inode) = self.existing.iter().find(|(name, _)| *name == git.join("config"))?;
            Some((git.clone(), *inode))
        };
        self.git_directories.iter().filter_map(config).collect()
    }
}

/// Looking through a workspace.
struct Scan<'a> {
    directory: &'a OwnedFd,
    workspace: &'a Path,
    names: Names,
}

impl Scan<'_> {
    /// Find the git directory that `name` is or leads to, with those of its submodules and worktrees.
    fn git_directory(&mut self, name: &Path) {
        let mut name = name.to_path_buf();
        for _ in 0..HOPS {
            let next = match find(self.directory, &name) {
                Found::Directory(_) => {
                    self.names.git_directories.extend(git_directories_in(self.workspace, &name));
                    self.names.git_directories.insert(name);
                    return;
                }
                Found::Link(inode, to) => {
                    self.keep(name.clone(), inode);
                    to
                }
                // A worktree's or submodule's `.git` file says where the repository is: it must not change.
                Found::File(inode) => {
                    self.keep(name.clone(), inode);
                    let Some(to) = gitdir_of(self.directory, &name) else { return };
                    to
                }
                Found::Absent | Found::Elsewhere => return,
            };
            let Some(within) = self.within(&name, &next) else { return };
            name = within;
        }
    }

    /// One name, and what it leads to if it is a symlink to another place in the workspace.
    fn name(&mut self, name: PathBuf, is_dir: bool, hops: u32) {
        match find(self.directory, &name) {
            Found::Directory(inode) | Found::File(inode) => self.keep(name, inode),
            Found::Link(inode, to) => {
                let target = self.within(&name, &to);
                self.keep(name, inode);
                if let Some(target) = target.filter(|_| hops > 0) {
                    self.name(target, is_dir, hops - 1);
                }
            }
            Found::Absent => self.miss(name, is_dir),
            Found::Elsewhere => {}
        }
    }

    fn keep(&mut self, name: PathBuf, inode: u64) {
        if !self.names.existing.iter().any(|(had, _)| *had == name) {
            self.names.existing.push((name, inode));
        }
    }

    /// The first part that is missing: behind it the command could make the rest.
    fn miss(&mut self, mut name: PathBuf, mut is_dir: bool) {
        while let Some(above) = name.parent().filter(|above| !above.as_os_str().is_empty())
            && matches!(find(self.directory, above), Found::Absent)
        {
            (name, is_dir) = (above.to_path_buf(), true);
        }
        if !self.names.absent.iter().any(|(had, _)| *had == name) {
            self.names.absent.push((name, is_dir));
        }
    }

    /// Where a link at `name` leads, as a name of the workspace, if it stays in it.
    fn within(&self, name: &Path, to: &Path) -> Option<PathBuf> {
        let base = self.workspace.join(name);
        let target = normal(base.parent()?, to);
        let below =
            target.strip_prefix(self.workspace).ok().or_else(|| target.strip_prefix(WORKSPACE).ok())?;
        (!below.as_os_str().is_empty()).then(|| below.to_path_buf())
    }
}
