//! One unit, forward and backward. Whether it is done is seen from which file is where, so that both may be repeated, and
//! either may follow the other, after a kill at any moment.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, RenameFlags, chmod, renameat_with};
use rustix::io::Errno;

use super::beneath::{magic_link, open_any, open_parent};
use super::changes::ConflictReason;
use super::error::OverlayError;
use super::identity::Stamp;
use super::journal::{Action, Side, Unit};
use super::stage::{Staging, side, slot_name};
use super::steps::Steps;

pub(super) struct Applier<'a> {
    pub(super) lower: &'a OwnedFd,
    pub(super) staging: &'a Staging,
    pub(super) steps: &'a Steps<'a>,
}

/// What became of a unit that was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    AsBefore,
    /// Its user has changed it since; what lay there before is in the slot, if there was anything.
    LeftAsIs,
}

/// A unit's place in the user's directory.
struct Place<'a> {
    parent: OwnedFd,
    name: &'a OsStr,
    slot: std::path::PathBuf,
}

impl Applier<'_> {
    pub(super) fn forward(&self, unit: &Unit) -> Result<(), OverlayError> {
        let path = &unit.path.0;
        let changed = || OverlayError::conflict(path, ConflictReason::Changed);
        let place = self.place(unit)?;
        let here = self.here(unit, &place)?;
        match unit.action {
            Action::Put => match here {
                Some(here) if is_file(&here, unit.new) => Ok(()),
                Some(_) => Err(changed()),
                None => self.fill_from_slot(unit, &place, RenameFlags::NOREPLACE),
            },
            Action::Exchange => {
                if !here.is_some_and(|here| is_file(&here, unit.new)) {
                    is_as_planned(unit, here)?;
                    self.fill_from_slot(unit, &place, RenameFlags::EXCHANGE)?;
                }
                self.is_what_was_meant(unit)
            }
            Action::Remove => {
                if self.there(unit)?.is_none() {
                    is_as_planned(unit, here)?;
                    self.move_to_slot(unit, &place)?;
                }
                self.is_what_was_meant(unit)
            }
            Action::Mode => {
                let (Some(old), Some(new)) = (unit.old, unit.new) else { return Err(changed()) };
                match here {
                    Some(here) if is_mode(&here, &new) => Ok(()),
                    Some(here) if is_mode(&here, &old) => self.set_mode(unit, &new.stamp),
                    _ => Err(changed()),
                }
            }
        }
    }

    pub(super) fn backward(&self, unit: &Unit) -> Result<Back, OverlayError> {
        let place = match self.place(unit) {
            Ok(place) => place,
            // Its user has taken the way to it away.
            Err(OverlayError::Conflicts { .. }) => return self.left(unit),
            Err(error) => return Err(error),
        };
        let (here, there) = (self.here(unit, &place)?, self.there(unit)?);
        match unit.action {
            Action::Put if there.is_some() => Ok(Back::AsBefore),
            Action::Put => match here {
                Some(here) if is_untouched(&here, unit.new) => {
                    self.move_to_slot(unit, &place)?;
                    self.settle(unit, &place)
                }
                Some(_) => Ok(Back::LeftAsIs),
                None => Ok(Back::AsBefore),
            },
            Action::Exchange if there.is_some_and(|there| is_file(&there, unit.new)) => Ok(Back::AsBefore),
            Action::Exchange => match here {
                Some(here) if is_untouched(&here, unit.new) => {
                    self.fill_from_slot(unit, &place, RenameFlags::EXCHANGE)?;
                    self.settle(unit, &place)
                }
                _ => Ok(Back::LeftAsIs),
            },
            Action::Remove => match (here, there) {
                (_, None) => Ok(Back::AsBefore),
                (None, Some(_)) => {
                    self.fill_from_slot(unit, &place, RenameFlags::NOREPLACE).map(|()| Back::AsBefore)
                }
                (Some(_), Some(_)) => Ok(Back::LeftAsIs),
            },
            Action::Mode => match (here, unit.old, unit.new) {
                (Some(here), Some(old), Some(new)) if is_mode(&here, &new) => {
                    self.set_mode(unit, &old.stamp).map(|()| Back::AsBefore)
                }
                _ => Ok(Back::AsBefore),
            },
        }
    }

    /// What came out of the user's directory should be what was put in. If its user was quicker, it goes back.
    fn settle(&self, unit: &Unit, place: &Place<'_>) -> Result<Back, OverlayError> {
        if self.there(unit)?.is_some_and(|there| is_untouched(&there, unit.new)) {
            return Ok(Back::AsBefore);
        }
        let how = if unit.action == Action::Put { RenameFlags::NOREPLACE } else { RenameFlags::EXCHANGE };
        self.fill_from_slot(unit, place, how).map(|()| Back::LeftAsIs)
    }

    fn left(&self, unit: &Unit) -> Result<Back, OverlayError> {
        let there = self.there(unit)?;
        let is_pending = there.is_some_and(|there| is_file(&there, unit.new));
        let is_nothing = there.is_none() && unit.action != Action::Put;
        Ok(if is_pending || is_nothing { Back::AsBefore } else { Back::LeftAsIs })
    }

    /// The displaced file is the one that was looked at, with nothing done to it since.
    fn is_what_was_meant(&self, unit: &Unit) -> Result<(), OverlayError> {
        match self.there(unit)? {
            Some(displaced) if is_untouched(&displaced, unit.old) => Ok(()),
            _ => Err(OverlayError::conflict(&unit.path.0, ConflictReason::Changed)),
        }
    }

    fn place<'u>(&self, unit: &'u Unit) -> Result<Place<'u>, OverlayError> {
        let (parent, name) = find_parent(self.lower, &unit.path.0)?;
        Ok(Place { parent, name, slot: slot_name(unit.slot) })
    }

    fn here(&self, unit: &Unit, place: &Place<'_>) -> Result<Option<Side>, OverlayError> {
        side(&place.parent, Path::new(place.name)).map_err(|error| failed("look at", unit, error))
    }

    fn there(&self, unit: &Unit) -> Result<Option<Side>, OverlayError> {
        self.staging.side(unit.slot).map_err(|error| failed("look at the copy of", unit, error))
    }

    fn fill_from_slot(&self, unit: &Unit, place: &Place<'_>, how: RenameFlags) -> Result<(), OverlayError> {
        let Place { parent, name, slot } = place;
        match renameat_with(self.staging.directory(), slot, parent, *name, how) {
            Ok(()) => self.steps.done(),
            Err(Errno::EXIST) => Err(OverlayError::conflict(&unit.path.0, ConflictReason::Changed)),
            Err(Errno::NOENT) => Err(OverlayError::conflict(&unit.path.0, ConflictReason::Gone)),
            Err(error) => Err(failed("replace", unit, error)),
        }
    }

    fn move_to_slot(&self, unit: &Unit, place: &Place<'_>) -> Result<(), OverlayError> {
        let Place { parent, name, slot } = place;
        match renameat_with(parent, *name, self.staging.directory(), slot, RenameFlags::NOREPLACE) {
            Ok(()) => self.steps.done(),
            Err(Errno::NOENT) => Err(OverlayError::conflict(&unit.path.0, ConflictReason::Gone)),
            Err(error) => Err(failed("remove", unit, error)),
        }
    }

    fn set_mode(&self, unit: &Unit, wanted: &Stamp) -> Result<(), OverlayError> {
        let change = || -> Result<(), Errno> {
            let found = open_any(self.lower, &unit.path.0)?;
            if !unit.old.is_some_and(|old| Stamp::of(&found).is_ok_and(|now| now.is_same_file(&old.stamp))) {
                return Err(Errno::STALE);
            }
            chmod(magic_link(&found), Mode::from_raw_mode(wanted.mode & 0o7777))
        };
        change().map_err(|error| failed("set the permissions of", unit, error))?;
        self.steps.done()
    }
}

