//! What is never committed: names that a program on the host acts on without asking. Stricter than the pins of a direct
//! workspace: in every repository, also one that the session made, at every depth and in every case of letters.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ringfence_policy::protected;

use super::beneath::open_any;
use super::changes::{Change, ChangeKind, EntryKind};
use crate::protect::Names;

/// Where the names of a git directory are that hold others like it.
const NESTED: &[&str] = &["modules", "worktrees"];
/// What makes git take a directory for a repository.
const BARE: &[&str] = &["HEAD", "objects", "refs"];

pub(super) struct Guard<'a> {
    lower: &'a OwnedFd,
    /// Paths of the workspace as it is, symlinked ones included.
    places: Names,
    /// At its top.
    names: Vec<&'static str>,
    /// In a git directory.
    git_names: Vec<&'static str>,
    changes: BTreeMap<&'a Path, &'a Change>,
}

impl<'a> Guard<'a> {
    pub(super) fn new(lower: &'a OwnedFd, places: Names, lifted: &[String], changes: &'a [Change]) -> Self {
        let held =
            || protected().iter().map(|entry| entry.name).filter(|name| !lifted.iter().any(|l| l == name));
        Self {
            lower,
            places,
            names: held().filter(|name| !name.starts_with(".git/")).collect(),
            git_names: held().filter_map(|name| name.strip_prefix(".git/")).collect(),
            changes: changes.iter().map(|change| (change.path.as_path(), change)).collect(),
        }
    }

    /// The protected name that `change` would touch.
    pub(super) fn stops(&self, change: &Change) -> Option<PathBuf> {
        let path = &change.path;
        let top = self.names.iter().find(|name| starts_with(path, name));
        top.map(PathBuf::from)
            .or_else(|| self.place(change))
            .or_else(|| self.in_git(change))
            .or_else(|| self.in_bare(change))
    }

    /// One of the places that are protected today, or something that they are reached through.
    fn place(&self, change: &Change) -> Option<PathBuf> {
        let takes_away = change.old.is_some() && change.kind != ChangeKind::Mode;
        let is_directory = change.new.as_ref().is_some_and(|new| new.kind == EntryKind::Directory);
        let existing = self.places.existing.iter().map(|(place, _)| (place, true));
        let absent = self.places.absent.iter().map(|(place, _)| (place, false));
        existing
            .chain(absent)
            .find(|(place, exists)| {
                let is_above = place.starts_with(&change.path);
                // A directory above stays a directory; where nothing is yet, nothing but a directory may come.
                let breaks_way = is_above
                    && !is_directory
                    && if *exists { takes_away } else { change.kind != ChangeKind::Removed };
                change.path.starts_with(place) || breaks_way
            })
            .map(|(place, _)| place.clone())
    }

    fn in_git(&self, change: &Change) -> Option<PathBuf> {
        let parts: Vec<&OsStr> = change.path.iter().collect();
        let found = parts.iter().enumerate().filter(|(_, part)| is_named(part, ".git"));
        for (at, _) in found {
            let git: PathBuf = parts[..=at].iter().collect();
            let rest = &parts[at + 1..];
            let new_kind = change.new.as_ref().map(|new| new.kind);
            let stopped = match rest {
                // A directory may come; a file or link would send git elsewhere, and its own must not go.
                [] => new_kind != Some(EntryKind::Directory) || change.kind == ChangeKind::Replaced,
                // It does not go, and neither does what is in it.
                _ if self.goes(&git) => true,
                [first, below @ ..] => {
                    let is_nested = NESTED.iter().any(|name| is_named(first, name));
                    self.is_git_name(first)
                        || (is_nested && below.iter().any(|part| self.is_git_name(part)))
                        // git keeps no links there: one would stand for a directory that is looked at above.
                        || new_kind == Some(EntryKind::Link)
                        || (is_head(rest) && change.kind != ChangeKind::Modified && change.old.is_some())
                }
            };
            if stopped {
                return Some(rest.first().map_or(git.clone(), |first| git.join(first)));
            }
        }
        None
    }

    /// A directory that is, or would become, a repository by what is in it.
    fn in_bare(&self, change: &Change) -> Option<PathBuf> {
        let parts: Vec<&OsStr> = change.path.iter().collect();
        for (at, part) in parts.iter().enumerate() {
            let directory: PathBuf = parts[..at].iter().collect();
            let is_last = at + 1 == parts.len();
            let completes = is_last && BARE.iter().any(|name| part == name) && change.old.is_none();
            let stopped = (self.is_git_name(part) && self.will_be_git(&directory))
                || (completes && self.will_be_git(&directory) && !self.was_git(&directory));
            let in_dot_git = directory.iter().any(|above| is_named(above, ".git"));
            if stopped && !in_dot_git {
                return Some(directory.join(part));
            }
        }
        None
    }

    fn goes(&self, path: &Path) -> bool {
        let change = self.changes.get(path);
        change.is_some_and(|change| matches!(change.kind, ChangeKind::Removed | ChangeKind::Replaced))
    }

    fn is_git_name(&self, part: &OsStr) -> bool {
        self.git_names.iter().any(|name| is_named(part, name))
    }

    fn was_git(&self, directory: &Path) -> bool {
        is_git(|name| self.exists_below(&directory.join(name)))
    }

    fn will_be_git(&self, directory: &Path) -> bool {
        is_git(|name| {
            let path = directory.join(name);
            match self.changes.get(path.as_path()) {
                Some(change) => change.new.is_some(),
                None => self.exists_below(&path),
            }
        })
    }

    fn exists_below(&self, path: &Path) -> bool {
        open_any(self.lower, path).is_ok()
    }
}

fn is_git(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

fn is_head(rest: &[&OsStr]) -> bool {
    matches!(rest, [only] if is_named(only, "HEAD"))
}

/// `path` is `name` or lies in it.
fn starts_with(path: &Path, name: &str) -> bool {
    let mut parts = path.iter();
    name.split('/').all(|part| parts.next().is_some_and(|own| is_named(own, part)))
}

/// The same name, or one that some filesystem takes for the same: in another case of letters, with characters in it that
/// nobody sees, with dots and spaces at its end, or in its short form.
fn is_named(part: &OsStr, name: &str) -> bool {
    let text = part.to_string_lossy();
    let seen: String = text.chars().filter(|letter| !is_unseen(*letter)).collect();
    let bare = seen.trim_end_matches(['.', ' ']);
    bare.eq_ignore_ascii_case(name) || (name == ".git" && bare.eq_ignore_ascii_case("git~1"))
}

/// Those that git looks through as well.
fn is_unseen(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
