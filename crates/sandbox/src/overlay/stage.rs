//! The staging directory, beside the files that it is for and on their filesystem: new things are gathered in it, and old
//! ones wait there until the commit has ended.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chmod, chownat, fchmod, futimens,
    mkdirat, openat, symlinkat, syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::beneath::{list, magic_link, open_any, open_directory, open_file, open_parent, read_link};
use super::changes::{Change, EntryKind};
use super::error::OverlayError;
use super::identity::{Moment, Stamp};
use super::journal::Side;
use super::units::Planned;

/// Its name begins like this; nothing of that name is ever committed.
pub(super) const RESERVED: &str = ".ringfence-commit-";
/// A displaced directory is bounded as what is walked is; this is beyond it.
const DEEPEST: usize = 1_024;

#[derive(Debug)]
pub(super) struct Staging {
    directory: OwnedFd,
}

/// Who new files belong to; only root has a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Staging {
    pub(super) fn make(lower: &OwnedFd, name: &str) -> Result<Self, Errno> {
        mkdirat(lower, name, Mode::from_raw_mode(0o700))?;
        Self::open(lower, name)
    }

    pub(super) fn open(lower: &OwnedFd, name: &str) -> Result<Self, Errno> {
        let directory = open_directory(lower, Path::new(name))?;
        let facts = Stamp::of(&directory)?;
        // Whoever has the workspace could put a directory of their own there, and exchange files in it under our hands.
        if facts.uid != rustix::process::geteuid().as_raw() || facts.permissions() != 0o700 {
            return Err(Errno::PERM);
        }
        Ok(Self { directory })
    }

    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Gather one thing of `unit`; what was made for it.
    pub(super) fn gather(
        &self,
        upper: &OwnedFd,
        unit: &Planned<'_>,
        change: &Change,
        slot: u32,
        owner: Owner,
    ) -> Result<Stamp, OverlayError> {
        let failed = |error: io::Error| OverlayError::failed("copy", &change.path, error);
        let below = change.path.strip_prefix(unit.path).unwrap_or(Path::new(""));
        let target = slot_name(slot).components().chain(below.components()).collect::<PathBuf>();
        let Some(new) = &change.new else { return Err(failed(io::ErrorKind::InvalidInput.into())) };
        let (parent, name) = open_parent(&self.directory, &target).map_err(|error| failed(error.into()))?;
        match new.kind {
            EntryKind::Directory => {
                mkdirat(&parent, name, Mode::from_raw_mode(0o700)).map_err(|error| failed(error.into()))?;
            }
            EntryKind::Link => {
                let link = open_any(upper, &change.path).map_err(|error| failed(error.into()))?;
                if Stamp::of(&link).map_err(|error| failed(error.into()))? != new.stamp {
                    return Err(OverlayError::Changing(change.path.clone()));
                }
                let made = read_link(link, "").and_then(|to| symlinkat(to, &parent, name));
                made.map_err(|error| failed(error.into()))?;
                set_time(&parent, Path::new(name), new.stamp.modified)
                    .map_err(|error| failed(error.into()))?;
            }
            EntryKind::File => copy_file(upper, change, &parent, Path::new(name))?,
            EntryKind::Special => return Err(failed(io::ErrorKind::InvalidInput.into())),
        }
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)));
            chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| failed(error.into()))?;
        }
        let made = Stamp::at(&parent, name).map_err(|error| failed(error.into()))?;
        made.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }

    /// Give a directory of `unit` its permissions and time, when all is in it; what it is then.
    pub(super) fn close_directory(
        &self,
        unit: &Planned<'_>,
        change: &Change,
        slot: u32,
    ) -> Result<Stamp, OverlayError> {
        let failed = |error: Errno| OverlayError::failed("close", &change.path, error);
        let below = change.path.strip_prefix(unit.path).unwrap_or(Path::new(""));
        let target = slot_name(slot).components().chain(below.components()).collect::<PathBuf>();
        let directory = open_any(&self.directory, &target).map_err(failed)?;
        if let Some(new) = &change.new {
            set_time(CWD, &magic_link(&directory).join("."), new.stamp.modified).map_err(failed)?;
            chmod(magic_link(&directory), Mode::from_raw_mode(new.mode)).map_err(failed)?;
        }
        Stamp::of(&directory).map_err(failed)
    }

    pub(super) fn side(&self, slot: u32) -> Result<Option<Side>, Errno> {
        side(&self.directory, &slot_name(slot))
    }

    /// Everything of this filesystem is on disk when this returns.
    pub(super) fn sync(&self, lower: &OwnedFd) -> Result<(), Errno> {
        syncfs(lower)
    }

    /// Remove the slots that `kept` does not name, and the directory itself if none is left.
    pub(super) fn clear(self, lower: &OwnedFd, name: &str, kept: &[u32]) -> io::Result<()> {
        let kept: Vec<PathBuf> = kept.iter().map(|slot| slot_name(*slot)).collect();
        for slot in list(&self.directory, usize::MAX)?.unwrap_or_default() {
            if !kept.iter().any(|kept| kept.as_os_str() == slot) {
                remove_tree(&self.directory, Path::new(&slot), 0)?;
            }
        }
        if kept.is_empty() {
            unlinkat(lower, name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }
}

pub(super) fn slot_name(slot: u32) -> PathBuf {
    slot.to_string().into()
}

/// What is at a name of a directory, with a digest of all that is in it.
pub(super) fn side(parent: impl AsFd, name: &Path) -> Result<Option<Side>, Errno> {
    let Some(stamp) = Stamp::at(&parent, name)? else { return Ok(None) };
    let mut digest = blake3::Hasher::new();
    if stamp.is_directory() {
        add_tree(&mut digest, &open_directory(&parent, name)?, 0)?;
    }
    let mut first = [0u8; 8];
    first.copy_from_slice(&digest.finalize().as_bytes()[..8]);
    Ok(Some(Side { stamp, tree: u64::from_le_bytes(first) }))
}

fn add_tree(digest: &mut blake3::Hasher, directory: &OwnedFd, depth: usize) -> Result<(), Errno> {
    if depth > DEEPEST {
        return Err(Errno::NAMETOOLONG);
    }
    for name in list(directory, usize::MAX)?.unwrap_or_default() {
        let Some(stamp) = Stamp::at(directory, &name)? else { continue };
        digest.update(format!("{depth} {name:?} {stamp:?}\n").as_bytes());
        if stamp.is_directory() {
            add_tree(digest, &open_directory(directory, Path::new(&name))?, depth + 1)?;
        }
    }
    Ok(())
}

/// A file's bytes as they are at one moment: if the session writes to it meanwhile, that is an error.
fn copy_file(upper: &OwnedFd, change: &Change, parent: &OwnedFd, name: &Path) -> Result<(), OverlayError> {
    let failed = |error: io::Error| OverlayError::failed("copy", &change.path, error);
    let Some(new) = &change.new else { return Ok(()) };
    let source = open_file(upper, &change.path).map_err(|error| failed(error.into()))?;
    let is_unchanged = || Stamp::of(&source).is_ok_and(|stamp| stamp == new.stamp);
    let changing = || OverlayError::Changing(change.path.clone());
    if !is_unchanged() {
        return Err(changing());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let copy = || -> io::Result<u64> {
        let target = openat(parent, name, flags, Mode::from_raw_mode(0o600))?;
        let mut target = std::fs::File::from(target);
        let copied = io::copy(&mut (&source).take(new.size), &mut target)?;
        fchmod(&target, Mode::from_raw_mode(new.mode))?;
        futimens(&target, &times(new.stamp.modified))?;
        Ok(copied)
    };
    let copied = copy().map_err(failed)?;
    if copied == new.size && is_unchanged() { Ok(()) } else { Err(changing()) }
}

fn times(modified: Moment) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds as _ },
    }
}

fn set_time(directory: impl AsFd, name: &Path, modified: Moment) -> Result<(), Errno> {
    utimensat(directory, name, &times(modified), AtFlags::SYMLINK_NOFOLLOW)
}

/// Also what its owner may not write to.
pub(crate) fn remove_tree(parent: &OwnedFd, name: &Path, depth: usize) -> io::Result<()> {
    let Some(stamp) = Stamp::at(parent, name)? else { return Ok(()) };
    if !stamp.is_directory() || depth > DEEPEST {
        return Ok(unlinkat(parent, name, AtFlags::empty())?);
    }
    let directory = open_directory(parent, name)?;
    chmod(magic_link(&directory), Mode::from_raw_mode(0o700))?;
    for below in list(&directory, usize::MAX)?.unwrap_or_default() {
        remove_tree(&directory, Path::new(&below), depth + 1)?;
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
