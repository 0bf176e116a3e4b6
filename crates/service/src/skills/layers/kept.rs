//! The layers that are kept, under `layers` in the state directory: `<id>/root` and, beside it, `<id>/layer.json`, which
//! says what it is. One is there whole or not at all: it is made in `staging` and renamed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringfence_skills::remove_tree;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::plan::LayerKind;
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;
use crate::skills::pythons::InterpreterFacts;
use crate::skills::scratch::make;

pub(super) const RECORD: &str = "layer.json";
pub(super) const ROOT: &str = "root";

/// One layer, as `layer.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    pub key: String,
    pub kind: LayerKind,
    pub interpreter: InterpreterFacts,
    pub requirements: Vec<String>,
    /// Where they came from, as the client's settings say.
    #[serde(default)]
    pub registries: Vec<String>,
    /// What was installed for them.
    pub resolved: Vec<Package>,
    pub bytes: u64,
    pub built: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
}

/// Held for as long as a run uses the layer: it is not removed meanwhile.
#[derive(Debug)]
pub struct LayerInUse {
    pub key: String,
    pub root: PathBuf,
    _held: File,
}

/// The directory of all layers.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(super) path: PathBuf,
}

impl Layers {
    pub(crate) fn of(places: &Places) -> Self {
        Self { path: places.state.path().join("layers") }
    }

    pub(super) fn ensure(&self, places: &Places) -> Result<(), ServiceError> {
        places.state.ensure()?;
        for path in [self.path.clone(), self.path.join("locks"), self.path.join("staging")] {
            make(&path).map_err(|error| ServiceError::state("make", &path, &error))?;
        }
        Ok(())
    }

    pub(super) fn staging(&self, key: &str) -> PathBuf {
        self.path.join("staging").join(key)
    }

    /// The file whose lock says who builds or removes this layer. It stays, since others may wait on it.
    pub(super) fn lock_file(&self, key: &str) -> Result<File, ServiceError> {
        let path = self.path.join("locks").join(key);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        opened.map_err(|error| ServiceError::state("lock", &path, &error))
    }

    /// Remove what builders that were killed have left: nobody holds its lock. Says what can't be removed.
    pub(super) fn sweep(&self) -> Vec<ServiceError> {
        let mut problems = Vec::new();
        for entry in fs::read_dir(self.path.join("staging")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(key) = name.to_str() else { continue };
            let key = key.split('.').next().unwrap_or(key);
            if let Ok(lock) = self.lock_file(key)
                && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            {
                let path = entry.path();
                problems.extend(
                    remove_tree(&path).err().map(|error| ServiceError::state("remove", &path, &error)),
                );
            }
        }
        problems
    }

    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .collect();
        keys.sort();
        keys
    }
}

/// The layer of this id, if it is there.
pub(crate) fn find_layer(places: &Places, key: &str) -> Option<LayerInUse> {
    let directory = Layers::of(places).path.join(key);
    let held = File::open(directory.join(RECORD)).ok()?;
    flock(&held, FlockOperation::NonBlockingLockShared).ok()?;
    // Removed between the two steps: its record is nobody's any more.
    directory.join(RECORD).exists().then(|| LayerInUse {
        key: key.to_owned(),
        root: directory.join(ROOT),
        _held: held,
    })
}

/// Every layer that is kept, in the order of their ids.
pub fn layers(places: &Places) -> Vec<LayerRecord> {
    let layers = Layers::of(places);
    layers.keys().iter().filter_map(|key| read_record(&layers.path.join(key))).collect()
}

/// Remove the one whose id begins so, or every one. What a run uses stays, and is an error if it was named.
pub fn remove_layers(places: &Places, id: Option<&str>) -> Result<Vec<String>, ServiceError> {
    let layers = Layers::of(places);
    let mut keys = layers.keys();
    if let Some(id) = id {
        keys.retain(|key| key.starts_with(id));
        match (id.len() >= 4, keys.len()) {
            (true, 1) => {}
            (_, 0) => return Err(bad(format!("there is no layer {id}"))),
            _ => return Err(bad(format!("{id} does not say which of {} layers is meant", keys.len()))),
        }
    }
    layers.ensure(places)?;
    let left = layers.sweep();
    let mut removed = Vec::new();
    for key in keys {
        let lock = layers.lock_file(&key)?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| ServiceError::state("lock", &layers.path, &error.into()))?;
        match remove(&layers, &key) {
            Ok(true) => removed.push(key),
            Ok(false) if id.is_some() => return Err(bad(format!("a run uses the layer {key} now"))),
            Ok(false) => {}
            Err(error) => return Err(ServiceError::state("remove", &layers.path.join(&key), &error)),
        }
    }
    left.into_iter().next().map_or(Ok(removed), Err)
}