/// The directory of `path` in the user's directory, if it is still the way there.
pub(super) fn find_parent<'p>(lower: &OwnedFd, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), OverlayError> {
    open_parent(lower, path).map_err(|error| match error {
        Errno::NOENT => OverlayError::conflict(path, ConflictReason::Gone),
        Errno::XDEV => OverlayError::conflict(path, ConflictReason::Mounted),
        Errno::LOOP | Errno::NOTDIR => OverlayError::conflict(path, ConflictReason::Moved),
        error => OverlayError::failed("open the directory of", path, error),
    })
}

fn failed(step: &'static str, unit: &Unit, error: Errno) -> OverlayError {
    OverlayError::failed(step, &unit.path.0, error)
}

fn is_file(found: &Side, expected: Option<Side>) -> bool {
    expected.is_some_and(|expected| found.stamp.is_same_file(&expected.stamp))
}

fn is_untouched(found: &Side, expected: Option<Side>) -> bool {
    expected.is_some_and(|expected| found.stamp.is_only_moved(&expected.stamp) && found.tree == expected.tree)
}

/// The same file with these permissions; of a directory, other units change the rest.
fn is_mode(found: &Side, expected: &Side) -> bool {
    found.stamp.is_same_file(&expected.stamp) && found.stamp.mode == expected.stamp.mode
}

/// What the changes were compared with. An undo that was killed may have moved it there and back.
fn is_as_planned(unit: &Unit, here: Option<Side>) -> Result<(), OverlayError> {
    let reason = match (here, unit.old) {
        (Some(here), old) if is_untouched(&here, old) => return Ok(()),
        (None, _) => ConflictReason::Gone,
        _ => ConflictReason::Changed,
    };
    Err(OverlayError::conflict(&unit.path.0, reason))
}
