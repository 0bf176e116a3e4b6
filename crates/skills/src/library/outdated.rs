//! Which skills have a newer version where they came from. The caller looks there; nothing here uses a network.

use std::path::Path;

use serde::Serialize;

use crate::{Digest, Tree, TreeLimits, left_out};

use super::history::Folder;
use super::name::Reference;
use super::origin::SkillOrigin;
use super::{Library, LibraryError};

/// A skill whose origin holds something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outdated {
    pub reference: Reference,
    pub origin: SkillOrigin,
    /// What came from there last.
    pub have: Digest,
    pub latest: Digest,
    /// The folder is something else by now, published or not, which an update would replace.
    pub edited: bool,
}

impl Library {
    /// Compare every skill that came from elsewhere with where it came from. `latest` says what an origin holds now, or nothing if it can't.
    pub fn outdated(
        &self,
        mut latest: impl FnMut(&Reference, &SkillOrigin) -> Option<Digest>,
    ) -> Result<Vec<Outdated>, LibraryError> {
        let mut outdated = Vec::new();
        for reference in self.list()?.skills {
            let (history, folder) = match self.consistent(&reference) {
                // Another user's: theirs to bring up to date.
                Err(LibraryError::Io { .. }) => continue,
                other => other?,
            };
            let Some((have, origin)) = history.upstream() else { continue };
            let edited = match folder {
                Folder::Missing => continue,
                Folder::Unfit(_) => true,
                Folder::Holds(now) => now != *have,
            };
            if let Some(latest) = latest(&reference, origin).filter(|latest| latest != have) {
                let (origin, have) = (origin.clone(), have.clone());
                outdated.push(Outdated { reference, origin, have, latest, edited });
            }
        }
        Ok(outdated)
    }
}

/// The version that a directory would be.
pub fn digest_of(directory: &Path, limits: TreeLimits) -> Result<Digest, LibraryError> {
    Tree::read(directory, limits, left_out)
        .and_then(|tree| tree.digest())
        .map_err(LibraryError::tree(directory.display().to_string()))
}