/// Under its lock: false if a run uses it.
pub(super) fn remove(layers: &Layers, key: &str) -> io::Result<bool> {
    let path = layers.path.join(key);
    let record = match File::open(path.join(RECORD)) {
        Ok(record) => Some(record),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(record) = &record
        && flock(record, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        return Ok(false);
    }
    let leaving = layers.staging(&format!("{key}.removed"));
    if leaving.exists() {
        remove_tree(&leaving)?;
    }
    match fs::rename(&path, &leaving) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        done => done?,
    }
    remove_tree(&leaving)?;
    Ok(true)
}

fn read_record(directory: &Path) -> Option<LayerRecord> {
    serde_json::from_str(&read_if_there(&directory.join(RECORD)).ok()??).ok()
}

fn bad(message: String) -> ServiceError {
    ServiceError::new(ErrorCode::BadRequest, message, "see `ringfence skill layers ls`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateDir;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn fixture() -> (tempfile::TempDir, Places, Layers) {
        let root = tempfile::tempdir().unwrap();
        let mut places = Places::from_env().unwrap();
        places.state = StateDir::new(root.path().join("state"));
        let layers = Layers::of(&places);
        layers.ensure(&places).unwrap();
        (root, places, layers)
    }

    fn write(layers: &Layers, key: &str) {
        let record = LayerRecord {
            key: key.into(),
            kind: LayerKind::Python,
            interpreter: InterpreterFacts {
                path: "/usr/bin/python3".into(),
                version: "3".into(),
                platform: "x".into(),
            },
            requirements: Vec::new(),
            registries: Vec::new(),
            resolved: Vec::new(),
            bytes: 0,
            built: String::new(),
        };
        fs::create_dir_all(layers.path.join(key).join(ROOT)).unwrap();
        fs::write(layers.path.join(key).join(RECORD), serde_json::to_vec(&record).unwrap()).unwrap();
    }

    #[test]
    fn one_that_a_run_uses_is_not_removed() {
        let (_root, places, all) = fixture();
        write(&all, KEY);
        let used = find_layer(&places, KEY).unwrap();
        let also = find_layer(&places, KEY).unwrap();
        assert!(remove_layers(&places, Some("0123")).unwrap_err().message.contains("a run uses"));
        assert_eq!(remove_layers(&places, None).unwrap(), Vec::<String>::new());
        drop((used, also));
        assert_eq!(remove_layers(&places, Some("0123")).unwrap(), [KEY]);
        assert!(find_layer(&places, KEY).is_none() && layers(&places).is_empty());
        assert!(remove_layers(&places, Some("0123")).is_err());
    }

    #[test]
    fn what_a_killed_builder_left_is_swept_and_what_one_builds_is_not() {
        let (_root, _places, layers) = fixture();
        fs::create_dir_all(layers.staging(KEY).join(ROOT)).unwrap();
        let other = "f".repeat(32);
        fs::create_dir_all(layers.staging(&other)).unwrap();
        let building = layers.lock_file(&other).unwrap();
        flock(&building, FlockOperation::LockExclusive).unwrap();
        assert!(layers.sweep().is_empty());
        assert!(!layers.staging(KEY).exists() && layers.staging(&other).exists());
    }

    #[test]
    fn an_id_must_say_which() {
        let (_root, places, all) = fixture();
        write(&all, KEY);
        for id in ["", "0", "9999", "../.."] {
            assert!(remove_layers(&places, Some(id)).is_err(), "{id}");
        }
        assert_eq!(layers(&places).len(), 1);
    }
}
