//! New files: written beside their place under a name of their own, and put there whole or not at all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, Mode, OFlags, fchmod, fstat, fsync, open, openat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::rand::{GetRandomFlags, getrandom};

use super::change::rename_flags;
use super::outcome::{Answer, Refused};
use super::paths::{checked_mode, follow, split};
use super::reply::FileReply;
use super::request::{Durability, Existing, Links};

/// A client finishes one before it begins many others.
const MAX_DRAFTS: usize = 64;
/// The owner only, while it is being written.
const DRAFT_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

#[derive(Debug)]
struct Draft {
    directory: OwnedFd,
    file: OwnedFd,
    name: OsString,
    final_name: OsString,
    mode: Mode,
}

/// The files that are being written. Those that were never finished are removed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    open: BTreeMap<u32, Draft>,
    last: u32,
}

impl Drafts {
    pub(super) fn create(&mut self, path: &Path, mode: u32, links: Links) -> Result<Answer, Refused> {
        if self.open.len() >= MAX_DRAFTS {
            return Err(Errno::MFILE.into());
        }
        let path = match links {
            Links::Keep => path.to_path_buf(),
            Links::Follow => follow(path)?,
        };
        let draft = Draft::new(&path, checked_mode(mode)?)?;
        let file = fcntl_dupfd_cloexec(&draft.file, 3)?;
        self.last = self.last.wrapping_add(1);
        self.open.insert(self.last, draft);
        Ok(Answer::with(FileReply::Created { draft: self.last }, file))
    }

    pub(super) fn finish(
        &mut self,
        number: u32,
        existing: Existing,
        durability: Durability,
    ) -> Result<Answer, Refused> {
        let draft = self.open.remove(&number).ok_or(Errno::BADF)?;
        let finished = draft.finish(existing, durability);
        if finished.is_err() {
            draft.remove();
        }
        finished?;
        Ok(FileReply::Done.into())
    }

    pub(super) fn abandon(&mut self, number: u32) -> Result<Answer, Refused> {
        self.open.remove(&number).ok_or(Errno::BADF)?.remove();
        Ok(FileReply::Done.into())
    }
}

impl Drop for Drafts {
    fn drop(&mut self) {
        self.open.values().for_each(Draft::remove);
    }
}

impl Draft {
    fn new(path: &Path, mode: Mode) -> Result<Self, Errno> {
        let (parent, final_name) = split(path)?;
        // Open for reading, since a directory is synced through such a descriptor only.
        let directory = open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let name = draft_name()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, &name, flags, DRAFT_MODE)?;
        Ok(Self { directory, file, name, final_name: final_name.to_owned(), mode })
    }

    fn finish(&self, existing: Existing, durability: Durability) -> Result<(), Errno> {
        self.must_have_its_name()?;
        fchmod(&self.file, self.mode)?;
        if durability == Durability::Now {
            fsync(&self.file)?;
        }
        let flags = rename_flags(existing);
        renameat_with(&self.directory, &self.name, &self.directory, &self.final_name, flags)?;
        if durability == Durability::Now {
            fsync(&self.directory)?;
        }
        Ok(())
    }

    /// A command may have put another file under the draft's name: that one is not what the client wrote.
    fn must_have_its_name(&self) -> Result<(), Errno> {
        let (own, named) =
            (fstat(&self.file)?, statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?);
        if (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino) { Ok(()) } else { Err(Errno::STALE) }
    }

    /// Only what is still the draft; gone already is as good.
    fn remove(&self) {
        if self.must_have_its_name().is_ok() {
            let _ = unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

fn draft_name() -> Result<OsString, Errno> {
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    Ok(format!(".ringfence-{:016x}", u64::from_ne_bytes(random)).into())
}
