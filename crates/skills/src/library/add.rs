//! Bringing a skill into the library, and newer versions of it.

use std::path::Path;

use serde::Serialize;

use crate::{Digest, Kind, MANIFEST_NAMES, Tree, left_out};

use super::change::{Change, Edits};
use super::history::{Action, Folder, Record};
use super::name::Reference;
use super::origin::SkillOrigin;
use super::{Library, LibraryError};

/// What to do if a skill of that name is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    No,
    Yes(Edits),
}

/// How a skill is added.
#[derive(Clone, Debug)]
pub struct Add {
    pub reference: Reference,
    pub replace: Replace,
    /// Anything else than this version is refused: a lock file's pin.
    pub expected: Option<Digest>,
    pub origin: SkillOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Added {
    pub reference: Reference,
    pub digest: Digest,
    /// What was published before; the same digest where nothing changed.
    pub previous: Option<Digest>,
}

impl Library {
    /// Copy a directory into the library as a skill. What counts for its version is copied, nothing else of it.
    pub fn add(&self, source: &Path, add: &Add) -> Result<Added, LibraryError> {
        let shown = source.display().to_string();
        let tree = Tree::read(source, self.limits(), left_out).map_err(LibraryError::tree(&*shown))?;
        self.add_tree(&tree, &shown, add)
    }

    /// The same with a tree that was read already; `shown` is its name in errors.
    pub fn add_tree(&self, tree: &Tree, shown: &str, add: &Add) -> Result<Added, LibraryError> {
        let is_manifest = |entry: &crate::Entry| {
            matches!(entry.kind, Kind::File { .. }) && MANIFEST_NAMES.contains(&entry.path.as_str())
        };
        if !tree.entries().iter().any(is_manifest) {
            return Err(LibraryError::NoManifest(shown.to_owned()));
        }
        let origin = add.origin.recorded().ok_or_else(|| LibraryError::Unfit {
            path: shown.to_owned(),
            why: "its origin is too long to be recorded".to_owned(),
        })?;
        // All the copying is done before the lock is taken.
        let staging = self.stage()?;
        let (version, digest) = self.stage_version(tree, shown, &staging, "version")?;
        if let Some(expected) = add.expected.clone().filter(|expected| *expected != digest) {
            return Err(LibraryError::Unexpected {
                reference: add.reference.clone(),
                expected,
                found: digest,
            });
        }
        self.stage_folder(&version, &digest, &staging, "folder")?;

        let lock = self.lock()?;
        let mut change = Change::begin(self, &lock, &staging, &add.reference)?;
        let previous = change.history.published().and_then(|record| record.digest.clone());
        let added = Added { reference: add.reference.clone(), digest: digest.clone(), previous };
        if change.folder == Folder::Missing {
            change.refuse_collision()?;
        } else {
            if change.folder == Folder::Holds(digest.clone()) && added.previous.as_ref() == Some(&digest) {
                // Its origin may be another, and a damaged version is mended by this one.
                self.store_version(&staging, "version", &digest, &lock)?;
                if change.history.origin_of(&digest) != Some(&origin) {
                    change.install("folder", Record::now(Action::Add, Some(digest), origin.clone()))?;
                }
                return Ok(added);
            }
            match add.replace {
                Replace::No => return Err(LibraryError::Exists(add.reference.clone())),
                Replace::Yes(edits) => change.spare_edit(edits, Some(&digest))?,
            }
        }
        self.store_version(&staging, "version", &digest, &lock)?;
        change.install("folder", Record::now(Action::Add, Some(digest), origin.clone()))?;
        Ok(added)
    }

    /// Bring a newer version of a skill that is there; its origin stays, but for the commit, which the caller knows.
    pub fn update(
        &self,
        reference: &Reference,
        source: &Path,
        origin: SkillOrigin,
        edits: Edits,
    ) -> Result<Added, LibraryError> {
        self.status(reference)?;
        let add = Add { reference: reference.clone(), replace: Replace::Yes(edits), expected: None, origin };
        self.add(source, &add)
    }
}
