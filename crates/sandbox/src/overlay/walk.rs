//! Reads the upper directory beside the lower one: every path that differs, and why it can't be committed if so.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::beneath::{list, open_directory, open_file, overlay_attribute, read_link};
use super::changes::{Change, ChangeKind, ConflictReason, Entry, EntryKind};
use super::compare::is_same_content;
use super::error::OverlayError;
use super::identity::{Moment, Stamp};
use super::record::{Record, Seen};

/// Deeper trees are refused: nobody works in them, and each level holds a descriptor.
const DEEPEST: usize = 256;
/// What is walked of both sides together.
const MOST_ENTRIES: usize = 500_000;
/// A path that has to be handed to the kernel whole.
const LONGEST_PATH: usize = 4_000;

pub(super) struct Walk<'a> {
    start: Moment,
    record: &'a Record,
    found: Vec<Change>,
    seen: usize,
}

/// A directory that is there on both sides, or only in the upper one.
struct Pair<'a> {
    path: &'a Path,
    upper: &'a OwnedFd,
    lower: Option<&'a OwnedFd>,
    /// What lies above is not what it was.
    conflict: Option<ConflictReason>,
    /// Entries of the lower directory may have gone since the session began.
    lower_changed: bool,
}

type Done = Result<(), OverlayError>;

impl<'a> Walk<'a> {
    pub(super) fn new(start: Moment, record: &'a Record) -> Self {
        Self { start, record, found: Vec::new(), seen: 0 }
    }

    /// Every change, parents before what is in them.
    pub(super) fn changes(mut self, upper: &OwnedFd, lower: &OwnedFd) -> Result<Vec<Change>, OverlayError> {
        let top = Path::new("");
        let facts = Stamp::of(lower).map_err(|error| OverlayError::failed("look at", top, error))?;
        let lower_changed = self.has_changed(top, &facts);
        let pair = Pair { path: top, upper, lower: Some(lower), conflict: None, lower_changed };
        self.directory(&pair)?;
        self.found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(self.found)
    }

    fn has_changed(&self, path: &Path, lower: &Stamp) -> bool {
        self.record.has_changed(self.start, path, lower)
    }

    /// Put there since: its entries are older than the session, but it is not.
    fn was_moved(&self, path: &Path, lower: &Stamp) -> bool {
        self.has_changed(path, lower) && lower.modified < self.start
    }

    fn directory(&mut self, pair: &Pair<'_>) -> Done {
        let names = self.names(pair.upper, pair.path)?;
        for name in &names {
            self.entry(pair, name)?;
        }
        if let Some(lower) = pair.lower {
            for name in self.dropped(pair, &names) {
                self.removed(lower, &name, &pair.path.join(&name), pair.conflict)?;
            }
        }
        Ok(())
    }

    /// What the session committed once and has removed since, where the kernel saw no need to note that down.
    fn dropped(&self, pair: &Pair<'_>, names: &[OsString]) -> Vec<OsString> {
        let had = self.record.had_in(pair.path).filter_map(Path::file_name);
        had.filter(|name| names.binary_search_by(|now| now.as_os_str().cmp(name)).is_err())
            .map(OsStr::to_owned)
            .collect()
    }

    fn names(&mut self, directory: &OwnedFd, path: &Path) -> Result<Vec<OsString>, OverlayError> {
        if path.components().count() > DEEPEST || path.as_os_str().len() > LONGEST_PATH {
            return Err(OverlayError::TooDeep(path.components().take(4).collect()));
        }
        let names = list(directory, MOST_ENTRIES - self.seen)
            .map_err(|error| OverlayError::failed("list", path, error))?
            .ok_or(OverlayError::TooMany(MOST_ENTRIES))?;
        self.seen += names.len();
        Ok(names)
    }

