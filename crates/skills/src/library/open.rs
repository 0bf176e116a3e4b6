//! A library on disk: the folders that people read, and `.ringfence`, which is ours.
//!
//! ```text
//! <domain>/<skill>/…                       the working copies
//! .ringfence/format                        which layout this is
//! .ringfence/lock                          one writer at a time
//! .ringfence/versions/<digest>/…           every published version, read-only
//! .ringfence/history/<domain>/<skill>.json what happened to it
//! .ringfence/staging/<random>/…            changes being made ready
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fstat, fsync, renameat};

use crate::TreeLimits;

use super::copy::Modes;
use super::exclusive::Exclusive;
use super::name::Domain;
use super::staging::{self, Staging};
use super::steps::Steps;
use super::{LibraryError, Unreadable, beneath, clear::clear};

const OWN: &str = ".ringfence";
const FORMAT: &str = "1\n";

/// Whether a library that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    Yes,
    No,
}

/// Staging without a live owner.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    pub(super) cleared: usize,
    pub(super) left: Vec<Unreadable>,
}

/// Skills on disk. Readers take no lock; a change takes the library's.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    pub(super) root: OwnedFd,
    own: OwnedFd,
    pub(super) versions: OwnedFd,
    pub(super) histories: OwnedFd,
    stagings: OwnedFd,
    /// The group may write what it may write at the top: a team's library.
    group: u32,
    limits: TreeLimits,
    patience: Duration,
    pub(super) steps: Steps,
}

impl Library {
    /// Open the library at `root`; the caller chose that path, so links on the way to it are followed, none below.
    pub fn open(root: &Path, create: Create) -> Result<Self, LibraryError> {
        let shown = root.display().to_string();
        if create == Create::Yes {
            std::fs::create_dir_all(root).map_err(LibraryError::io("make the library", &*shown))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = match rustix::fs::open(root, flags, Mode::empty()) {
            Ok(top) => top,
            Err(rustix::io::Errno::NOENT) => return Err(LibraryError::NoLibrary(shown)),
            Err(error) => return Err(LibraryError::io("open the library", shown)(error.into())),
        };
        let facts =
            fstat(&top).map_err(|error| LibraryError::io("open the library", &*shown)(error.into()))?;
        let group = facts.st_mode & 0o020;
        let directory = |at: BorrowedFd<'_>, name: &str| {
            let opened = match create {
                Create::Yes => beneath::ensure_directory(at, name, 0o755 | group),
                Create::No => beneath::open_directory(at, name),
            };
            opened.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => LibraryError::NoLibrary(shown.clone()),
                _ => LibraryError::io("open the library", format!("{shown}/{name}"))(error),
            })
        };
        let own = directory(top.as_fd(), OWN)?;
        let library = Self {
            versions: directory(own.as_fd(), "versions")?,
            histories: directory(own.as_fd(), "history")?,
            stagings: directory(own.as_fd(), "staging")?,
            path: root.to_owned(),
            root: top,
            own,
            group,
            limits: TreeLimits::default(),
            patience: Duration::from_secs(60),
            steps: Steps::from_environment(),
        };
        library.check_format(create)?;
        Ok(library)
    }

    /// With other bounds on what one skill may be.
    pub fn with_limits(mut self, limits: TreeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// With another bound on the wait for other writers.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// As it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn limits(&self) -> TreeLimits {
        self.limits
    }

    /// What people see and edit.
    pub(super) fn folder_modes(&self) -> Modes {
        Modes { directory: 0o755 | self.group, file: 0o644 | self.group, executable: 0o755 | self.group }
    }

    /// What nobody edits. Directories stay writable, or only root could remove them.
    pub(super) fn version_modes(&self) -> Modes {
        Modes { directory: 0o755 | self.group, file: 0o444, executable: 0o555 }
    }

    pub(super) fn own_directory_mode(&self) -> u32 {
        0o755 | self.group
    }

    /// Be the one writer. What killed writers left is removed first.
    pub(super) fn lock(&self) -> Result<Exclusive, LibraryError> {
        self.lock_counted().map(|(lock, _)| lock)
    }

    /// The same, and what was left.
    pub(super) fn lock_counted(&self) -> Result<(Exclusive, Orphans), LibraryError> {
        let lock = Exclusive::take(self.own.as_fd(), 0o644 | self.group, self.patience)?;
        let orphans = self.clear_orphans(&lock)?;
        Ok((lock, orphans))
    }

    /// What can't be cleared stays: only its owner may be able to, and it is in nobody's way.
    fn clear_orphans(&self, lock: &Exclusive) -> Result<Orphans, LibraryError> {
        let failed = || LibraryError::io("clear staging", format!("{OWN}/staging"));
        let mut orphans = Orphans::default();
        for name in staging::orphans(self.stagings.as_fd(), lock).map_err(failed())? {
            match clear(self.stagings.as_fd(), &name) {
                Ok(()) => orphans.cleared += 1,
                Err(error) => {
                    orphans.left.push(Unreadable {
                        path: format!("{OWN}/staging/{name}"),
                        why: format!("left by a change that was cut short, and can't be removed: {error}"),
                    });
                }
            }
        }
        Ok(orphans)
    }

    /// A place to make a change ready; the lock is held only for a moment.
    pub(super) fn stage(&self) -> Result<Staging, LibraryError> {
        let lock = self.lock()?;
        self.stage_locked(&lock)
    }

    pub(super) fn stage_locked(&self, lock: &Exclusive) -> Result<Staging, LibraryError> {
        self.steps.run("stage", "staging", || Staging::new(self.stagings.as_fd(), lock))
    }

    /// The directory of a domain, if there is one. A link is an error.
    pub(super) fn domain(&self, domain: &Domain) -> Result<Option<OwnedFd>, LibraryError> {
        match beneath::open_directory(self.root.as_fd(), domain.as_str()) {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LibraryError::io("open the domain", domain.as_str())(error)),
        }
    }

    fn check_format(&self, create: Create) -> Result<(), LibraryError> {
        let own = self.own.as_fd();
        let shown = format!("{}/{OWN}", self.path.display());
        if create == Create::Yes && beneath::facts(own, "format").is_ok_and(|facts| facts.is_none()) {
            let lock = self.lock()?;
            let staging = self.stage_locked(&lock)?;
            beneath::write_file(staging.directory(), "format", FORMAT.as_bytes(), 0o644 | self.group)
                .and_then(|()| Ok(renameat(staging.directory(), "format", own, "format")?))
                .and_then(|()| Ok(fsync(own)?))
                .map_err(LibraryError::io("make the library", &*shown))?;
        }
        match beneath::read_file(own, "format", 64) {
            Ok(format) if format == FORMAT.as_bytes() => Ok(()),
            Ok(format) => {
                let why = format!("its format is {:?}", String::from_utf8_lossy(&format).trim());
                Err(LibraryError::Format { path: shown, why })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(LibraryError::NoLibrary(self.path.display().to_string()))
            }
            Err(error) => Err(LibraryError::io("read the format", shown)(error)),
        }
    }
}
