//! Is everything what it should be? And what can be cleared away.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, renameat};
use serde::Serialize;

use crate::Digest;

use super::change::Change;
use super::exclusive::Exclusive;
use super::history::{Folder, History};
use super::list::Stray;
use super::name::{Domain, Reference, SkillName};
use super::staging::random_name;
use super::{Library, LibraryError, Unreadable, beneath, clear::clear};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "problem")]
pub enum Trouble {
    #[error("the stored version {digest} is damaged: {why}")]
    Damaged { digest: Digest, why: String },
    #[error("{reference} has a version {digest} in its history that is not stored")]
    Lost { reference: Reference, digest: Digest },
    #[error("{reference} is published, but its folder is gone")]
    FolderGone { reference: Reference, published: Digest },
    #[error("{reference} can't be a version: {why}")]
    FolderUnfit { reference: Reference, why: String },
    #[error("{path}: {what}")]
    Stray { path: String, what: String },
    #[error("{path}: a history that can't be read: {why}")]
    History { path: String, why: String },
    #[error("{reference}: a change was cut short, and could not be finished: {why}")]
    CutShort { reference: Reference, why: String },
    #[error("{path}: not checked: {why}")]
    Unreadable { path: String, why: String },
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub skills: usize,
    pub versions: usize,
    /// Folders with an edit that is not published, or made by hand. Nothing is wrong with that.
    pub edited: Vec<Reference>,
    pub cleared: Cleared,
    /// False for who may not write: what others changed meanwhile may look like trouble.
    pub locked: bool,
    pub troubles: Vec<Trouble>,
}

/// What was cleared away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleared {
    /// Changes that their process never finished.
    pub staging: usize,
    /// Changes that were nearly done, finished or undone now.
    pub settled: usize,
    /// Versions that no history speaks of.
    pub versions: usize,
}

impl From<Unreadable> for Trouble {
    fn from(Unreadable { path, why }: Unreadable) -> Self {
        Self::Unreadable { path, why }
    }
}

