//! From the sandbox to this machine. Everything that is written is beneath one directory that was opened first.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ringfence_guard::{FileEntry, FileKind, FileStat, Links};
use rustix::fs::{Mode, OFlags, fchmod, mkdirat, open};
use rustix::io::Errno;

use super::beneath::{Placing, open_directory};
use super::content::copy_content;
use super::copy::{Copied, CopyLimits, CopyProgress, KEPT_MODE, OWNER, Tally, must_be_copied};
use super::error::{FileError, FileProblem, failed};
use super::operations::{Files, ListLimit};

const OPERATION: &str = "copy out";

/// What is to be written, and where.
struct Item<'a> {
    inside: &'a Path,
    relative: &'a Path,
    stat: FileStat,
    target: Option<&'a Path>,
}

/// A directory that was made here, and gets its mode when it is full.
struct Made {
    relative: PathBuf,
    mode: Mode,
}

impl Files {
    /// Copy a file, a symbolic link or a tree to `local`, which is the new name, not a directory to put it in. Links are
    /// copied, not followed. A directory that is there is added to.
    pub fn copy_out(
        &mut self,
        inside: &Path,
        local: &Path,
        limits: &CopyLimits,
        progress: &mut dyn FnMut(CopyProgress<'_>),
    ) -> Result<Copied, FileError> {
        let (stat, target) = self.stat(inside, Links::Keep)?;
        let (root, name) = destination(local).map_err(failed(OPERATION, local))?;
        let mut out = Out { files: self, root, tally: Tally::new(limits, progress), made: Vec::new() };
        let item = Item { inside, relative: Path::new(name), stat, target: target.as_deref() };
        let copied = out.all(&item);
        // Also of a copy that failed: the next one takes directories that are there as they are. Its error comes first.
        let modes = out.set_modes();
        copied.and(modes)?;
        Ok(out.tally.copied)
    }
}

/// The directory that `local` is in, which the caller chose, and the name there.
fn destination(local: &Path) -> Result<(OwnedFd, &OsStr), FileProblem> {
    let name = local.file_name().ok_or(Errno::INVAL)?;
    let parent = match local.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((open(parent, flags, Mode::empty())?, name))
}

struct Out<'a> {
    files: &'a mut Files,
    root: OwnedFd,
    tally: Tally<'a>,
    made: Vec<Made>,
}

type Pending = Vec<(PathBuf, PathBuf)>;

impl Out<'_> {
    fn all(&mut self, top: &Item<'_>) -> Result<(), FileError> {
        let mut pending = Vec::new();
        self.write(top, &mut pending)?;
        while let Some((inside, relative)) = pending.pop() {
            self.directory(&inside, &relative, &mut pending)?;
        }
        Ok(())
    }

    fn directory(&mut self, inside: &Path, relative: &Path, pending: &mut Pending) -> Result<(), FileError> {
        // One more than is left shows that there is too much.
        let limit = ListLimit(self.tally.entries_left().saturating_add(1));
        let entries = self.files.list(inside, limit)?;
        let mut names = HashSet::with_capacity(entries.len());
        for FileEntry { name, stat, target } in &entries {
            if !names.insert(name) {
                return Err(failed(OPERATION, inside)(FileProblem::SameName(name.clone())));
            }
            let (inside, relative) = (inside.join(name), relative.join(name));
            let target = target.as_deref();
            self.write(&Item { inside: &inside, relative: &relative, stat: *stat, target }, pending)?;
        }
        Ok(())
    }

    fn write(&mut self, item: &Item<'_>, pending: &mut Pending) -> Result<(), FileError> {
        let checked = must_be_copied(item.stat.kind).and_then(|()| self.tally.admit(item.relative));
        checked.map_err(failed(OPERATION, item.inside))?;
        let bytes = match item.stat.kind {
            FileKind::Regular => self.file(item)?,
            FileKind::Directory => {
                self.make_directory(item).map_err(failed(OPERATION, item.inside))?;
                pending.push((item.inside.into(), item.relative.into()));
                0
            }
            _ => {
                self.symlink(item).map_err(failed(OPERATION, item.inside))?;
                0
            }
        };
        self.tally.add(item.inside, bytes);
        Ok(())
    }

    fn file(&mut self, item: &Item<'_>) -> Result<u64, FileError> {
        let from = self.files.open_read(item.inside, Links::Keep)?;
        let mut write = || -> Result<u64, FileProblem> {
            let (parent, name) = self.place(item)?;
            let (placing, to) = Placing::file(&parent)?;
            let (left, tally) = (self.tally.bytes_left(), &mut self.tally);
            let bytes = copy_content(&from, &to, left, &mut |bytes| tally.note(item.inside, bytes))?;
            fchmod(&to, Mode::from_raw_mode(item.stat.mode & KEPT_MODE))?;
            placing.put(name)?;
            Ok(bytes)
        };
        write().map_err(failed(OPERATION, item.inside))
    }

    fn symlink(&self, item: &Item<'_>) -> Result<(), FileProblem> {
        let target = item.target.ok_or(FileProblem::Broken("a symbolic link without a target"))?;
        let (parent, name) = self.place(item)?;
        Ok(Placing::symlink(&parent, target)?.put(name)?)
    }

    fn make_directory(&mut self, item: &Item<'_>) -> Result<(), FileProblem> {
        let (parent, name) = self.place(item)?;
        match mkdirat(&parent, name, Mode::from_raw_mode(OWNER)) {
            Ok(()) => {
                let mode = Mode::from_raw_mode(item.stat.mode & KEPT_MODE);
                self.made.push(Made { relative: item.relative.into(), mode });
                Ok(())
            }
            // Entered without following a link, so that only a real directory is added to.
            Err(Errno::EXIST) => Ok(open_directory(&self.root, item.relative).map(drop)?),
            Err(errno) => Err(errno.into()),
        }
    }

    fn place<'i>(&self, item: &Item<'i>) -> Result<(OwnedFd, &'i OsStr), FileProblem> {
        let name = item.relative.file_name().ok_or(Errno::INVAL)?;
        let parent = item.relative.parent().unwrap_or(Path::new(""));
        Ok((open_directory(&self.root, parent)?, name))
    }

    /// From the deepest up: a directory that is not writable any more can't be entered for those in it.
    fn set_modes(&mut self) -> Result<(), FileError> {
        for made in self.made.drain(..).rev() {
            open_directory(&self.root, &made.relative)
                .and_then(|directory| fchmod(directory, made.mode))
                .map_err(|errno| failed(OPERATION, &made.relative)(errno.into()))?;
        }
        Ok(())
    }
}
