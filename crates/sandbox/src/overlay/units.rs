//! From changes to units: as few calls of the kernel as there can be, each of which takes one path from old to new.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::changes::{Change, ChangeKind, EntryKind};
use super::journal::Action;

/// What one unit is to do. Everything that is new in it is at `path` or below.
#[derive(Debug)]
pub(super) struct Planned<'a> {
    pub(super) path: &'a Path,
    pub(super) action: Action,
    pub(super) change: &'a Change,
    /// The new things, parents first; the first is at `path` itself.
    pub(super) contents: Vec<&'a Change>,
    /// All changes that it carries out.
    pub(super) covers: Vec<&'a Change>,
}

/// `changes` are sorted; `wanted` are those that may be applied.
pub(super) fn plan_units<'a>(changes: &'a [Change], wanted: &BTreeSet<&'a Path>) -> Vec<Planned<'a>> {
    let mut units = Vec::new();
    let mut at = 0;
    while let Some(change) = changes.get(at) {
        let below = changes[at + 1..].iter().take_while(|other| other.path.starts_with(&change.path)).count();
        let inside = &changes[at + 1..=at + below];
        match unit(change, inside, wanted) {
            Verdict::Unit(unit) => {
                // What is in a directory with other permissions is units of its own.
                at += if unit.action == Action::Mode { 1 } else { below + 1 };
                units.push(unit);
            }
            Verdict::Skip => at += below + 1,
            Verdict::GoInside => at += 1,
        }
    }
    sort(&mut units);
    units
}

enum Verdict<'a> {
    Unit(Planned<'a>),
    /// Neither this nor what is in it.
    Skip,
    /// Not this, but perhaps what is in it.
    GoInside,
}

fn unit<'a>(change: &'a Change, inside: &'a [Change], wanted: &BTreeSet<&'a Path>) -> Verdict<'a> {
    let is_wanted = |change: &Change| wanted.contains(change.path.as_path());
    let make = |action, contents: Vec<&'a Change>, covers: Vec<&'a Change>| {
        Verdict::Unit(Planned { path: &change.path, action, change, contents, covers })
    };
    let goes_whole = || inside.iter().filter(|other| other.new.is_none()).all(is_wanted);
    match change.kind {
        ChangeKind::Mode | ChangeKind::Modified if !is_wanted(change) => Verdict::GoInside,
        ChangeKind::Mode => make(Action::Mode, Vec::new(), vec![change]),
        ChangeKind::Modified => make(Action::Exchange, vec![change], vec![change]),
        ChangeKind::Removed if is_wanted(change) && goes_whole() => {
            make(Action::Remove, Vec::new(), [change].into_iter().chain(inside).collect())
        }
        ChangeKind::Removed => Verdict::GoInside,
        ChangeKind::Added if is_wanted(change) => {
            let contents = new_things(change, inside, wanted);
            make(Action::Put, contents.clone(), contents)
        }
        ChangeKind::Replaced if is_wanted(change) && goes_whole() => {
            let contents = new_things(change, inside, wanted);
            let gone = inside.iter().filter(|other| other.new.is_none());
            let covers = contents.iter().copied().chain(gone).collect();
            make(Action::Exchange, contents, covers)
        }
        ChangeKind::Added | ChangeKind::Replaced => Verdict::Skip,
    }
}

/// The wanted new things whose parents are wanted too.
fn new_things<'a>(top: &'a Change, inside: &'a [Change], wanted: &BTreeSet<&'a Path>) -> Vec<&'a Change> {
    let mut directories: BTreeSet<&Path> = BTreeSet::from([top.path.as_path()]);
    let mut contents = vec![top];
    for change in inside.iter().filter(|change| wanted.contains(change.path.as_path())) {
        let Some(new) = &change.new else { continue };
        if change.path.parent().is_some_and(|parent| directories.contains(parent)) {
            if new.kind == EntryKind::Directory {
                directories.insert(&change.path);
            }
            contents.push(change);
        }
    }
    contents
}

/// A directory that becomes writable does so before something is put into it, one that is closed afterwards.
fn sort(units: &mut [Planned<'_>]) {
    const WRITABLE: u32 = 0o300;
    units.sort_by_key(|unit| match (unit.action, &unit.change.new) {
        (Action::Mode, Some(new)) if new.mode & WRITABLE == WRITABLE => 0,
        (Action::Mode, _) => 2,
        _ => 1,
    });
}

/// Every path that `only` names, what is in it, and the new directories above it.
pub(super) fn select<'a>(changes: &'a [Change], only: &[PathBuf]) -> BTreeSet<&'a Path> {
    let named = |path: &Path| only.iter().any(|wanted| path.starts_with(wanted));
    let mut chosen: BTreeSet<&Path> = BTreeSet::new();
    for change in changes.iter().filter(|change| only.is_empty() || named(&change.path)) {
        chosen.insert(&change.path);
    }
    let is_new_directory = |change: &&Change| {
        change.kind == ChangeKind::Added
            && change.new.as_ref().is_some_and(|new| new.kind == EntryKind::Directory)
    };
    let above: Vec<&Path> = changes
        .iter()
        .filter(is_new_directory)
        .map(|change| change.path.as_path())
        .filter(|path| chosen.range::<&Path, _>(*path..).next().is_some_and(|next| next.starts_with(path)))
        .collect();
    chosen.extend(above);
    chosen
}