    fn entry(&mut self, pair: &Pair<'_>, name: &OsStr) -> Done {
        let path = pair.path.join(name);
        let failed = |error: Errno| OverlayError::failed("look at", &path, error);
        // It was removed inside at this moment: another walk sees that.
        let Some(upper) = Stamp::at(pair.upper, name).map_err(failed)? else { return Ok(()) };
        let lower = pair.lower.map_or(Ok(None), |lower| Stamp::at(lower, name)).map_err(failed)?;
        let committed = self.record.get(&path).map(|kept| kept.upper);
        if is_whiteout(pair.upper, name, &upper) {
            return match (lower, pair.lower) {
                (Some(_), Some(directory)) if committed != Some(Seen::Removed) => {
                    self.removed(directory, name, &path, pair.conflict)
                }
                _ => Ok(()),
            };
        }
        match lower {
            Some(lower) if lower.is_directory() && upper.is_directory() => {
                self.both_directories(pair, name, &path, upper, lower)
            }
            _ if !upper.is_directory() && committed == Some(Seen::Entry(upper)) => Ok(()),
            Some(lower) if lower.kind() == upper.kind() => self.same_kind(pair, name, path, upper, lower),
            Some(lower) => {
                let conflict =
                    self.has_changed(&path, &lower).then_some(ConflictReason::Changed).or(pair.conflict);
                self.push(&path, ChangeKind::Replaced, Some(lower), Some(upper), conflict);
                if let (true, Some(directory)) = (lower.is_directory(), pair.lower) {
                    self.removed_below(directory, name, &path, conflict)?;
                }
                self.added_below(pair, name, &path, &upper, conflict)
            }
            None => self.added(pair, name, path, upper, committed),
        }
    }

    fn added(
        &mut self,
        pair: &Pair<'_>,
        name: &OsStr,
        path: PathBuf,
        upper: Stamp,
        committed: Option<Seen>,
    ) -> Done {
        // Committed once, and its user removed it.
        let gone = matches!(committed, Some(Seen::Entry(_)));
        // Copied from below, so that there was something. A file that was renamed inside bears the same mark, but then nothing
        // in the lower directory has changed; directories that lie over others can't be renamed.
        let copied = || overlay_attribute(pair.upper, name, "origin").is_some();
        let could_go = pair.lower.is_some() && (pair.lower_changed || upper.is_directory());
        let gone = gone || (could_go && copied());
        let conflict = gone.then_some(ConflictReason::Gone).or(pair.conflict);
        if !(gone && upper.is_directory()) {
            self.push(&path, ChangeKind::Added, None, Some(upper), conflict);
        }
        self.added_below(pair, name, &path, &upper, conflict)
    }

    fn added_below(
        &mut self,
        pair: &Pair<'_>,
        name: &OsStr,
        path: &Path,
        upper: &Stamp,
        conflict: Option<ConflictReason>,
    ) -> Done {
        if !upper.is_directory() {
            return Ok(());
        }
        let directory = self.open(pair.upper, name, path)?;
        self.directory(&Pair { path, upper: &directory, lower: None, conflict, lower_changed: false })
    }

    fn both_directories(
        &mut self,
        pair: &Pair<'_>,
        name: &OsStr,
        path: &Path,
        upper: Stamp,
        lower: Stamp,
    ) -> Done {
        let Some(below) = pair.lower else { return Ok(()) };
        let committed = self.record.get(path).map(|kept| kept.upper);
        let mode_seen =
            matches!(committed, Some(Seen::Entry(seen)) if seen.permissions() == upper.permissions());
        if upper.permissions() != lower.permissions() && !mode_seen {
            let changed = self.has_changed(path, &lower).then_some(ConflictReason::Changed);
            self.push(path, ChangeKind::Mode, Some(lower), Some(upper), changed.or(pair.conflict));
        }
        let (upper_directory, lower_directory) = match open_directory(below, Path::new(name)) {
            Ok(directory) => (self.open(pair.upper, name, path)?, Some(directory)),
            Err(Errno::XDEV) => (self.open(pair.upper, name, path)?, None),
            Err(error) => return Err(OverlayError::failed("open", path, error)),
        };
        let conflict = match &lower_directory {
            None => Some(ConflictReason::Mounted),
            Some(_) => self.was_moved(path, &lower).then_some(ConflictReason::Moved),
        };
        let inner = Pair {
            path,
            upper: &upper_directory,
            lower: lower_directory.as_ref(),
            conflict: conflict.or(pair.conflict),
            lower_changed: self.has_changed(path, &lower),
        };
        // Made anew inside: what lies below in the lower directory was removed, unless that was committed before.
        let opaque = overlay_attribute(pair.upper, name, "opaque").is_some_and(|value| value == b"y");
        if let (true, false, Some(directory)) =
            (opaque, matches!(committed, Some(Seen::Entry(_))), &lower_directory)
        {
            let kept: BTreeSet<OsString> = self.names(&upper_directory, path)?.into_iter().collect();
            for gone in self.names(directory, path)?.into_iter().filter(|name| !kept.contains(name)) {
                self.removed(directory, &gone, &path.join(&gone), inner.conflict)?;
            }
        }
        self.directory(&inner)
    }

