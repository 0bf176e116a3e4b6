//! The lock file: which version of which skill, for others and for later. A changed byte is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

use super::history::Folder;
use super::name::{Domain, Reference, SkillName};
use super::origin::SkillOrigin;
use super::status::Status;
use super::{Library, LibraryError, Listing, Unreadable};

const FORMAT: u32 = 1;
const MOST_BYTES: usize = 64 << 20;

/// Skills in order, each pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    format: u32,
    #[serde(default, rename = "skill")]
    skills: Vec<Pin>,
}

/// One skill of a lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub domain: Domain,
    pub name: SkillName,
    pub digest: Digest,
    pub origin: SkillOrigin,
}

/// A skill that is not what a lock file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub reference: Reference,
    pub locked: Digest,
    /// What its folder holds; nothing if it is not there, or can't be a version.
    pub found: Option<Digest>,
}

impl Pin {
    pub fn reference(&self) -> Reference {
        Reference { domain: self.domain.clone(), name: self.name.clone() }
    }
}

impl LockFile {
    fn of(mut skills: Vec<Pin>) -> Self {
        skills.sort_by_key(Pin::reference);
        skills.dedup_by_key(|pin| pin.reference());
        Self { format: FORMAT, skills }
    }

    pub fn parse(text: &str) -> Result<Self, LibraryError> {
        let refused = |why: String| LibraryError::LockFile(why);
        if text.len() > MOST_BYTES {
            return Err(refused(format!("longer than {MOST_BYTES} bytes")));
        }
        let mut file: Self = toml::from_str(text).map_err(|error| refused(error.to_string()))?;
        if file.format != FORMAT {
            return Err(refused(format!("its format is {}, and this version knows {FORMAT}", file.format)));
        }
        if let Some(pin) = file.skills.iter().find(|pin| Digest::parse(pin.digest.as_str()).is_none()) {
            return Err(refused(format!("{} has no digest", pin.reference())));
        }
        file.skills.sort_by_key(Pin::reference);
        if let Some(pair) = file.skills.windows(2).find(|pair| pair[0].reference() == pair[1].reference()) {
            return Err(refused(format!("{} is in it twice", pair[0].reference())));
        }
        Ok(file)
    }

    /// The same skills give the same text.
    pub fn to_toml(&self) -> Result<String, LibraryError> {
        let text = toml::to_string(self).map_err(|error| LibraryError::LockFile(error.to_string()))?;
        Ok(format!(
            "# Written by `ringfence skill lock`. Versions are BLAKE3 digests of whole skills.\n{text}"
        ))
    }

    pub fn skills(&self) -> &[Pin] {
        &self.skills
    }

    /// What `add --frozen` may add under this name, and nothing else.
    pub fn pin(&self, reference: &Reference) -> Result<&Pin, LibraryError> {
        self.skills
            .iter()
            .find(|pin| pin.domain == reference.domain && pin.name == reference.name)
            .ok_or_else(|| LibraryError::NotLocked(reference.clone()))
    }
}

impl Library {
    /// Pin every skill as it is. An edit that is not published is refused: nobody else could get it. What can't be read is
    /// not pinned, and returned.
    pub fn lock_file(&self) -> Result<(LockFile, Vec<Unreadable>), LibraryError> {
        let Listing { skills, mut unreadable, .. } = self.list()?;
        let mut pins = Vec::new();
        for reference in skills {
            match self.pin(&reference) {
                Ok(pin) => pins.push(pin),
                // Removed since it was listed.
                Err(LibraryError::NotFound(_)) => {}
                Err(error @ LibraryError::Io { .. }) => unreadable.push(error.unreadable(&reference)?),
                Err(error) => return Err(error),
            }
        }
        Ok((LockFile::of(pins), unreadable))
    }

    /// Pin these skills, each of which must be there and readable.
    pub fn lock_file_of(&self, skills: &[Reference]) -> Result<LockFile, LibraryError> {
        let pins: Result<_, _> = skills.iter().map(|reference| self.pin(reference)).collect();
        Ok(LockFile::of(pins?))
    }

    fn pin(&self, reference: &Reference) -> Result<Pin, LibraryError> {
        let digest = match self.status(reference)? {
            Status::Published { digest } => digest,
            Status::Edited { .. } => return Err(LibraryError::Edited(reference.clone())),
            Status::Unpublished { .. } => return Err(LibraryError::Unpublished(reference.clone())),
        };
        let origin = self.origin(reference)?.unwrap_or(SkillOrigin::Here);
        let Reference { domain, name } = reference.clone();
        Ok(Pin { domain, name, digest, origin })
    }

    /// Is every folder that a lock file names exactly what it says? Skills that it does not name are not looked at.
    pub fn check_frozen(&self, lock: &LockFile) -> Result<(), LibraryError> {
        let mut mismatches = Vec::new();
        for pin in lock.skills() {
            let reference = pin.reference();
            let found = match self.folder(&reference)? {
                Folder::Holds(digest) if digest == pin.digest => continue,
                Folder::Holds(digest) => Some(digest),
                Folder::Missing | Folder::Unfit(_) => None,
            };
            mismatches.push(Mismatch { reference, locked: pin.digest.clone(), found });
        }
        if mismatches.is_empty() { Ok(()) } else { Err(LibraryError::Frozen(mismatches)) }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (locked {}, ", self.reference, self.locked.short())?;
        match &self.found {
            Some(found) => write!(formatter, "found {})", found.short()),
            None => formatter.write_str("not there)"),
        }
    }
}
