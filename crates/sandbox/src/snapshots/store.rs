//! Where snapshots are kept: objects, manifests, and for each session what its files were when they were last read.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::error::{During, Result, SnapshotError};
use super::hash::SnapshotId;
use super::limits::SnapshotLimits;
use super::lock::StoreLock;
use super::manifest::{Manifest, SnapshotFacts, check_label};
use super::manifest_file::{MOST_MANIFEST, decode, encode, id_of, read_facts};
use super::objects::{Batch, Objects, make_directory, sync};

/// The directory is the caller's alone; what reads from it may trust it no further than [`SnapshotStore::verify`] goes.
#[derive(Debug)]
pub struct SnapshotStore {
    directory: PathBuf,
    pub(super) objects: Objects,
    pub(super) limits: SnapshotLimits,
}

/// A snapshot in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub id: SnapshotId,
    pub facts: SnapshotFacts,
}

#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The newest first.
    pub snapshots: Vec<Summary>,
    /// Those whose facts can't be read, and why.
    pub damaged: Vec<(SnapshotId, String)>,
}

impl SnapshotStore {
    /// Made if it is not there.
    pub fn open(directory: &Path, limits: SnapshotLimits) -> Result<Self> {
        fs::create_dir_all(directory.parent().unwrap_or(directory)).at("create", directory)?;
        make_directory(directory)?;
        for part in ["objects", "manifests", "caches", "tmp"] {
            make_directory(&directory.join(part))?;
        }
        let directory = directory.canonicalize().at("find", directory)?;
        Ok(Self { objects: Objects::new(&directory), directory, limits })
    }

    pub fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for id in self.ids()? {
            let facts = match File::open(self.manifest_path(&id)) {
                Ok(file) => read_facts(BufReader::new(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Err(error.to_string()),
            };
            match facts {
                Ok(facts) => listing.snapshots.push(Summary { id, facts }),
                Err(why) => listing.damaged.push((id, why)),
            }
        }
        listing.snapshots.sort_by_key(|summary| Reverse((summary.facts.created, summary.id)));
        Ok(listing)
    }

    /// By id, by name (the newest of that name), or by the beginning of an id.
    pub fn find(&self, given: &str) -> Result<SnapshotId> {
        const LEAST: usize = 4;
        let ids = self.ids()?;
        if let Some(id) = SnapshotId::parse(given).filter(|id| ids.contains(id)) {
            return Ok(id);
        }
        if let Some(named) = self.list()?.snapshots.iter().find(|summary| summary.facts.name == given) {
            return Ok(named.id);
        }
        let begins = |id: &&SnapshotId| given.len() >= LEAST && id.to_string().starts_with(given);
        match ids.iter().filter(begins).collect::<Vec<_>>()[..] {
            [id] => Ok(*id),
            [] => Err(SnapshotError::Unknown(given.to_owned())),
            ref many => Err(SnapshotError::Ambiguous { given: given.to_owned(), count: many.len() }),
        }
    }

    /// All of it, checked against its id.
    pub fn load(&self, id: SnapshotId) -> Result<Manifest> {
        let path = self.manifest_path(&id);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(MOST_MANIFEST + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => decode(id, &bytes, &self.limits),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(SnapshotError::Unknown(id.to_string()))
            }
            Err(error) => Err(error).at("read", &path),
        }
    }

    /// Its objects stay until [`SnapshotStore::collect`].
    pub fn remove(&self, id: SnapshotId) -> Result<()> {
        let path = self.manifest_path(&id);
        match fs::remove_file(&path) {
            Ok(()) => sync(&self.directory.join("manifests")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(SnapshotError::Unknown(id.to_string()))
            }
            Err(error) => Err(error).at("remove", &path),
        }
    }

    /// When a session is gone: what its files were is of no use any more.
    pub fn forget_session(&self, session: &str) -> Result<()> {
        let path = self.cache_path(session)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.at("remove", &path),
        }
    }

    pub(super) fn ids(&self) -> Result<Vec<SnapshotId>> {
        let path = self.directory.join("manifests");
        let mut ids = Vec::new();
        for entry in fs::read_dir(&path).at("list", &path)? {
            let name = entry.at("list", &path)?.file_name();
            ids.extend(name.to_str().and_then(|name| SnapshotId::parse(name.strip_suffix(".jsonl")?)));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Give objects and manifest their names, in this order.
    pub(super) fn commit(&self, batch: Batch<'_>, manifest: &Manifest) -> Result<SnapshotId> {
        let bytes = encode(manifest);
        if bytes.len() as u64 > MOST_MANIFEST {
            return Err(SnapshotError::TooMuch { what: "the size of the manifest", limit: MOST_MANIFEST });
        }
        batch.commit()?;
        let id = id_of(&bytes);
        let temporary = self.objects.temporary()?;
        temporary.create()?.write_all(&bytes).at("write", temporary.path())?;
        sync(temporary.path())?;
        temporary.rename(&self.manifest_path(&id))?;
        sync(&self.directory.join("manifests"))?;
        Ok(id)
    }

    pub(super) fn manifest_path(&self, id: &SnapshotId) -> PathBuf {
        self.directory.join("manifests").join(format!("{id}.jsonl"))
    }

    pub(super) fn cache_path(&self, session: &str) -> Result<PathBuf> {
        check_label("the session", session)?;
        Ok(self.directory.join("caches").join(session))
    }

    pub(super) fn temporary_directory(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    pub(super) fn shared(&self) -> Result<StoreLock> {
        StoreLock::shared(&self.directory)
    }

    pub(super) fn alone(&self) -> Result<StoreLock> {
        StoreLock::alone(&self.directory)
    }
}