impl Library {
    /// Check every byte of every version and folder, after what killed writers left is settled. Holds the lock; who may
    /// not write checks without it, and may see the work of those who write at the same time as trouble.
    pub fn verify(&self) -> Result<Verified, LibraryError> {
        let mut verified = Verified::default();
        let lock = match self.lock_counted() {
            Ok((lock, orphans)) => {
                verified.locked = true;
                verified.cleared.staging = orphans.cleared;
                verified.troubles.extend(orphans.left.into_iter().map(Trouble::from));
                Some(lock)
            }
            Err(LibraryError::Io { source, .. })
                if matches!(
                    source.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let listing = self.list()?;
        verified.skills = listing.skills.len();
        let strays = |Stray { path, what }| Trouble::Stray { path, what: what.to_owned() };
        verified.troubles.extend(listing.strays.into_iter().map(strays));
        verified.troubles.extend(listing.unreadable.into_iter().map(Trouble::from));
        let stored = self.check_versions(&mut verified)?;
        let mut references: BTreeSet<_> = listing.skills.into_iter().collect();
        references.extend(self.histories(&mut verified.troubles)?);
        for reference in references {
            if let Err(error) = self.check_skill(&reference, lock.as_ref(), &stored, &mut verified) {
                verified.troubles.push(error.unreadable(&reference)?.into());
            }
        }
        Ok(verified)
    }

    /// Clear away what killed writers left, and versions that no history speaks of.
    pub fn gc(&self) -> Result<Cleared, LibraryError> {
        let (lock, orphans) = self.lock_counted()?;
        let mut cleared = Cleared { staging: orphans.cleared, ..Cleared::default() };
        let mut troubles = Vec::new();
        let mut wanted = BTreeSet::new();
        for reference in self.histories(&mut troubles)? {
            match self.settle(&reference, &lock) {
                Ok(settled) => cleared.settled += usize::from(settled),
                Err(error) => troubles.push(error.unreadable(&reference)?.into()),
            }
            wanted.extend(self.read_history(&reference)?.digests().map(|digest| digest.as_str().to_owned()));
        }
        // A history that can't be read, or finished, may speak of any version.
        if !troubles.is_empty() {
            return Ok(cleared);
        }
        let place = self.stage_locked(&lock)?;
        for (name, _) in self.stored()? {
            if !wanted.contains(&name) {
                let failed = || LibraryError::io("clear a version", &*name);
                let aside = random_name().map_err(failed())?;
                // Out of sight first: half a version is never under its digest.
                renameat(&self.versions, &*name, place.directory(), &*aside)
                    .map_err(|error| failed()(error.into()))?;
                clear(place.directory(), &aside).map_err(failed())?;
                cleared.versions += 1;
            }
        }
        Ok(cleared)
    }

    fn check_versions(&self, verified: &mut Verified) -> Result<BTreeSet<Digest>, LibraryError> {
        let mut stored = BTreeSet::new();
        for (name, kind) in self.stored()? {
            let Some(digest) = Digest::parse(&name).filter(|_| kind == FileType::Directory) else {
                let what = "not a version, among the versions".to_owned();
                verified.troubles.push(Trouble::Stray { path: format!(".ringfence/versions/{name}"), what });
                continue;
            };
            verified.versions += 1;
            if let Err(LibraryError::Damaged { digest, why }) = self.version(&digest) {
                verified.troubles.push(Trouble::Damaged { digest, why });
            }
            stored.insert(digest);
        }
        Ok(stored)
    }

    fn check_skill(
        &self,
        reference: &Reference,
        lock: Option<&Exclusive>,
        stored: &BTreeSet<Digest>,
        verified: &mut Verified,
    ) -> Result<(), LibraryError> {
        let reference_of = || reference.clone();
        match lock.map_or(Ok(false), |lock| self.settle(reference, lock)) {
            Ok(settled) => verified.cleared.settled += usize::from(settled),
            Err(error) => {
                let why = error.to_string();
                verified.troubles.push(Trouble::CutShort { reference: reference_of(), why });
                return Ok(());
            }
        }
        let (history, folder) = self.consistent(reference)?;
        let digests: BTreeSet<_> = history.digests().cloned().collect();
        for digest in digests.difference(stored) {
            verified.troubles.push(Trouble::Lost { reference: reference_of(), digest: digest.clone() });
        }
        match (folder, history.published().and_then(|record| record.digest.clone())) {
            (Folder::Missing, Some(published)) => {
                verified.troubles.push(Trouble::FolderGone { reference: reference_of(), published });
            }
            (Folder::Unfit(why), _) => {
                verified.troubles.push(Trouble::FolderUnfit { reference: reference_of(), why });
            }
            (Folder::Holds(now), published) if Some(&now) != published.as_ref() => {
                verified.edited.push(reference_of());
            }
            _ => {}
        }
        Ok(())
    }

    /// Finish or forget a change that was cut short. Was there one?
    fn settle(&self, reference: &Reference, lock: &Exclusive) -> Result<bool, LibraryError> {
        if self.read_history(reference)?.pending.is_none() {
            return Ok(false);
        }
        let staging = self.stage_locked(lock)?;
        Change::begin(self, lock, &staging, reference)?;
        Ok(true)
    }

    fn stored(&self) -> Result<Vec<(String, FileType)>, LibraryError> {
        beneath::entries(self.versions.as_fd()).map_err(LibraryError::io("list the versions", "versions"))
    }

    /// Every skill that has a readable history.
    fn histories(&self, troubles: &mut Vec<Trouble>) -> Result<Vec<Reference>, LibraryError> {
        let mut references = Vec::new();
        let domains = beneath::entries(self.histories.as_fd())
            .map_err(LibraryError::io("list the histories", "history"))?;
        for (domain, _) in domains {
            let path = format!(".ringfence/history/{domain}");
            let Ok(parsed) = Domain::parse(&domain) else {
                troubles.push(Trouble::Stray { path, what: "not a directory of histories".to_owned() });
                continue;
            };
            let files = match beneath::open_directory(self.histories.as_fd(), &domain)
                .and_then(|open| beneath::entries(open.as_fd()))
            {
                Ok(files) => files,
                Err(error) => {
                    troubles.push(Trouble::Unreadable { path, why: error.to_string() });
                    continue;
                }
            };
            for (file, _) in files {
                let path = format!(".ringfence/history/{domain}/{file}");
                let name = file.strip_suffix(".json").and_then(|name| SkillName::parse(name).ok());
                let Some(name) = name else {
                    troubles.push(Trouble::Stray { path, what: "not a history".to_owned() });
                    continue;
                };
                let reference = Reference { domain: parsed.clone(), name };
                match History::read(self.histories.as_fd(), &reference) {
                    Ok(_) => references.push(reference),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => troubles.push(Trouble::History { path, why: error.to_string() }),
                }
            }
        }
        Ok(references)
    }
}
