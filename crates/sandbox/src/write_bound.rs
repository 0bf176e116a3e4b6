//! How much a command may leave in directories of the host that it writes through a bind: no size of a private layer
//! holds there. The owner measures while the command runs, and ends it; the caller measures again when it has ended. In a
//! session the keeper does, and ends what runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, statvfs};
use rustix::io::Errno;

use crate::attachment::{AttachAs, Attached};
use crate::denial::{Denial, DenialKind};

/// Between two looks at the free space: what a fast disk takes meanwhile is far less than what is kept free.
const GLANCE: Duration = Duration::from_millis(50);
/// Between two counts, and as a multiple of what a count costs.
const COUNT: Duration = Duration::from_millis(500);
const COUNT_COST: u32 = 10;

/// For all writable attachments together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBound {
    /// Of each file what it takes on the disk, or its size where that is larger and holes count.
    pub bytes: u64,
    pub entries: u64,
    pub depth: u32,
    /// What stays free on their filesystem, also of files that have no name any more; half of what was free at the start if
    /// that is less.
    pub keep_free: u64,
    /// Whoever reads or copies a file meets its holes too; they take no disk.
    pub holes: Holes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    Count,
    Free,
}

/// Which of its parts a tree is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeyondBound {
    #[error("more than {} MiB", .0 >> 20)]
    Bytes(u64),
    #[error("more than {0} files and directories")]
    Entries(u64),
    #[error("directories more than {0} deep")]
    Depth(u32),
    #[error("a directory that can't be looked into")]
    Closed,
}

impl WriteBound {
    /// Is what lies there within the bound? No link is followed.
    pub fn check(&self, directory: &Path) -> Result<(), BeyondBound> {
        self.check_all(&[directory])
    }

    fn check_all(&self, directories: &[impl AsRef<Path>]) -> Result<(), BeyondBound> {
        let mut left = *self;
        directories.iter().try_for_each(|directory| left.count(CWD, directory.as_ref(), self, 0))
    }

