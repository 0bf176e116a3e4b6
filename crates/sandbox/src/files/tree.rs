//! A directory inside a session as a tree, through its file worker: with the sandbox's own rights, and believed as
//! little as the worker is.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ringfence_guard::{
    Durability, Existing, FileEntry, FileKind, FileStat, Links, Parents, Reach, Timestamp as FileTime,
};

use super::error::{FileError, FileProblem};
use super::operations::{Files, ListLimit};
use crate::snapshots::{
    Attributes, EntryKind, EntryStat, EntryTime, Listed, Tree, TreePath, TreeWriter, random_name,
    write_sparse,
};

/// Of `top`, as the sandbox sees it. Several may share the files of one session.
#[derive(Debug)]
pub struct SessionTree<'a> {
    files: &'a RefCell<Files>,
    top: PathBuf,
    times_tell: bool,
}

impl<'a> SessionTree<'a> {
    /// `times_tell`: false for a directory in memory, where a write through a mapping changes no time.
    pub fn new(files: &'a RefCell<Files>, top: PathBuf, times_tell: bool) -> Self {
        Self { files, top, times_tell }
    }

    fn path(&self, path: &TreePath) -> PathBuf {
        self.top.join(path.as_os_str())
    }

    /// The owner may empty a directory that it may not write to, after it gave itself the right.
    fn open_up(&self, top: PathBuf) -> Result<(), FileError> {
        let mut files = self.files.borrow_mut();
        let mut waiting = vec![top];
        while let Some(directory) = waiting.pop() {
            files.set_mode(&directory, 0o700)?;
            for entry in files.list(&directory, ListLimit::default())? {
                if entry.stat.kind == FileKind::Directory {
                    waiting.push(directory.join(entry.name));
                }
            }
        }
        Ok(())
    }
}

impl Tree for SessionTree<'_> {
    fn list(&self, directory: &TreePath, most: usize) -> io::Result<Vec<Listed>> {
        let path = self.path(directory);
        let mut files = self.files.borrow_mut();
        let (own, _) = files.stat(&path, Links::Keep).map_err(as_io)?;
        let listed = files.list(&path, ListLimit(most as u64)).map_err(as_io)?;
        // What is mounted there is no part of this tree.
        let is_mount =
            |entry: &FileEntry| entry.stat.kind == FileKind::Directory && entry.stat.device != own.device;
        Ok(listed.into_iter().filter(|entry| !is_mount(entry)).map(Listed::from).collect())
    }

    fn open(&self, file: &TreePath) -> io::Result<File> {
        self.files.borrow_mut().open_read(&self.path(file), Links::Keep).map_err(as_io)
    }

    fn times_tell(&self) -> bool {
        self.times_tell
    }
}

impl TreeWriter for SessionTree<'_> {
    fn make_directory(&self, path: &TreePath) -> io::Result<()> {
        self.files.borrow_mut().make_directory(&self.path(path), 0o700, Parents::Exist).map_err(as_io)
    }

    fn write_file(&self, path: &TreePath, content: &mut dyn Read, attributes: Attributes) -> io::Result<()> {
        let path = self.path(path);
        let mut files = self.files.borrow_mut();
        let draft = files.create(&path, attributes.mode, Links::Keep).map_err(as_io)?;
        if let Err(error) = write_sparse(content, draft.file()) {
            files.abandon(draft).map_err(as_io)?;
            return Err(error);
        }
        files.finish(draft, Existing::Replace, Durability::Later).map_err(as_io)?;
        files.set_modified(&path, attributes.modified.into()).map_err(as_io)
    }

    fn write_link(&self, path: &TreePath, target: &[u8], modified: EntryTime) -> io::Result<()> {
        let path = self.path(path);
        let beside = path.with_file_name(random_name()?);
        let mut files = self.files.borrow_mut();
        files.symlink(Path::new(OsStr::from_bytes(target)), &beside).map_err(as_io)?;
        let placed = files
            .set_modified(&beside, modified.into())
            .and_then(|()| files.rename(&beside, &path, Existing::Replace));
        if placed.is_err() {
            let _ = files.remove(&beside, Reach::One);
        }
        placed.map_err(as_io)
    }

    fn remove(&self, path: &TreePath) -> io::Result<()> {
        let path = self.path(path);
        let removed = self.files.borrow_mut().remove(&path, Reach::Tree).map_err(as_io);
        match removed {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.open_up(path.clone()).map_err(as_io)?;
                self.files.borrow_mut().remove(&path, Reach::Tree).map_err(as_io)
            }
            removed => removed,
        }
    }

    fn set_attributes(&self, path: &TreePath, attributes: Attributes) -> io::Result<()> {
        let path = self.path(path);
        let mut files = self.files.borrow_mut();
        files.set_mode(&path, attributes.mode).map_err(as_io)?;
        files.set_modified(&path, attributes.modified.into()).map_err(as_io)
    }

    fn set_link_time(&self, path: &TreePath, modified: EntryTime) -> io::Result<()> {
        self.files.borrow_mut().set_modified(&self.path(path), modified.into()).map_err(as_io)
    }
}

fn as_io(error: FileError) -> io::Error {
    match (error.errno(), &error.problem) {
        (Some(errno), _) => io::Error::from_raw_os_error(errno),
        (None, FileProblem::NotRegular(_)) => io::Error::new(io::ErrorKind::InvalidInput, error),
        (None, _) => io::Error::other(error),
    }
}

impl From<FileEntry> for Listed {
    fn from(entry: FileEntry) -> Self {
        let target = entry.target.map(|target| target.into_os_string().into_vec());
        Self { name: entry.name.into_vec(), stat: entry.stat.into(), target }
    }
}

impl From<FileStat> for EntryStat {
    fn from(stat: FileStat) -> Self {
        Self {
            kind: match stat.kind {
                FileKind::Regular => EntryKind::File,
                FileKind::Directory => EntryKind::Directory,
                FileKind::Symlink => EntryKind::Link,
                _ => EntryKind::Special,
            },
            mode: stat.mode,
            size: stat.size,
            modified: stat.modified.into(),
            changed: stat.changed.into(),
            device: stat.device,
            inode: stat.inode,
        }
    }
}

impl From<FileTime> for EntryTime {
    fn from(FileTime { seconds, nanoseconds }: FileTime) -> Self {
        Self { seconds, nanoseconds }
    }
}

impl From<EntryTime> for FileTime {
    fn from(EntryTime { seconds, nanoseconds }: EntryTime) -> Self {
        Self { seconds, nanoseconds }
    }
}
