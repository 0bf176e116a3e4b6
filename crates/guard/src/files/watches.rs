//! Which directories are watched, and under which paths.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init, remove_watch};
use rustix::fs::{AtFlags, FileType, OFlags, statat};
use rustix::io::Errno;

use super::directory::{self, Then};
use super::reply::{FileChange, FileEvent};
use super::request::Reach;

/// Half of what a kernel commonly grants a user; each also costs this process a path.
const MAX_WATCHES: usize = 32_768;

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::EXCL_UNLINK);
const OF_THE_ROOT: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);

#[derive(Debug)]
pub(super) struct Watches {
    inotify: OwnedFd,
    root: PathBuf,
    reach: Reach,
    paths: BTreeMap<i32, PathBuf>,
}

impl Watches {
    /// A watch of `root` itself; `add_tree` adds what is beneath.
    pub(super) fn new(root: &Path, reach: Reach) -> Result<Self, Errno> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let watch = add_watch(&inotify, root, EVENTS | OF_THE_ROOT)?;
        let paths = BTreeMap::from([(watch, root.to_path_buf())]);
        Ok(Self { inotify, root: root.to_path_buf(), reach, paths })
    }

    pub(super) fn queue(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    pub(super) fn path(&self, watch: i32) -> Option<&Path> {
        self.paths.get(&watch).map(PathBuf::as_path)
    }

    pub(super) fn is_root(&self, path: &Path) -> bool {
        path == self.root
    }

    /// The kernel has ended this watch.
    pub(super) fn forget(&mut self, watch: i32) {
        self.paths.remove(&watch);
    }

    /// Watch the directories beneath the root.
    pub(super) fn add_beneath_root(&mut self, say: &mut dyn FnMut(FileEvent)) {
        if self.reach == Reach::Tree {
            let root = self.root.clone();
            // What was there before the watch began is no news.
            self.add_all(vec![root], &mut |event| {
                if event.change == FileChange::Unwatched {
                    say(event);
                }
            });
        }
    }

    /// Watch a directory that has just appeared; what is in it already is reported as created.
    pub(super) fn add_new(&mut self, directory: PathBuf, say: &mut dyn FnMut(FileEvent)) {
        if self.reach == Reach::Tree {
            self.add_all(vec![directory], say);
        }
    }

    fn add_all(&mut self, mut pending: Vec<PathBuf>, say: &mut dyn FnMut(FileEvent)) {
        while let Some(directory) = pending.pop() {
            if self.add(&directory).and_then(|()| scan(&directory, &mut pending, say)).is_err() {
                say(event(FileChange::Unwatched, directory, true));
            }
        }
    }

    fn add(&mut self, directory: &Path) -> Result<(), Errno> {
        if self.is_root(directory) {
            return Ok(());
        }
        if self.paths.len() >= MAX_WATCHES {
            return Err(Errno::NOSPC);
        }
        let only = WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        let watch = add_watch(&self.inotify, directory, EVENTS | only)?;
        self.paths.insert(watch, directory.to_path_buf());
        Ok(())
    }

    /// A directory that was moved away: its watches would tell of paths that are no more.
    pub(super) fn drop_beneath(&mut self, directory: &Path) {
        let gone: Vec<i32> = self
            .paths
            .iter()
            .filter(|(_, path)| path.starts_with(directory) && !self.is_root(path))
            .map(|(watch, _)| *watch)
            .collect();
        for watch in gone {
            self.paths.remove(&watch);
            // Refused where the kernel has just ended it itself.
            let _ = remove_watch(&self.inotify, watch);
        }
    }
}

pub(super) fn event(change: FileChange, path: PathBuf, directory: bool) -> FileEvent {
    FileEvent { change, path, directory, cookie: 0 }
}

/// Directories go to `pending`; a tree that is too large for the watches is too large for this list, too.
fn scan(directory: &Path, pending: &mut Vec<PathBuf>, say: &mut dyn FnMut(FileEvent)) -> Result<(), Errno> {
    let opened = directory::open(directory, OFlags::NOFOLLOW)?;
    directory::for_each_name(&opened, |name, kind| {
        let kind = match kind {
            FileType::Unknown => statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            known => known,
        };
        let is_directory = kind == FileType::Directory;
        let path = directory.join(OsStr::from_bytes(name.to_bytes()));
        say(event(FileChange::Created, path.clone(), is_directory));
        if is_directory {
            if pending.len() >= MAX_WATCHES {
                return Err(Errno::NOSPC);
            }
            pending.push(path);
        }
        Ok(Then::Continue)
    })?;
    Ok(())
}
