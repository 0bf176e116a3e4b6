//! A commit from the first look to the last step: choose, leave out, check, gather, apply.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::apply::find_parent;
use super::changes::{Change, Conflict, ConflictReason, EntryKind};
use super::error::OverlayError;
use super::guarded::Guard;
use super::identity::Stamp;
use super::journal::{Action, Entry, Journal, Phase, Side, Unit};
use super::record::{RawPath, Seen};
use super::stage::{Owner, RESERVED, Staging, side};
use super::start::Overlay;
use super::steps::Steps;
use super::units::{Planned, plan_units, select};
use crate::protect::Names;

/// Whether protected names are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guarding {
    /// All but those that the policy lifted.
    /// All but these, and the ones that a policy adds.
    Protected { except: Vec<String>, also: Vec<String> },
    /// The policy waived the clause.
    Waived,
}

#[derive(Clone, Debug)]
pub struct CommitOptions {
    /// These paths, and what is in them; all if there are none.
    pub only: Vec<PathBuf>,
    pub guarding: Guarding,
    /// What [`Overlay::review`] said of the changes that somebody has looked at: nothing else is applied.
    pub reviewed: Option<String>,
}

impl Default for CommitOptions {
    fn default() -> Self {
        let guarding = Guarding::Protected { except: Vec::new(), also: Vec::new() };
        Self { only: Vec::new(), guarding, reviewed: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LeftOutReason {
    /// It is, or leads to, this protected name.
    Protected { name: PathBuf },
    /// A pipe, socket or device.
    Special,
    /// A name that commits use themselves.
    Reserved,
    /// It holds, or lies in, something that is left out.
    Bound,
}

/// A change that was not committed, and never will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub path: PathBuf,
    pub reason: LeftOutReason,
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CommitReport {
    pub applied: Vec<Change>,
    pub left_out: Vec<LeftOut>,
}

impl Overlay {
    /// Apply the session's changes to the user's directory: all that are chosen, or none.
    pub fn commit(&self, options: &CommitOptions) -> Result<CommitReport, OverlayError> {
        self.commit_in_steps(options, &Steps::default())
    }

    pub(super) fn commit_in_steps(
        &self,
        options: &CommitOptions,
        steps: &Steps<'_>,
    ) -> Result<CommitReport, OverlayError> {
        if !self.is_committable() {
            return Err(OverlayError::NoTarget);
        }
        let _lock = self.lock()?;
        if Journal::load(&self.store)?.is_some() {
            return Err(OverlayError::Unfinished);
        }
        let changes = self.changes()?;
        let (units, left_out) = self.settle(&changes, options)?;
        let covered = covered(&units);
        let applied: Vec<Change> =
            changes.iter().filter(|change| covered.contains(change.path.as_path())).cloned().collect();
        refuse_conflicts(&applied)?;
        // Of the same changes that are applied: a file that is written to after this is not taken.
        if let Some(reviewed) = &options.reviewed
            && self.review(&changes, options)? != *reviewed
        {
            return Err(OverlayError::Altered);
        }
        if !units.is_empty() {
            let (journal, staging) = self.arm(&units, steps)?;
            self.carry_out(journal, staging, steps)?;
        }
        Ok(CommitReport { applied, left_out })
    }

    /// What of these changes is applied, and what is left out.
    pub(super) fn settle<'a>(
        &self,
        changes: &'a [Change],
        options: &CommitOptions,
    ) -> Result<(Vec<Planned<'a>>, Vec<LeftOut>), OverlayError> {
        let mut wanted = chosen(changes, &options.only)?;
        let mut left_out = self.leave_out(changes, &mut wanted, &options.guarding)?;
        let units = plan_units(changes, &wanted);
        let covered = covered(&units);
        let bound = wanted.difference(&covered);
        left_out.extend(bound.map(|path| LeftOut { path: path.to_path_buf(), reason: LeftOutReason::Bound }));
        Ok((units, left_out))
    }

    /// Take out of `wanted` what is never committed.
    fn leave_out<'a>(
        &self,
        changes: &'a [Change],
        wanted: &mut BTreeSet<&'a Path>,
        guarding: &Guarding,
    ) -> Result<Vec<LeftOut>, OverlayError> {
        let guard = match guarding {
            Guarding::Waived => None,
            Guarding::Protected { except, also } => {
                let names = Names::of(&self.lower_path, except, also)
                    .map_err(|error| OverlayError::failed("survey", &self.lower_path, error))?;
                Some(Guard::new(&self.lower, names, except, changes))
            }
        };
        let mut left_out = Vec::new();
        for change in changes {
            let reason = match (is_reserved(&change.path), &change.new) {
                (true, _) => Some(LeftOutReason::Reserved),
                (_, Some(new)) if new.kind == EntryKind::Special => Some(LeftOutReason::Special),
                _ => guard
                    .as_ref()
                    .and_then(|guard| guard.stops(change))
                    .map(|name| LeftOutReason::Protected { name }),
            };
            if let Some(reason) = reason
                && wanted.remove(change.path.as_path())
            {
                left_out.push(LeftOut { path: change.path.clone(), reason });
            }
        }
        Ok(left_out)
    }

    /// Gather everything new, and put on disk what is going to be done.
    fn arm(&self, units: &[Planned<'_>], steps: &Steps<'_>) -> Result<(Journal, Staging), OverlayError> {
        let mut journal = Journal {
            staging: format!("{RESERVED}{}", random_name()?),
            phase: Phase::Staging,
            units: Vec::new(),
            entries: Vec::new(),
            parents: self.quiet_parents(units)?,
            kept: Vec::new(),
            left: Vec::new(),
        };
        journal.store(&self.store)?;
        let armed = steps.done().and_then(|()| self.gather(&mut journal, units, steps));
        match armed {
            Ok(staging) => Ok((journal, staging)),
            Err(OverlayError::Stopped) => Err(OverlayError::Stopped),
            Err(error) => {
                self.clear(&journal, &Steps::default())?;
                Err(error)
            }
        }
    }

    fn gather(
        &self,
        journal: &mut Journal,
        units: &[Planned<'_>],
        steps: &Steps<'_>,
    ) -> Result<Staging, OverlayError> {
        let place = self.lower_path.join(&journal.staging);
        let staging = Staging::make(&self.lower, &journal.staging)
            .map_err(|error| OverlayError::failed("make", &place, error))?;
        steps.done()?;
        for (unit, slot) in units.iter().zip(0..) {
            self.gather_unit(journal, &staging, unit, slot, steps)?;
        }
        staging.sync(&self.lower).map_err(|error| OverlayError::failed("sync", &place, error))?;
        journal.phase = Phase::Armed;
        journal.store(&self.store)?;
        steps.done()?;
        Ok(staging)
    }

    fn gather_unit(
        &self,
        journal: &mut Journal,
        staging: &Staging,
        unit: &Planned<'_>,
        slot: u32,
        steps: &Steps<'_>,
    ) -> Result<(), OverlayError> {
        let old = self.old_side(unit)?;
        let owner = self.owner(unit)?;
        let mut made: Vec<Stamp> = Vec::with_capacity(unit.contents.len());
        for change in &unit.contents {
            made.push(staging.gather(&self.upper, unit, change, slot, owner)?);
            steps.done()?;
        }
        for (change, made) in
            unit.contents.iter().zip(&mut made).rev().filter(|(_, made)| made.is_directory())
        {
            *made = staging.close_directory(unit, change, slot)?;
            steps.done()?;
        }
        let new = match (unit.action, old) {
            (Action::Mode, Some(old)) => Some(with_mode(old, unit.change)),
            (Action::Remove, _) => None,
            _ => staging.side(slot).map_err(|error| OverlayError::failed("look at", unit.path, error))?,
        };
        let made: BTreeMap<&Path, Stamp> =
            unit.contents.iter().map(|change| change.path.as_path()).zip(made).collect();
        let changed_mode = new.filter(|_| unit.action == Action::Mode).map(|new| new.stamp);
        journal.entries.extend(unit.covers.iter().map(|change| Entry {
            path: RawPath(change.path.clone()),
            upper: change.new.as_ref().map_or(Seen::Removed, |new| Seen::Entry(new.stamp)),
            made: made.get(change.path.as_path()).copied().or(changed_mode),
        }));
        let path = RawPath(unit.path.to_path_buf());
        journal.units.push(Unit { path, action: unit.action, slot, old, new });
        Ok(())
    }

    /// What is there now, if it is what the changes were compared with.
    fn old_side(&self, unit: &Planned<'_>) -> Result<Option<Side>, OverlayError> {
        let Some(old) = &unit.change.old else { return Ok(None) };
        let (parent, name) = find_parent(&self.lower, unit.path)?;
        let found = side(parent, Path::new(name))
            .map_err(|error| OverlayError::failed("look at", unit.path, error))?;
        match found {
            Some(found) if found.stamp == old.stamp => Ok(Some(found)),
            Some(_) => Err(OverlayError::conflict(unit.path, ConflictReason::Changed)),
            None => Err(OverlayError::conflict(unit.path, ConflictReason::Gone)),
        }
    }

    /// Whoever had the file that is replaced, else whoever has the workspace.
    fn owner(&self, unit: &Planned<'_>) -> Result<Owner, OverlayError> {
        let stamp = match &unit.change.old {
            Some(old) => old.stamp,
            None => Stamp::of(&self.lower)
                .map_err(|error| OverlayError::failed("look at", &self.lower_path, error))?,
        };
        Ok(Owner { uid: stamp.uid, gid: stamp.gid })
    }

    fn quiet_parents(&self, units: &[Planned<'_>]) -> Result<Vec<RawPath>, OverlayError> {
        let record = self.record()?;
        let parents: BTreeSet<&Path> = units.iter().flat_map(|unit| unit.path.ancestors().skip(1)).collect();
        let quiet = parents.into_iter().filter(|path| self.is_quiet(&record, path));
        Ok(quiet.map(|path| RawPath(path.to_path_buf())).collect())
    }
}

fn chosen<'a>(changes: &'a [Change], only: &[PathBuf]) -> Result<BTreeSet<&'a Path>, OverlayError> {
    let is_change = |wanted: &PathBuf| changes.iter().any(|change| change.path.starts_with(wanted));
    match only.iter().find(|wanted| !is_change(wanted)) {
        Some(unknown) => Err(OverlayError::NotAChange(unknown.clone())),
        None => Ok(select(changes, only)),
    }
}

fn covered<'a>(units: &[Planned<'a>]) -> BTreeSet<&'a Path> {
    units.iter().flat_map(|unit| unit.covers.iter().map(|change| change.path.as_path())).collect()
}

fn refuse_conflicts(applied: &[Change]) -> Result<(), OverlayError> {
    let conflicts: Vec<Conflict> = applied
        .iter()
        .filter_map(|change| Some(Conflict { path: change.path.clone(), reason: change.conflict? }))
        .collect();
    if conflicts.is_empty() { Ok(()) } else { Err(OverlayError::Conflicts { conflicts, kept: Vec::new() }) }
}

fn is_reserved(path: &Path) -> bool {
    let first = path.iter().next().map(|first| first.to_string_lossy().into_owned());
    first.is_some_and(|first| first.to_ascii_lowercase().starts_with(RESERVED))
}

/// The same thing with the permissions that the session gave it. Its other bits are its user's.
fn with_mode(old: Side, change: &Change) -> Side {
    let permissions = change.new.as_ref().map_or(0, |new| new.mode);
    Side { stamp: Stamp { mode: (old.stamp.mode & !0o777) | permissions, ..old.stamp }, ..old }
}

fn random_name() -> Result<String, OverlayError> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| OverlayError::failed("read", "random bytes", error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
