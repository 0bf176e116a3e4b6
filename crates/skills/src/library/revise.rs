//! Publishing an edit, going back to an older version, and removing.

use crate::Digest;

use super::change::{Change, Edits};
use super::history::{Action, Folder, Record};
use super::name::Reference;
use super::{Library, LibraryError};

impl Library {
    /// Make what the folder holds a version: an edit by hand, or a folder that was made by hand.
    pub fn publish(&self, reference: &Reference) -> Result<Digest, LibraryError> {
        let lock = self.lock()?;
        let staging = self.stage_locked(&lock)?;
        let mut change = Change::begin(self, &lock, &staging, reference)?;
        if change.folder == Folder::Missing {
            return Err(LibraryError::NotFound(reference.to_string()));
        }
        change.refuse_collision()?;
        change.publish()
    }

    /// Bring back a version of a skill's history; also of one that was removed. The digest may be cut short.
    pub fn rollback(&self, reference: &Reference, to: &str, edits: Edits) -> Result<Digest, LibraryError> {
        let lock = self.lock()?;
        let staging = self.stage_locked(&lock)?;
        let mut change = Change::begin(self, &lock, &staging, reference)?;
        let mut matching: Vec<_> =
            change.history.digests().filter(|digest| digest.as_str().starts_with(to)).collect();
        matching.sort();
        matching.dedup();
        let digest = match matching[..] {
            [one] if to.len() >= 6 => one.clone(),
            _ => {
                return Err(LibraryError::NoVersion { reference: reference.clone(), digest: to.to_owned() });
            }
        };
        let version = self.version(&digest)?;
        let origin = change.history.origin_of(&digest).cloned().unwrap_or(super::SkillOrigin::Here);
        if change.folder == Folder::Missing {
            change.refuse_collision()?;
        }
        change.spare_edit(edits, Some(&digest))?;
        self.stage_folder(&version, &digest, &staging, "folder")?;
        change.install("folder", Record::now(Action::Rollback, Some(digest.clone()), origin))?;
        Ok(digest)
    }

    /// Take a skill's folder away. Its history and versions stay, so that it can be rolled back to.
    pub fn remove(&self, reference: &Reference, edits: Edits) -> Result<(), LibraryError> {
        let lock = self.lock()?;
        let staging = self.stage_locked(&lock)?;
        let mut change = Change::begin(self, &lock, &staging, reference)?;
        if change.folder == Folder::Missing {
            return Err(LibraryError::NotFound(reference.to_string()));
        }
        change.spare_edit(edits, None)?;
        change.take_away()
    }
}
