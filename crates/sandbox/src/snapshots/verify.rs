//! Checking that snapshots are what they were: every manifest against its id, every object against its hash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::{During, Result, SnapshotError};
use super::hash::{ObjectHash, SnapshotId};
use super::manifest::Node;
use super::reading::hash_of;
use super::store::SnapshotStore;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    Manifest {
        id: SnapshotId,
        why: String,
    },
    /// A snapshot's file has no content.
    Missing {
        id: SnapshotId,
        object: ObjectHash,
        path: String,
    },
    /// The file in the store, and the snapshots that use it, as far as they were looked at.
    Object {
        file: String,
        why: String,
        used_by: Vec<SnapshotId>,
    },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Manifest { id, why } => write!(formatter, "manifest {id}: {why}"),
            Self::Missing { id, object, path } => {
                write!(
                    formatter,
                    "snapshot {}: the content of {path} (object {object}) is missing",
                    id.short()
                )
            }
            Self::Object { file, why, used_by } => {
                write!(formatter, "object {file}: {why}")?;
                used_by.iter().try_for_each(|id| write!(formatter, "; used by {}", id.short()))
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Verified {
    pub manifests: u64,
    pub objects: u64,
    pub bytes: u64,
    /// Empty: all is whole.
    pub damage: Vec<Damage>,
}

/// Who uses an object.
type Users = BTreeMap<ObjectHash, BTreeSet<SnapshotId>>;

impl SnapshotStore {
    /// One snapshot and the objects that it uses.
    pub fn verify(&self, id: SnapshotId) -> Result<Verified> {
        let _lock = self.shared()?;
        let mut verified = Verified::default();
        let mut users = Users::new();
        self.verify_manifest(id, &mut verified, &mut users)?;
        for hash in users.keys().copied().collect::<Vec<_>>() {
            let path = self.objects.path(&hash);
            if path.exists() {
                verify_object(&path, &mut verified, &users)?;
            }
        }
        Ok(verified)
    }

    /// Every snapshot, and every object, also those that no snapshot uses.
    pub fn verify_all(&self) -> Result<Verified> {
        let _lock = self.shared()?;
        let mut verified = Verified::default();
        let mut users = Users::new();
        for id in self.ids()? {
            self.verify_manifest(id, &mut verified, &mut users)?;
        }
        self.each_object(|path| verify_object(path, &mut verified, &users))?;
        Ok(verified)
    }

    fn verify_manifest(&self, id: SnapshotId, verified: &mut Verified, users: &mut Users) -> Result<()> {
        let manifest = match self.load(id) {
            Ok(manifest) => manifest,
            Err(SnapshotError::Damaged { why, .. }) => {
                verified.damage.push(Damage::Manifest { id, why });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        verified.manifests += 1;
        for entry in manifest.roots.iter().flat_map(|root| &root.entries) {
            if let Node::File { object, .. } = entry.node {
                let new = users.entry(object).or_default().insert(id);
                if new && !self.objects.path(&object).exists() {
                    verified.damage.push(Damage::Missing { id, object, path: entry.path.to_string() });
                }
            }
        }
        Ok(())
    }

    /// Every file among the objects, whatever it is.
    pub(super) fn each_object(&self, mut action: impl FnMut(&Path) -> Result<()>) -> Result<()> {
        let top = self.objects.directory();
        for shard in fs::read_dir(top).at("list", top)? {
            let shard = shard.at("list", top)?.path();
            for object in fs::read_dir(&shard).at("list", &shard)? {
                action(&object.at("list", &shard)?.path())?;
            }
        }
        Ok(())
    }
}

fn verify_object(path: &Path, verified: &mut Verified, users: &Users) -> Result<()> {
    let named = named_hash(path);
    let why = match (named, File::open(path)) {
        (None, _) => Some("its name is not that of an object".to_owned()),
        // A form that its owner may not read: what it is a copy of is checked.
        (Some(_), Err(error)) if is_closed(path) && error.kind() == io::ErrorKind::PermissionDenied => None,
        (_, Err(error)) => Some(error.to_string()),
        (Some(expected), Ok(mut file)) => {
            verified.objects += 1;
            verified.bytes += file.metadata().map_or(0, |facts| facts.len());
            match hash_of(&mut file) {
                Ok(hash) if hash == expected => None,
                Ok(_) => Some("its content is not what its name says".to_owned()),
                Err(error) => Some(error.to_string()),
            }
        }
    };
    if let Some(why) = why {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let used_by = named.and_then(|hash| users.get(&hash)).into_iter().flatten().copied().collect();
        verified.damage.push(Damage::Object { file, why, used_by });
    }
    Ok(())
}

fn is_closed(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.permissions().mode() & 0o400 == 0)
}

/// Of `ab/abcd…`, or `ab/abcd….755` for the same content with another mode.
pub(super) fn named_hash(path: &Path) -> Option<ObjectHash> {
    let name = path.file_name()?.to_str()?;
    let (hash, mode) = name.split_once('.').unwrap_or((name, "0"));
    let is_mode = (1..=4).contains(&mode.len()) && mode.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let hash = is_mode.then(|| ObjectHash::parse(hash))??;
    let shard = path.parent()?.file_name()?.to_str()?;
    (shard == &name[..2]).then_some(hash)
}
