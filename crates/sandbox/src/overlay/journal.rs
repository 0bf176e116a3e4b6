//! What a commit has set out to do, on disk before it does it. Where it has got to is not written down: that is seen from
//! which file is where.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::beneath::{open_file, open_top};
use super::error::OverlayError;
use super::identity::Stamp;
use super::record::{RawPath, Seen};

const JOURNAL: &str = "journal.json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// New contents are being gathered; the user's files are as they were.
    Staging,
    /// Everything is gathered and on disk: from here it can be finished, and undone.
    Armed,
    /// All of it is applied: what is left is to clear away.
    Applied,
    /// None of it is, and the same is left.
    Undone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    /// Something new where there is nothing.
    Put,
    /// Something new in exchange for what is there.
    Exchange,
    /// What is there goes.
    Remove,
    /// What is there gets other permissions.
    Mode,
}

/// One change of the user's directory, made by one call of the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Unit {
    pub(super) path: RawPath,
    pub(super) action: Action,
    /// Its place in the staging directory.
    pub(super) slot: u32,
    pub(super) old: Option<Side>,
    pub(super) new: Option<Side>,
}

/// What is to be found on one side of a unit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Side {
    pub(super) stamp: Stamp,
    /// Of all that is in it, where it is a directory.
    pub(super) tree: u64,
}

/// One path that the commit is about, for the record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) path: RawPath,
    pub(super) upper: Seen,
    /// What was made for it.
    pub(super) made: Option<Stamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The staging directory's name.
    pub(super) staging: String,
    pub(super) phase: Phase,
    pub(super) units: Vec<Unit>,
    pub(super) entries: Vec<Entry>,
    /// Directories that only this commit changes.
    pub(super) parents: Vec<RawPath>,
    /// Slots that hold something of the user's which has no other place any more: not cleared away.
    pub(super) kept: Vec<u32>,
    /// What its user has changed since, which was not taken back.
    pub(super) left: Vec<RawPath>,
}

impl Journal {
    pub(super) fn load(store: &Store) -> Result<Option<Self>, OverlayError> {
        load(store, JOURNAL)
    }

    pub(super) fn store(&self, store: &Store) -> Result<(), OverlayError> {
        self::store(store, JOURNAL, self)
    }

    pub(super) fn remove(store: &Store) -> Result<(), OverlayError> {
        match unlinkat(&store.directory, JOURNAL, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(store.failed("remove", JOURNAL, error)),
        }
    }
}

/// The directory beside the layers that commits write to.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) path: PathBuf,
    directory: OwnedFd,
}

impl Store {
    pub(super) fn open(layers: &Path) -> Result<Self, OverlayError> {
        let path = layers.join("commit");
        let directory = open_top(&path).map_err(|error| OverlayError::failed("open", &path, error))?;
        Ok(Self { path, directory })
    }

    fn failed(&self, step: &'static str, name: &str, error: impl Into<io::Error>) -> OverlayError {
        OverlayError::failed(step, self.path.join(name), error)
    }
}

pub(super) fn load<T: DeserializeOwned>(store: &Store, name: &str) -> Result<Option<T>, OverlayError> {
    let file = match open_file(&store.directory, Path::new(name)) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(store.failed("open", name, error)),
    };
    let read = serde_json::from_reader(io::BufReader::new(file));
    read.map(Some).map_err(|error| store.failed("read", name, error))
}

/// Whole or not at all, and on disk when this returns.
pub(super) fn store<T: Serialize>(store: &Store, name: &str, value: &T) -> Result<(), OverlayError> {
    let fresh = format!("{name}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let write = || -> io::Result<()> {
        let file = openat(&store.directory, &fresh, flags, Mode::from_raw_mode(0o600))?;
        let mut out = io::BufWriter::new(std::fs::File::from(file));
        serde_json::to_writer(&mut out, value)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        renameat(&store.directory, &fresh, &store.directory, name)?;
        Ok(fsync(&store.directory)?)
    };
    write().map_err(|error| store.failed("write", name, error))
}