    fn same_kind(
        &mut self,
        pair: &Pair<'_>,
        name: &OsStr,
        path: PathBuf,
        upper: Stamp,
        lower: Stamp,
    ) -> Done {
        let Some(below) = pair.lower else { return Ok(()) };
        let name = Path::new(name);
        let same = match upper.kind() {
            EntryKind::File => upper.size == lower.size && has_same_content(pair.upper, below, name),
            EntryKind::Link => read_link(pair.upper, name).ok() == read_link(below, name).ok(),
            EntryKind::Directory | EntryKind::Special => false,
        };
        let kind = match same {
            true if upper.kind() == EntryKind::Link || upper.permissions() == lower.permissions() => {
                return Ok(());
            }
            true => ChangeKind::Mode,
            false => ChangeKind::Modified,
        };
        let changed = self.has_changed(&path, &lower).then_some(ConflictReason::Changed);
        self.push(&path, kind, Some(lower), Some(upper), changed.or(pair.conflict));
        Ok(())
    }

    fn removed(
        &mut self,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
        conflict: Option<ConflictReason>,
    ) -> Done {
        let facts = Stamp::at(lower, name).map_err(|error| OverlayError::failed("look at", path, error))?;
        let Some(facts) = facts else { return Ok(()) };
        let conflict = self.has_changed(path, &facts).then_some(ConflictReason::Changed).or(conflict);
        self.push(path, ChangeKind::Removed, Some(facts), None, conflict);
        if facts.is_directory() { self.removed_below(lower, name, path, conflict) } else { Ok(()) }
    }

    fn removed_below(
        &mut self,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
        conflict: Option<ConflictReason>,
    ) -> Done {
        let directory = match open_directory(lower, Path::new(name)) {
            Ok(directory) => directory,
            Err(Errno::XDEV) => {
                if let Some(last) = self.found.iter_mut().rfind(|change| change.path == path) {
                    last.conflict = Some(ConflictReason::Mounted);
                }
                return Ok(());
            }
            Err(error) => return Err(OverlayError::failed("open", path, error)),
        };
        for below in self.names(&directory, path)? {
            self.removed(&directory, &below, &path.join(&below), conflict)?;
        }
        Ok(())
    }

    fn open(&self, parent: impl AsFd, name: &OsStr, path: &Path) -> Result<OwnedFd, OverlayError> {
        open_directory(parent, Path::new(name)).map_err(|error| OverlayError::failed("open", path, error))
    }

    fn push(
        &mut self,
        path: &Path,
        kind: ChangeKind,
        old: Option<Stamp>,
        new: Option<Stamp>,
        conflict: Option<ConflictReason>,
    ) {
        let (old, new) = (old.map(Entry::from), new.map(Entry::from));
        self.found.push(Change { path: path.to_path_buf(), kind, old, new, conflict });
    }
}

/// The kernel's note that something was removed: a device 0/0, or an empty file with an attribute.
fn is_whiteout(directory: &OwnedFd, name: &OsStr, facts: &Stamp) -> bool {
    match FileType::from_raw_mode(facts.mode) {
        FileType::CharacterDevice => {
            rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|facts| facts.st_rdev == 0)
        }
        FileType::RegularFile => facts.size == 0 && overlay_attribute(directory, name, "whiteout").is_some(),
        _ => false,
    }
}

/// What can't be read is taken for different.
fn has_same_content(upper: &OwnedFd, lower: &OwnedFd, name: &Path) -> bool {
    match (open_file(upper, name), open_file(lower, name)) {
        (Ok(one), Ok(other)) => is_same_content(one, other).unwrap_or(false),
        _ => false,
    }
}
