//! Skills that other agents keep, in a project or in the home directory. They are listed and run where they are.
//!
//! A project came with a clone, so nothing in it is followed; a home is the user's own, where links to skills are common.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, statat};
use serde::Serialize;

use crate::MANIFEST_NAMES;

use super::beneath;

/// A directory in which some client looks for skills, relative to a project and to the home directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub path: &'static str,
    pub client: &'static str,
}

/// The first place wins where two have a skill of the same name; a project's come before those of the home.
pub const PLACES: &[Place] = &[
    Place { path: ".agents/skills", client: "any" },
    Place { path: ".claude/skills", client: "claude-code" },
    Place { path: ".codex/skills", client: "codex" },
    Place { path: ".gemini/skills", client: "gemini" },
    Place { path: ".opencode/skills", client: "opencode" },
    Place { path: ".opencode/skill", client: "opencode" },
    Place { path: ".config/opencode/skills", client: "opencode" },
    Place { path: ".config/opencode/skill", client: "opencode" },
    Place { path: ".github/skills", client: "copilot" },
    Place { path: ".copilot/skills", client: "copilot" },
    Place { path: ".cursor/skills", client: "cursor" },
    Place { path: ".config/agents/skills", client: "amp" },
    Place { path: ".goose/skills", client: "goose" },
];

/// Whose directory a skill was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Project,
    Home,
}

/// A skill outside of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Of its directory.
    pub name: String,
    pub path: PathBuf,
    pub place: Place,
    pub scope: Scope,
}

/// Every skill that clients would find for this project and this user. What can't be read is passed over.
pub fn discover(project: &Path, home: Option<&Path>) -> Vec<Found> {
    let mut found = Vec::new();
    look(project, Scope::Project, &mut found);
    if let Some(home) = home.filter(|home| *home != project) {
        look(home, Scope::Home, &mut found);
    }
    found
}

fn look(top: &Path, scope: Scope, found: &mut Vec<Found>) {
    let Ok(root) = open(rustix::fs::CWD, top) else { return };
    for place in PLACES {
        let directory = match scope {
            Scope::Project => beneath::open_directory(root.as_fd(), place.path),
            Scope::Home => open(root.as_fd(), Path::new(place.path)),
        };
        let Ok(directory) = directory else { continue };
        for (name, kind) in beneath::entries(directory.as_fd()).unwrap_or_default() {
            let fits = match kind {
                FileType::Directory => true,
                FileType::Symlink => scope == Scope::Home,
                _ => false,
            };
            if fits && !name.starts_with('.') && is_skill(directory.as_fd(), &name, scope) {
                let path = top.join(place.path).join(&name);
                found.push(Found { name, path, place: *place, scope });
            }
        }
    }
}

fn is_skill(place: BorrowedFd<'_>, name: &str, scope: Scope) -> bool {
    let skill = match scope {
        Scope::Project => beneath::open_directory(place, name),
        Scope::Home => open(place, Path::new(name)),
    };
    let Ok(skill) = skill else { return false };
    let flags = if scope == Scope::Project { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
    MANIFEST_NAMES.iter().any(|manifest| {
        statat(&skill, *manifest, flags)
            .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile)
    })
}

fn open(at: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn skill(at: &Path) {
        fs::create_dir_all(at).unwrap();
        fs::write(at.join("SKILL.md"), "---\nname: x\ndescription: y\n---\n").unwrap();
    }

    #[test]
    fn a_project_is_not_followed_a_home_is() {
        let directory = tempfile::tempdir().unwrap();
        let (project, home, elsewhere) = (
            directory.path().join("project"),
            directory.path().join("home"),
            directory.path().join("elsewhere"),
        );
        skill(&elsewhere);
        for top in [&project, &home] {
            skill(&top.join(".claude/skills/own"));
            symlink(&elsewhere, top.join(".claude/skills/linked")).unwrap();
            fs::create_dir_all(top.join(".claude/skills/empty")).unwrap();
            fs::create_dir_all(top.join(".codex")).unwrap();
            symlink("../.claude/skills", top.join(".codex/skills")).unwrap();
        }
        let found = discover(&project, Some(&home));
        let shown: Vec<_> = found.iter().map(|found| (found.scope, found.place.path, &*found.name)).collect();
        assert_eq!(
            shown,
            [
                (Scope::Project, ".claude/skills", "own"),
                (Scope::Home, ".claude/skills", "linked"),
                (Scope::Home, ".claude/skills", "own"),
                (Scope::Home, ".codex/skills", "linked"),
                (Scope::Home, ".codex/skills", "own"),
            ]
        );
    }
}
