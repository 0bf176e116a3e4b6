//! What a commit would apply, with a digest of all of it: whoever looks at changes before they are committed names what they
//! have looked at, and nothing else is committed.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use super::beneath::{open_any, open_file, read_link};
use super::changes::{Change, Entry, EntryKind};
use super::commit::CommitOptions;
use super::error::OverlayError;
use super::identity::Stamp;
use super::start::Overlay;

impl Overlay {
    /// The digest of what a commit with these options would apply, of these changes. Every byte that is new is in it; a file
    /// that is written to meanwhile is an error.
    pub fn review(&self, changes: &[Change], options: &CommitOptions) -> Result<String, OverlayError> {
        let (units, _) = self.settle(changes, options)?;
        let mut covered: Vec<&Change> = units.iter().flat_map(|unit| unit.covers.iter().copied()).collect();
        covered.sort_by(|one, other| one.path.cmp(&other.path));
        self.digest(&covered)
    }

    pub(super) fn digest(&self, changes: &[&Change]) -> Result<String, OverlayError> {
        let mut digest = blake3::Hasher::new_derive_key("ringfence changes of a workspace v1");
        for change in changes {
            add(&mut digest, change.path.as_os_str().as_bytes());
            add(&mut digest, format!("{:?}", change.kind).as_bytes());
            add(&mut digest, facts(change.old.as_ref()).as_bytes());
            add(&mut digest, facts(change.new.as_ref()).as_bytes());
            if let Some(new) = &change.new {
                add(&mut digest, &self.content_digest(change, new)?);
            }
        }
        Ok(digest.finalize().to_hex().to_string())
    }

    fn content_digest(&self, change: &Change, new: &Entry) -> Result<Vec<u8>, OverlayError> {
        let failed = |error: Errno| OverlayError::failed("read", &change.path, error);
        match new.kind {
            EntryKind::Directory | EntryKind::Special => Ok(Vec::new()),
            EntryKind::Link => {
                let target = open_any(&self.upper, &change.path).and_then(|link| read_link(link, ""));
                Ok(target.map_err(failed)?.as_os_str().as_bytes().to_vec())
            }
            EntryKind::File => match open_file(&self.upper, &change.path) {
                Ok(file) => file_digest(&file, change, new),
                // What can't be read can't be committed either; it is told by what is known of it.
                Err(Errno::ACCESS) => Ok(format!("{:?}", new.stamp).into_bytes()),
                Err(error) => Err(failed(error)),
            },
        }
    }
}

fn file_digest(file: &File, change: &Change, new: &Entry) -> Result<Vec<u8>, OverlayError> {
    let is_unchanged = || Stamp::of(file).is_ok_and(|stamp| stamp == new.stamp);
    let mut digest = blake3::Hasher::new();
    if is_unchanged() {
        digest
            .update_reader(file.take(new.size))
            .map_err(|error| OverlayError::failed("read", &change.path, error))?;
    }
    if digest.count() == new.size && is_unchanged() {
        Ok(digest.finalize().as_bytes().to_vec())
    } else {
        Err(OverlayError::Changing(change.path.clone()))
    }
}

/// Where one ends and the next begins must be clear.
fn add(digest: &mut blake3::Hasher, bytes: &[u8]) {
    digest.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

/// Nothing that another copy of the same would not have.
fn facts(entry: Option<&Entry>) -> String {
    entry.map_or_else(String::new, |entry| format!("{:?} {:o} {}", entry.kind, entry.mode, size(entry)))
}

/// A directory's says nothing of what is in it.
fn size(entry: &Entry) -> u64 {
    if entry.kind == EntryKind::Directory { 0 } else { entry.size }
}
