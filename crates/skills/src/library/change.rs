//! How the folder of a skill is replaced or taken away: written down, done by one rename, made final.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, RenameFlags, fsync, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::{Digest, Tree, left_out};

use super::exclusive::Exclusive;
use super::history::{Action, Folder, History, Record};
use super::name::{Reference, SkillName};
use super::origin::SkillOrigin;
use super::staging::{Staging, random_name};
use super::{Library, LibraryError, beneath};

/// What becomes of an edit by hand that a change would overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edits {
    /// The change is refused.
    Refuse,
    /// The edit becomes a version first, so that it can be rolled back to.
    Keep,
    Discard,
}

/// A skill that is about to change, under the lock.
pub(super) struct Change<'a> {
    pub(super) library: &'a Library,
    pub(super) lock: &'a Exclusive,
    pub(super) staging: &'a Staging,
    pub(super) reference: &'a Reference,
    pub(super) history: History,
    pub(super) folder: Folder,
}

impl<'a> Change<'a> {
    /// Look at the skill, and finish or forget what a killed writer had begun.
    pub(super) fn begin(
        library: &'a Library,
        lock: &'a Exclusive,
        staging: &'a Staging,
        reference: &'a Reference,
    ) -> Result<Self, LibraryError> {
        let history = library.read_history(reference)?;
        let folder = library.folder(reference)?;
        let mut change = Self { library, lock, staging, reference, history, folder };
        if let Some(pending) = change.history.pending.clone() {
            change.settle(pending)?;
        }
        Ok(change)
    }

    /// The version that the folder holds, if it is a published one.
    pub(super) fn unedited(&self) -> bool {
        match (&self.folder, self.history.published().and_then(|record| record.digest.as_ref())) {
            (Folder::Missing, _) => true,
            (Folder::Holds(now), Some(published)) => now == published,
            _ => false,
        }
    }

    /// Do with an edit what the caller wants, before it is overwritten by `by`.
    pub(super) fn spare_edit(&mut self, edits: Edits, by: Option<&Digest>) -> Result<(), LibraryError> {
        let same = matches!((&self.folder, by), (Folder::Holds(now), Some(by)) if now == by);
        if same || self.unedited() {
            return Ok(());
        }
        match edits {
            Edits::Refuse => Err(LibraryError::Edited(self.reference.clone())),
            Edits::Discard => Ok(()),
            Edits::Keep => self.publish().map(|_| ()),
        }
    }

    /// Make what the folder holds a version.
    pub(super) fn publish(&mut self) -> Result<Digest, LibraryError> {
        let name = random_name().map_err(LibraryError::io("stage", self.reference.to_string()))?;
        let path = self.reference.to_string();
        let domain = self.library.domain(&self.reference.domain)?;
        let folder = domain
            .ok_or(io::Error::from(io::ErrorKind::NotFound))
            .and_then(|domain| beneath::open_directory(domain.as_fd(), self.reference.name.as_str()))
            .map_err(LibraryError::io("open the skill", &*path))?;
        let tree =
            Tree::read_at(folder, self.library.limits(), left_out).map_err(LibraryError::tree(&*path))?;
        let (_, digest) = self.library.stage_version(&tree, &path, self.staging, &name)?;
        if self.history.published().and_then(|record| record.digest.as_ref()) != Some(&digest) {
            self.library.store_version(self.staging, &name, &digest, self.lock)?;
            self.history.push(Record::now(Action::Publish, Some(digest.clone()), SkillOrigin::Here));
            self.write("record the version")?;
        }
        self.folder = Folder::Holds(digest.clone());
        Ok(digest)
    }

    /// Put a staged folder, whose version is stored, in place.
    pub(super) fn install(&mut self, staged: &str, record: Record) -> Result<(), LibraryError> {
        let path = self.reference.to_string();
        if matches!((&self.folder, &record.digest), (Folder::Holds(now), Some(new)) if now == new) {
            self.history.push(record);
            return self.write("record the version");
        }
        let library = self.library;
        let mode = library.own_directory_mode();
        let domain = library.steps.run("make the domain", &path, || {
            let domain =
                beneath::ensure_directory(library.root.as_fd(), self.reference.domain.as_str(), mode)?;
            fsync(&library.root)?;
            Ok(domain)
        })?;
        self.history.pending = Some(record.clone());
        self.write("write down the change")?;
        let name = self.reference.name.as_str();
        if self.folder == Folder::Missing {
            library.steps.run("put the folder in place", &path, || {
                rename_to_nothing(self.staging.directory(), staged, domain.as_fd(), name)
            })?;
        } else {
            self.exchange(staged, domain.as_fd())?;
        }
        library.steps.run("sync the domain", &path, || Ok(fsync(&domain)?))?;
        self.history.pending = None;
        self.folder = record.digest.clone().map_or(Folder::Missing, Folder::Holds);
        self.history.push(record);
        self.write("make the change final")
    }

