//! From this machine to the sandbox. A local tree is entered by descriptor, and no link in it is followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ringfence_guard::{Durability, Existing, FileKind, FileStat, Links, Parents, Reach};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, open, readlinkat, statat};
use rustix::io::Errno;

use super::beneath::{open_beneath, open_directory};
use super::content::copy_content;
use super::copy::{Copied, CopyLimits, CopyProgress, KEPT_MODE, OWNER, Tally, must_be_copied};
use super::error::{FileError, FileProblem, failed};
use super::operations::Files;

const OPERATION: &str = "copy in";
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;

impl Files {
    /// Copy a local file, symbolic link or tree to `inside`, which is the new name, not a directory to put it in. Links are
    /// copied, not followed. A directory that is there is added to.
    pub fn copy_in(
        &mut self,
        local: &Path,
        inside: &Path,
        limits: &CopyLimits,
        progress: &mut dyn FnMut(CopyProgress<'_>),
    ) -> Result<Copied, FileError> {
        let (root, name) = source(local).map_err(failed(OPERATION, local))?;
        let tally = Tally::new(limits, progress);
        let mut copy = In { files: self, root, local, inside, top: Path::new(name), tally, made: Vec::new() };
        let copied = copy.all(Path::new(name));
        // Also of a copy that failed: the next one takes directories that are there as they are. Its error comes first.
        let modes = copy.set_modes();
        copied.and(modes)?;
        Ok(copy.tally.copied)
    }
}

/// The directory that `local` is in, and its name there.
fn source(local: &Path) -> Result<(OwnedFd, &OsStr), FileProblem> {
    let name = local.file_name().ok_or(Errno::INVAL)?;
    let parent = match local.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((open(parent, flags, Mode::empty())?, name))
}

struct In<'a> {
    files: &'a mut Files,
    root: OwnedFd,
    local: &'a Path,
    inside: &'a Path,
    top: &'a Path,
    tally: Tally<'a>,
    /// Directories inside that get another mode when they are full.
    made: Vec<(PathBuf, u32)>,
}