    fn count(
        &mut self,
        at: BorrowedFd<'_>,
        name: impl rustix::path::Arg,
        whole: &Self,
        depth: u32,
    ) -> Result<(), BeyondBound> {
        if depth > whole.depth {
            return Err(BeyondBound::Depth(whole.depth));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match openat(at, name, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::ACCESS | Errno::PERM | Errno::MFILE) => return Err(BeyondBound::Closed),
            // Gone, or something else by now.
            Err(_) => return Ok(()),
        };
        let Ok(entries) = Dir::read_from(&directory) else { return Ok(()) };
        for entry in entries.flatten().filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            self.entries = self.entries.checked_sub(1).ok_or(BeyondBound::Entries(whole.entries))?;
            let Ok(facts) = statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            // A small file takes a whole block.
            let taken = (facts.st_blocks as u64).saturating_mul(512);
            let bytes = match whole.holes {
                Holes::Count => taken.max(facts.st_size as u64),
                Holes::Free => taken,
            };
            self.bytes = self.bytes.checked_sub(bytes).ok_or(BeyondBound::Bytes(whole.bytes))?;
            if FileType::from_raw_mode(facts.st_mode) == FileType::Directory {
                self.count(directory.as_fd(), entry.file_name(), whole, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// The bound of one run, looked at again and again.
pub(crate) struct BoundWatch {
    bound: WriteBound,
    directories: Vec<PathBuf>,
    keep_free: u64,
    glance: Instant,
    count: Instant,
}

impl BoundWatch {
    pub(crate) fn new(attached: &Attached) -> Option<Self> {
        let bound = attached.bound?;
        let writable = attached.directories.iter().filter(|one| one.attach_as == AttachAs::Write);
        let directories = writable.map(|one| one.source.clone()).chain(attached.bounded.iter().cloned());
        let directories: Vec<PathBuf> = directories.collect();
        let free = directories.iter().filter_map(|path| free(path).ok()).min()?;
        let now = Instant::now();
        Some(Self {
            bound,
            directories,
            keep_free: bound.keep_free.min(free / 2),
            glance: now + GLANCE,
            count: now + COUNT,
        })
    }

    /// When to look next.
    pub(crate) fn due(&self) -> Instant {
        self.glance.min(self.count)
    }

    /// Looks if it is time to.
    pub(crate) fn is_beyond(&mut self, now: Instant) -> bool {
        if now >= self.glance {
            self.glance = now + GLANCE;
            if self.directories.iter().any(|path| free(path).is_ok_and(|free| free < self.keep_free)) {
                return true;
            }
        }
        if now < self.count {
            return false;
        }
        let beyond = self.bound.check_all(&self.directories).is_err();
        self.count = Instant::now() + COUNT.max(now.elapsed() * COUNT_COST);
        beyond
    }
}

/// What is denied to a command that was ended so.
pub const BEYOND_QUOTA: &str = "disk quota";

/// What a command is told that was ended for it; nothing where the bound is not its user's.
pub(crate) fn beyond_quota(attached: &Attached) -> Option<Denial> {
    let bound = attached.bound.filter(|_| !attached.bounded.is_empty())?;
    Some(Denial {
        kind: DenialKind::Limit,
        what: BEYOND_QUOTA.into(),
        process: None,
        rule: format!("{} MiB and {} files for all of a user's workspaces", bound.bytes >> 20, bound.entries),
        remedy: "remove files that are no longer needed, or ask an admin for a larger quota".into(),
        flag: None,
        setting: None,
        count: 1,
        inferred: false,
    })
}

fn free(path: &Path) -> io::Result<u64> {
    let facts = statvfs(path)?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const BOUND: WriteBound =
        WriteBound { bytes: 1 << 20, entries: 20, depth: 4, keep_free: 0, holes: Holes::Count };

    #[test]
    fn each_part_of_a_bound_is_one() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::os::unix::fs::symlink("/usr", at("link")).unwrap();
        fs::create_dir_all(at("a/b/c/d")).unwrap();
        assert_eq!(BOUND.check(root.path()), Ok(()));
        fs::create_dir(at("a/b/c/d/e")).unwrap();
        assert_eq!(BOUND.check(root.path()), Err(BeyondBound::Depth(4)));
        fs::remove_dir(at("a/b/c/d/e")).unwrap();
        fs::write(at("large"), vec![1; 2 << 20]).unwrap();
        assert_eq!(BOUND.check(root.path()), Err(BeyondBound::Bytes(1 << 20)));
        fs::remove_file(at("large")).unwrap();
        fs::File::create(at("hole")).unwrap().set_len(2 << 20).unwrap();
        assert_eq!(BOUND.check(root.path()), Err(BeyondBound::Bytes(1 << 20)));
        assert_eq!(WriteBound { holes: Holes::Free, ..BOUND }.check(root.path()), Ok(()));
        fs::remove_file(at("hole")).unwrap();
        (0..20).for_each(|number| fs::write(at(&number.to_string()), "").unwrap());
        assert_eq!(BOUND.check(root.path()), Err(BeyondBound::Entries(20)));
    }
    /// Small files by their blocks, not by their few bytes.
    #[test]
    fn small_files_count_for_what_they_take() {
        let root = tempfile::tempdir().unwrap();
        (0..10).for_each(|number| fs::write(root.path().join(number.to_string()), "x").unwrap());
        let block = rustix::fs::stat(root.path().join("0")).unwrap().st_blocks as u64 * 512;
        let bound = WriteBound { bytes: block * 10 - 1, ..BOUND };
        assert_eq!(bound.check(root.path()), Err(BeyondBound::Bytes(bound.bytes)));
        assert_eq!(WriteBound { bytes: block.max(1) * 10, ..BOUND }.check(root.path()), Ok(()));
    }

    #[test]
    fn one_bound_is_for_all_directories_together() {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for root in &roots {
            fs::File::create(root.path().join("half")).unwrap().set_len(600 << 10).unwrap();
            assert_eq!(BOUND.check(root.path()), Ok(()));
        }
        assert_eq!(BOUND.check_all(&roots), Err(BeyondBound::Bytes(1 << 20)));
    }
}
