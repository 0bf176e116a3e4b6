//! What happened to one skill: a small file beside the versions, replaced as a whole.
//!
//! A change writes down first what it is about to do (`pending`), then changes the folder, then makes the entry final.
//! Whoever reads decides by the folder whether a pending change took place, so that there is no moment, and no kill, at
//! which a skill is neither old nor new.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{fsync, renameat};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Digest;

use super::beneath;
use super::name::Reference;
use super::origin::SkillOrigin;
use super::staging::Staging;

const FORMAT: u32 = 1;
const MOST_BYTES: u64 = 4 << 20;
/// Older entries are forgotten, and their versions with them at the next clean-up.
const KEPT: usize = 500;

/// Others replace the file as a whole, and never write into it: its owner is who said what it says.
const FILE_MODE: u32 = 0o644;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Add,
    Publish,
    Rollback,
    Remove,
}

/// One entry of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Seconds since 1970.
    pub at: u64,
    pub action: Action,
    /// What the folder holds after it; nothing after a removal.
    #[serde(default, deserialize_with = "checked", skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    pub origin: SkillOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    format: u32,
    pub(super) records: Vec<Record>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Record>,
}

/// What the folder of a skill was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    Missing,
    Holds(Digest),
    /// There, with something in it that no version can have.
    Unfit(String),
}

impl Record {
    pub(super) fn now(action: Action, digest: Option<Digest>, origin: SkillOrigin) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { at, action, digest, origin }
    }
}

impl History {
    pub(super) fn new() -> Self {
        Self { format: FORMAT, records: Vec::new(), pending: None }
    }

    /// The published version, by what is final.
    pub(super) fn published(&self) -> Option<&Record> {
        self.records.last().filter(|record| record.digest.is_some())
    }

    /// What would stand if the pending change were judged now: final if the folder shows that it took place.
    pub(super) fn settled(&self, folder: &Folder) -> Self {
        let mut settled = self.clone();
        if let Some(pending) = settled.pending.take() {
            let happened = match (&pending.digest, folder) {
                (Some(wanted), Folder::Holds(found)) => wanted == found,
                (None, Folder::Missing) => true,
                _ => false,
            };
            if happened {
                settled.push(pending);
            }
        }
        settled
    }

    pub(super) fn push(&mut self, record: Record) {
        self.records.push(record);
        let surplus = self.records.len().saturating_sub(KEPT);
        self.records.drain(..surplus);
    }

    /// Every version that it speaks of.
    pub(super) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.records.iter().chain(&self.pending).filter_map(|record| record.digest.as_ref())
    }

    /// The newest entry that brought this version.
    pub(super) fn origin_of(&self, digest: &Digest) -> Option<&SkillOrigin> {
        let brought = |record: &&Record| record.digest.as_ref() == Some(digest);
        self.records
            .iter()
            .rev()
            .filter(brought)
            .map(|record| &record.origin)
            .find(|origin| **origin != SkillOrigin::Here)
    }

    /// The newest version that came from elsewhere, since the skill was last removed: what an edit began with.
    pub(super) fn upstream(&self) -> Option<(&Digest, &SkillOrigin)> {
        let since = self.records.iter().rev().take_while(|record| record.action != Action::Remove);
        since
            .filter(|record| record.origin != SkillOrigin::Here)
            .find_map(|record| record.digest.as_ref().map(|digest| (digest, &record.origin)))
    }

    pub(super) fn read(all: BorrowedFd<'_>, reference: &Reference) -> io::Result<Option<Self>> {
        let bytes = match beneath::read_file(all, &file(reference), MOST_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let history: Self = serde_json::from_slice(&bytes)?;
        if history.format != FORMAT {
            let why = format!("a history of format {}, and this version knows {FORMAT}", history.format);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Some(history))
    }

    /// Who wrote it last; nobody, if others could have changed it since.
    pub(super) fn writer(all: BorrowedFd<'_>, reference: &Reference) -> io::Result<Option<u32>> {
        let facts = beneath::facts(all, &file(reference))?;
        Ok(facts.filter(|facts| facts.st_mode & 0o022 == 0).map(|facts| facts.st_uid))
    }

    /// Replace the file; on disk when this returns.
    pub(super) fn write(
        &self,
        all: BorrowedFd<'_>,
        reference: &Reference,
        staging: &Staging,
        directory_mode: u32,
    ) -> io::Result<()> {
        let domain: OwnedFd = beneath::ensure_directory(all, reference.domain.as_str(), directory_mode)?;
        let mut kept = self.clone();
        let mut bytes = serde_json::to_vec(&kept)?;
        // What could not be read again is not written: the older half goes.
        while bytes.len() as u64 > MOST_BYTES && kept.records.len() > 1 {
            kept.records.drain(..kept.records.len() / 2);
            bytes = serde_json::to_vec(&kept)?;
        }
        let name = super::staging::random_name()?;
        beneath::write_file(staging.directory(), &name, &bytes, FILE_MODE)?;
        fsync(all)?;
        renameat(staging.directory(), &*name, domain.as_fd(), format!("{}.json", reference.name))?;
        fsync(&domain)?;
        Ok(())
    }
}

fn file(reference: &Reference) -> String {
    format!("{}/{}.json", reference.domain, reference.name)
}

/// A digest becomes part of a path: it is what it says, or the file is refused.
fn checked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Digest>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    Digest::parse(&text).map(Some).ok_or_else(|| serde::de::Error::custom("not a digest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(character: char) -> Digest {
        Digest::parse(&character.to_string().repeat(64)).unwrap()
    }

    fn history(pending: Option<Record>) -> History {
        History {
            records: vec![Record::now(Action::Add, Some(digest('a')), SkillOrigin::Here)],
            pending,
            ..History::new()
        }
    }

    #[test]
    fn the_folder_says_whether_a_pending_change_took_place() {
        let pending = history(Some(Record::now(Action::Add, Some(digest('b')), SkillOrigin::Here)));
        let published =
            |folder| pending.settled(&folder).published().and_then(|record| record.digest.clone());
        assert_eq!(published(Folder::Holds(digest('b'))), Some(digest('b')));
        assert_eq!(published(Folder::Holds(digest('a'))), Some(digest('a')));
        assert_eq!(published(Folder::Holds(digest('c'))), Some(digest('a')));
        let removal = history(Some(Record::now(Action::Remove, None, SkillOrigin::Here)));
        assert_eq!(removal.settled(&Folder::Missing).published(), None);
        assert!(removal.settled(&Folder::Holds(digest('a'))).published().is_some());
    }

    #[test]
    fn a_digest_that_is_a_path_is_refused() {
        let text = r#"{"format":1,"records":[{"at":1,"action":"add","digest":"../../../etc","origin":{"kind":"here"}}]}"#;
        assert!(serde_json::from_str::<History>(text).is_err());
    }
}
