//! Removing what no snapshot needs any more.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::error::{During, Result};
use super::store::SnapshotStore;
use super::verify::named_hash;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub objects: u64,
    pub bytes: u64,
    /// What killed saves left.
    pub temporary: u64,
}

impl SnapshotStore {
    /// Refused while anyone works with the store. A damaged manifest stops it: what that one needs is not known.
    pub fn collect(&self) -> Result<Collected> {
        let _lock = self.alone()?;
        let mut needed = HashSet::new();
        for id in self.ids()? {
            needed.extend(self.load(id)?.objects().map(|(hash, _)| hash));
        }
        let mut collected = Collected::default();
        self.each_object(|path| {
            if named_hash(path).is_some_and(|hash| !needed.contains(&hash)) {
                collected.bytes += remove(path)?;
                collected.objects += 1;
            }
            Ok(())
        })?;
        let temporary = self.temporary_directory();
        for entry in fs::read_dir(&temporary).at("list", &temporary)? {
            collected.bytes += remove(&entry.at("list", &temporary)?.path())?;
            collected.temporary += 1;
        }
        Ok(collected)
    }
}

/// How many bytes it had.
fn remove(path: &Path) -> Result<u64> {
    let size = fs::symlink_metadata(path).at("look at", path)?.len();
    fs::remove_file(path).at("remove", path)?;
    Ok(size)
}
