//! From an armed journal to the end, in either direction: at once, or after a kill.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::apply::{Applier, Back};
use super::beneath::open_parent;
use super::error::OverlayError;
use super::identity::Stamp;
use super::journal::{Journal, Phase, store};
use super::record::{Kept, Record, Seen};
use super::stage::{Staging, slot_name};
use super::start::{Overlay, RECORD};
use super::steps::Steps;

/// A commit that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// What it is about: each is old or new. Empty if it had not begun to apply anything.
    pub paths: Vec<PathBuf>,
}

/// How an interrupted commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// All of it is applied.
    Applied,
    /// None of it is, but for what its user has changed meanwhile.
    Undone {
        /// Left as its user has it now.
        left: Vec<PathBuf>,
        /// Where earlier versions of that are.
        kept: Vec<PathBuf>,
    },
}

impl Overlay {
    /// The commit that was interrupted, if there is one.
    pub fn unfinished(&self) -> Result<Option<Unfinished>, OverlayError> {
        let journal = Journal::load(&self.store)?;
        Ok(journal
            .map(|journal| Unfinished { paths: journal.units.into_iter().map(|unit| unit.path.0).collect() }))
    }

    /// Carry an interrupted commit on to its end. One that had not gathered everything is undone: commit again.
    pub fn finish(&self) -> Result<Recovered, OverlayError> {
        self.finish_in_steps(&Steps::default())
    }

    /// Take an interrupted commit back, also one that was applied whole. Only where what it replaced is being thrown away
    /// already can nobody do that: it stays applied, which the answer says.
    pub fn undo(&self) -> Result<Recovered, OverlayError> {
        self.undo_in_steps(&Steps::default())
    }

    pub(super) fn finish_in_steps(&self, steps: &Steps<'_>) -> Result<Recovered, OverlayError> {
        let _lock = self.lock()?;
        let journal = Journal::load(&self.store)?.ok_or(OverlayError::NothingUnfinished)?;
        if journal.phase != Phase::Armed {
            return self.clear(&journal, steps);
        }
        let staging = self.staging(&journal)?;
        self.carry_out(journal, staging, steps).map(|()| Recovered::Applied)
    }

    pub(super) fn undo_in_steps(&self, steps: &Steps<'_>) -> Result<Recovered, OverlayError> {
        let _lock = self.lock()?;
        let mut journal = Journal::load(&self.store)?.ok_or(OverlayError::NothingUnfinished)?;
        if journal.phase == Phase::Applied && self.staging(&journal).is_ok() {
            // All that it replaced is there: it is as if it had stopped before it said that it was done.
            journal.phase = Phase::Armed;
            journal.store(&self.store)?;
            steps.done()?;
        }
        if journal.phase != Phase::Armed {
            return self.clear(&journal, steps);
        }
        let staging = self.staging(&journal)?;
        self.take_back(journal, &staging, steps)
    }

    fn staging(&self, journal: &Journal) -> Result<Staging, OverlayError> {
        let path = self.lower_path.join(&journal.staging);
        Staging::open(&self.lower, &journal.staging)
            .map_err(|error| OverlayError::failed("open", path, error))
    }

    /// Every unit forward, then the end. If one meets a change by somebody else, or fails, all go back.
    pub(super) fn carry_out(
        &self,
        mut journal: Journal,
        staging: Staging,
        steps: &Steps<'_>,
    ) -> Result<(), OverlayError> {
        let applier = Applier { lower: &self.lower, staging: &staging, steps };
        match journal.units.iter().try_for_each(|unit| applier.forward(unit)) {
            Ok(()) => {}
            Err(OverlayError::Stopped) => return Err(OverlayError::Stopped),
            Err(error) => {
                let Recovered::Undone { kept: had, .. } = self.take_back(journal, &staging, steps)? else {
                    return Err(error);
                };
                return Err(match error {
                    OverlayError::Conflicts { conflicts, .. } => {
                        OverlayError::Conflicts { conflicts, kept: had }
                    }
                    other => other,
                });
            }
        }
        staging.sync(&self.lower).map_err(|error| OverlayError::failed("sync", &self.lower_path, error))?;
        store(&self.store, RECORD, &self.applied_record(&journal)?)?;
        steps.done()?;
        journal.phase = Phase::Applied;
        self.end(&journal, steps).map(|_| ())
    }

