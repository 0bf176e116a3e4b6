//! The layers of a session on disk: made once, with the moment on the user's filesystem from which on a change there is
//! somebody else's.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    FlockOperation, Mode, OFlags, XattrFlags, fchmod, flock, open, removexattr, setxattr, unlink,
};
use serde::{Deserialize, Serialize};

use super::beneath::{open_directory, open_top};
use super::changes::Change;
use super::error::OverlayError;
use super::identity::{Moment, Stamp};
use super::journal::{Store, load, store};
use super::record::{RawPath, Record};
use super::walk::Walk;
use crate::layers::WorkspaceLayers;

const START: &str = "start.json";
pub(super) const RECORD: &str = "record.json";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Start {
    lower: RawPath,
    device: u64,
    inode: u64,
    at: Moment,
    /// The lower tree is the user's own directory.
    commits: bool,
}

/// The layers of one session, opened from outside.
#[derive(Debug)]
pub struct Overlay {
    pub(super) upper: OwnedFd,
    pub(super) lower: OwnedFd,
    /// The user's directory by name, for messages and for the survey of its repositories.
    pub(super) lower_path: PathBuf,
    /// What commits keep.
    pub(super) store: Store,
    start: Start,
}

/// Make the layers for a session over `workspace` (or over the tree that the layers name). Those that are there already
/// are left as they are.
pub fn prepare_layers(layers: &WorkspaceLayers, workspace: &Path) -> Result<(), OverlayError> {
    let beneath = layers.lower.as_deref().unwrap_or(workspace);
    let lower = fs::canonicalize(beneath).map_err(|error| OverlayError::failed("find", beneath, error))?;
    let facts = fs::metadata(&lower).map_err(|error| OverlayError::failed("look at", &lower, error))?;
    for (name, mode) in [("upper", facts.mode() & 0o777), ("work", 0o700), ("commit", 0o700)] {
        let path = layers.directory.join(name);
        let owner = (name != "commit").then_some(&facts);
        make_directory(&path, mode, owner).map_err(|error| OverlayError::failed("make", path, error))?;
    }
    let upper = layers.upper();
    keeps_attributes(&upper).map_err(|error| OverlayError::failed("keep attributes in", upper, error))?;
    let commit = Store::open(&layers.directory)?;
    if load::<Start>(&commit, START)?.is_some() {
        return Ok(());
    }
    let on_one = fs::metadata(&layers.directory).is_ok_and(|own| own.dev() == facts.dev());
    let clock = if on_one { &layers.directory } else { &lower };
    let at = now(clock).map_err(|error| OverlayError::failed("read the clock of", clock, error))?;
    let start = Start {
        lower: RawPath(lower),
        device: facts.dev(),
        inode: facts.ino(),
        at,
        commits: layers.lower.is_none(),
    };
    store(&commit, START, &start)
}

impl Overlay {
    /// Open what `prepare_layers` made.
    pub fn open(directory: &Path) -> Result<Self, OverlayError> {
        let store = Store::open(directory)?;
        let start = load::<Start>(&store, START)?.ok_or_else(|| {
            OverlayError::failed("find", directory.join("commit").join(START), io::ErrorKind::NotFound)
        })?;
        let upper_path = directory.join("upper");
        let upper =
            open_top(&upper_path).map_err(|error| OverlayError::failed("open", &upper_path, error))?;
        let lower_path = start.lower.0.clone();
        let lower = open_top(&lower_path).map_err(|_| OverlayError::Replaced(lower_path.clone()))?;
        let facts = Stamp::of(&lower).map_err(|error| OverlayError::failed("look at", &lower_path, error))?;
        if (facts.device, facts.inode) != (start.device, start.inode) {
            return Err(OverlayError::Replaced(lower_path));
        }
        Ok(Self { upper, lower, lower_path, store, start })
    }

    /// The directory that the session sees through to.
    pub fn beneath(&self) -> &Path {
        &self.lower_path
    }

    /// What the session changed and has not committed, parents before what is in them.
    pub fn changes(&self) -> Result<Vec<Change>, OverlayError> {
        let mut changes = Walk::new(self.start.at, &self.record()?).changes(&self.upper, &self.lower)?;
        if !self.start.commits {
            // What lies beneath is the session's own, and shares its files with a store: others that use them there give
            // them another time, and change nothing.
            changes.iter_mut().for_each(|change| change.conflict = None);
        }
        Ok(changes)
    }

    pub(super) fn record(&self) -> Result<Record, OverlayError> {
        Ok(load(&self.store, RECORD)?.unwrap_or_default())
    }

    /// The user's directory at `path` is as the session has known it.
    pub(super) fn is_quiet(&self, record: &Record, path: &Path) -> bool {
        let facts = open_directory(&self.lower, path).and_then(Stamp::of);
        facts.is_ok_and(|facts| !record.has_changed(self.start.at, path, &facts))
    }

    pub(super) fn is_committable(&self) -> bool {
        self.start.commits
    }

    /// One commit at a time; held until what is returned is dropped.
    pub(super) fn lock(&self) -> Result<OwnedFd, OverlayError> {
        let lock = open_top(&self.store.path)
            .map_err(|error| OverlayError::failed("open", &self.store.path, error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| OverlayError::Busy)?;
        Ok(lock)
    }
}

fn make_directory(path: &Path, mode: u32, owner: Option<&fs::Metadata>) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    if let Some(owner) = owner.filter(|_| rustix::process::geteuid().is_root()) {
        chown(path, Some(owner.uid()), Some(owner.gid()))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// The kernel notes down in attributes what a directory no longer shows; without them it would forget.
fn keeps_attributes(upper: &Path) -> io::Result<()> {
    const TRIAL: &str = "user.ringfence.trial";
    setxattr(upper, TRIAL, b"1", XattrFlags::empty())?;
    Ok(removexattr(upper, TRIAL)?)
}

/// A moment later than every change before this call, and not later than any change after it, on the clock that the
/// filesystem of `directory` stamps its files with.
fn now(directory: &Path) -> io::Result<Moment> {
    let file = nameless_file(directory)?;
    let first = Stamp::of(&file)?.changed;
    loop {
        fchmod(&file, Mode::from_raw_mode(0o600))?;
        let next = Stamp::of(&file)?.changed;
        if next > first {
            return Ok(next);
        }
        // Clocks of files tick in milliseconds, where the kernel has no finer ones.
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn nameless_file(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    match open(directory, flags | OFlags::TMPFILE, mode) {
        Ok(file) => Ok(file),
        // Not every filesystem has files without a name.
        Err(_) => {
            let path = directory.join(format!(".ringfence-clock-{}", std::process::id()));
            let file = open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
            unlink(&path)?;
            Ok(file)
        }
    }
}