    /// Take the folder away.
    pub(super) fn take_away(&mut self) -> Result<(), LibraryError> {
        let path = self.reference.to_string();
        let record = Record::now(Action::Remove, None, SkillOrigin::Here);
        self.history.pending = Some(record.clone());
        self.write("write down the change")?;
        if let Some(domain) = self.library.domain(&self.reference.domain)? {
            self.library.steps.run("take the folder away", &path, || {
                let aside = random_name()?;
                renameat(&domain, self.reference.name.as_str(), self.staging.directory(), &*aside)?;
                Ok(fsync(&domain)?)
            })?;
        }
        self.history.pending = None;
        self.folder = Folder::Missing;
        self.history.push(record);
        self.write("make the change final")?;
        // Only if nothing else is in it.
        let _ = unlinkat(&self.library.root, self.reference.domain.as_str(), AtFlags::REMOVEDIR);
        Ok(())
    }

    /// A name that a reader, or a filesystem without case, takes for another is refused.
    pub(super) fn refuse_collision(&self) -> Result<(), LibraryError> {
        let Some(domain) = self.library.domain(&self.reference.domain)? else { return Ok(()) };
        let wanted = self.reference.name.folded();
        let entries = beneath::entries(domain.as_fd())
            .map_err(LibraryError::io("list the domain", self.reference.domain.as_str()))?;
        for (name, _) in entries {
            let same = SkillName::parse(&name).is_ok_and(|there| there.folded() == wanted);
            if same && name != self.reference.name.as_str() {
                return Err(LibraryError::Collides { wanted: self.reference.clone(), there: name });
            }
        }
        Ok(())
    }

    fn exchange(&self, staged: &str, domain: BorrowedFd<'_>) -> Result<(), LibraryError> {
        let path = self.reference.to_string();
        let (steps, from, name) =
            (&self.library.steps, self.staging.directory(), self.reference.name.as_str());
        let exchanged = steps.run("exchange the folders", &path, || {
            if !steps.may_exchange() {
                return Ok(false);
            }
            match renameat_with(from, staged, domain, name, RenameFlags::EXCHANGE) {
                Ok(()) => Ok(true),
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })?;
        if exchanged {
            return Ok(());
        }
        // NFS and some others have no exchange. What is written down says that the new version is to be there, and
        // readers wait: a writer that dies between the two has the next one finish.
        steps.run("move the old folder", &path, || Ok(renameat(domain, name, from, &*random_name()?)?))?;
        steps.run("put the folder in place", &path, || rename_to_nothing(from, staged, domain, name))
    }

    /// A writer was killed between writing down and making final.
    fn settle(&mut self, pending: Record) -> Result<(), LibraryError> {
        let replaced = self.history.published().is_some() && self.folder == Folder::Missing;
        let version =
            pending.digest.as_ref().filter(|_| replaced).map(|digest| (digest, self.library.version(digest)));
        // Of a version that was damaged since, nothing can be finished: the published one can be rolled back to.
        if let Some((digest, Ok(version))) = version {
            let name = random_name().map_err(LibraryError::io("stage", self.reference.to_string()))?;
            self.library.stage_folder(&version, digest, self.staging, &name)?;
            self.history.pending = None;
            return self.install(&name, pending);
        }
        self.history = self.history.settled(&self.folder);
        self.write("settle the history")
    }

    fn write(&self, step: &'static str) -> Result<(), LibraryError> {
        let library = self.library;
        library.steps.run(step, &self.reference.to_string(), || {
            let mode = library.own_directory_mode();
            self.history.write(library.histories.as_fd(), self.reference, self.staging, mode)
        })
    }
}

fn rename_to_nothing(from: BorrowedFd<'_>, name: &str, to: BorrowedFd<'_>, new: &str) -> io::Result<()> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if beneath::facts(to, new)?.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(renameat(from, name, to, new)?)
        }
        other => Ok(other?),
    }
}