    fn take_back(
        &self,
        mut journal: Journal,
        staging: &Staging,
        steps: &Steps<'_>,
    ) -> Result<Recovered, OverlayError> {
        let applier = Applier { lower: &self.lower, staging, steps };
        let mut restored = BTreeSet::new();
        for unit in journal.units.iter().rev() {
            match applier.backward(unit)? {
                Back::AsBefore => {
                    restored.insert(unit.path.0.clone());
                }
                Back::LeftAsIs => {
                    journal.left.push(unit.path.clone());
                    journal.kept.extend(unit.old.is_some().then_some(unit.slot));
                }
            }
        }
        staging.sync(&self.lower).map_err(|error| OverlayError::failed("sync", &self.lower_path, error))?;
        store(&self.store, RECORD, &self.restored_record(&journal, &restored)?)?;
        steps.done()?;
        journal.phase = Phase::Undone;
        self.end(&journal, steps)
    }

    fn end(&self, journal: &Journal, steps: &Steps<'_>) -> Result<Recovered, OverlayError> {
        journal.store(&self.store)?;
        steps.done()?;
        self.clear(journal, steps)
    }

    /// Nothing of the commit is left afterwards but what has no other place.
    pub(super) fn clear(&self, journal: &Journal, steps: &Steps<'_>) -> Result<Recovered, OverlayError> {
        let path = self.lower_path.join(&journal.staging);
        let failed = |error: io::Error| OverlayError::failed("clear", &path, error);
        let name = match journal.phase {
            Phase::Applied => {
                let name = self.put_aside(&journal.staging).map_err(|error| failed(error.into()))?;
                steps.done()?;
                name
            }
            _ => journal.staging.clone(),
        };
        match Staging::open(&self.lower, &name) {
            Ok(staging) => staging.clear(&self.lower, &name, &journal.kept).map_err(failed)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error.into())),
        }
        steps.done()?;
        Journal::remove(&self.store)?;
        steps.done()?;
        let kept = journal.kept.iter().map(|slot| path.join(slot_name(*slot))).collect();
        let left = journal.left.iter().map(|path| path.0.clone()).collect();
        Ok(if journal.phase == Phase::Applied {
            Recovered::Applied
        } else {
            Recovered::Undone { left, kept }
        })
    }

    /// Another name for what an applied commit replaced, before any of it is removed: under its own name it is whole.
    fn put_aside(&self, staging: &str) -> Result<String, Errno> {
        let aside = format!("{staging}-done");
        match renameat_with(&self.lower, staging, &self.lower, &aside, RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => Ok(aside),
            Err(error) => Err(error),
        }
    }

    fn applied_record(&self, journal: &Journal) -> Result<Record, OverlayError> {
        let mut record = self.record()?;
        for entry in &journal.entries {
            let now = self.lower_stamp(&entry.path.0);
            let lower = now.filter(|now| entry.made.is_some_and(|made| is_own(&made, now)));
            record.set(&entry.path.0, Kept { upper: entry.upper, lower });
        }
        self.note_parents(&mut record, journal);
        Ok(record)
    }

    /// A rename, even there and back, sets the time of a file's last change: without this it would look like its user's.
    fn restored_record(
        &self,
        journal: &Journal,
        restored: &BTreeSet<PathBuf>,
    ) -> Result<Record, OverlayError> {
        let mut record = self.record()?;
        for unit in journal.units.iter().filter(|unit| restored.contains(&unit.path.0)) {
            let now = self.lower_stamp(&unit.path.0);
            if let (Some(now), Some(old)) = (now, unit.old)
                && is_own(&old.stamp, &now)
            {
                record.set_lower(&unit.path.0, now);
            }
        }
        for entry in &journal.entries {
            if let Some(kept) = record.get(&entry.path.0).copied()
                && kept.upper == entry.upper
            {
                record.set(&entry.path.0, Kept { upper: Seen::Nothing, ..kept });
            }
        }
        self.note_parents(&mut record, journal);
        Ok(record)
    }

    fn note_parents(&self, record: &mut Record, journal: &Journal) {
        for parent in &journal.parents {
            if let Some(now) = self.lower_stamp(&parent.0) {
                record.set_lower(&parent.0, now);
            }
        }
    }

    fn lower_stamp(&self, path: &Path) -> Option<Stamp> {
        if path.as_os_str().is_empty() {
            return Stamp::of(&self.lower).ok();
        }
        let (parent, name) = open_parent(&self.lower, path).ok()?;
        Stamp::at(parent, name).ok()?
    }
}

/// Still what a commit left there. Of a directory, what is in it has its own say.
fn is_own(left: &Stamp, now: &Stamp) -> bool {
    if left.is_directory() {
        left.is_same_file(now) && left.permissions() == now.permissions()
    } else {
        left.is_only_moved(now)
    }
}