impl In<'_> {
    fn all(&mut self, top: &Path) -> Result<(), FileError> {
        let mut pending = vec![];
        self.entry(top, &mut pending)?;
        while let Some(relative) = pending.pop() {
            for name in self.names(&relative)? {
                self.entry(&relative.join(name), &mut pending)?;
            }
        }
        Ok(())
    }

    fn beneath<'p>(&self, relative: &'p Path) -> &'p Path {
        relative.strip_prefix(self.top).unwrap_or(relative)
    }

    fn local_path(&self, relative: &Path) -> PathBuf {
        join(self.local, self.beneath(relative))
    }

    fn inside_path(&self, relative: &Path) -> PathBuf {
        join(self.inside, self.beneath(relative))
    }

    fn names(&self, relative: &Path) -> Result<Vec<OsString>, FileError> {
        let limit = self.tally.entries_left();
        let read = || -> Result<Vec<OsString>, FileProblem> {
            let mut names = Vec::new();
            for entry in Dir::new(open_directory(&self.root, relative)?)? {
                let name = entry?.file_name().to_bytes().to_vec();
                if matches!(name.as_slice(), b"." | b"..") {
                    continue;
                }
                if names.len() as u64 >= limit {
                    return Err(FileProblem::TooMuch { limit: self.tally.limits.entries, unit: "entries" });
                }
                names.push(OsString::from_vec(name));
            }
            Ok(names)
        };
        read().map_err(failed(OPERATION, &self.local_path(relative)))
    }

    fn entry(&mut self, relative: &Path, pending: &mut Vec<PathBuf>) -> Result<(), FileError> {
        let local = self.local_path(relative);
        let stat = self.look(relative).map_err(failed(OPERATION, &local))?;
        let bytes = match stat.kind {
            FileKind::Regular => self.file(relative)?,
            FileKind::Directory => {
                self.directory(relative, &stat)?;
                pending.push(relative.into());
                0
            }
            _ => {
                self.symlink(relative)?;
                0
            }
        };
        self.tally.add(&local, bytes);
        Ok(())
    }

    fn look(&self, relative: &Path) -> Result<FileStat, FileProblem> {
        let (parent, name) = self.place(relative)?;
        let stat = FileStat::from(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?);
        must_be_copied(stat.kind)?;
        self.tally.admit(relative)?;
        Ok(stat)
    }

    fn place<'p>(&self, relative: &'p Path) -> Result<(OwnedFd, &'p OsStr), FileProblem> {
        let name = relative.file_name().ok_or(Errno::INVAL)?;
        let parent = relative.parent().unwrap_or(Path::new(""));
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok((open_beneath(&self.root, parent, flags)?, name))
    }

    fn file(&mut self, relative: &Path) -> Result<u64, FileError> {
        let local = self.local_path(relative);
        let (from, mode) = self.open_local(relative).map_err(failed(OPERATION, &local))?;
        let draft = self.files.create(&self.inside_path(relative), mode, Links::Keep)?;
        let (left, tally) = (self.tally.bytes_left(), &mut self.tally);
        match copy_content(&from, draft.file(), left, &mut |bytes| tally.note(&local, bytes)) {
            Ok(bytes) => {
                self.files.finish(draft, Existing::Replace, Durability::Later)?;
                Ok(bytes)
            }
            Err(problem) => {
                // The first error is the one to report.
                let _ = self.files.abandon(draft);
                Err(failed(OPERATION, &local)(problem))
            }
        }
    }

    /// With the mode of what was really opened: the name may stand for another file by now.
    fn open_local(&self, relative: &Path) -> Result<(File, u32), FileProblem> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file = open_beneath(&self.root, relative, flags)?;
        let stat = FileStat::from(fstat(&file)?);
        match stat.kind {
            FileKind::Regular => Ok((file.into(), stat.mode & KEPT_MODE)),
            other => Err(FileProblem::NotRegular(other)),
        }
    }

    fn directory(&mut self, relative: &Path, stat: &FileStat) -> Result<(), FileError> {
        let inside = self.inside_path(relative);
        let mode = stat.mode & KEPT_MODE;
        match self.files.make_directory(&inside, mode | OWNER, Parents::Exist) {
            Ok(()) if mode & OWNER != OWNER => self.made.push((inside, mode)),
            // Only a real directory is added to: a link could lead the rest of the copy elsewhere.
            Err(error) if error.errno() == Some(EEXIST) => {
                let (there, _) = self.files.stat(&inside, Links::Keep)?;
                if there.kind != FileKind::Directory {
                    return Err(error);
                }
            }
            made => made?,
        }
        Ok(())
    }

    fn symlink(&mut self, relative: &Path) -> Result<(), FileError> {
        let inside = self.inside_path(relative);
        let read = || -> Result<PathBuf, FileProblem> {
            let (parent, name) = self.place(relative)?;
            let target = readlinkat(&parent, name, Vec::new())?;
            Ok(OsStr::from_bytes(target.as_bytes()).into())
        };
        let target = read().map_err(failed(OPERATION, &self.local_path(relative)))?;
        match self.files.remove(&inside, Reach::One) {
            Err(error) if error.errno() != Some(ENOENT) => return Err(error),
            _ => {}
        }
        self.files.symlink(&target, &inside)
    }

    fn set_modes(&mut self) -> Result<(), FileError> {
        for (directory, mode) in self.made.drain(..).rev() {
            self.files.set_mode(&directory, mode)?;
        }
        Ok(())
    }
}

/// `join` of an empty path would add a slash.
fn join(path: &Path, beneath: &Path) -> PathBuf {
    if beneath.as_os_str().is_empty() { path.into() } else { path.join(beneath) }
}
