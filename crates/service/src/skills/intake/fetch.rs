//! A source at hand: the directory that it is in, and the skills in that.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ringfence_skills::{Kind, MANIFEST_NAMES, SkillOrigin, Tree, TreeError, TreeLimits, left_out};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::git::fetch_git;
use super::source::{self, GitSource, SourcePlace, SourceSpec};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::skills::scratch::Scratch;
use crate::skills::subject::unpacked;

/// Skills are looked for in whole repositories, where each of them has the usual bounds.
const WHERE: TreeLimits = TreeLimits { entries: 200_000, depth: 64, bytes: u64::MAX };
/// How many are named when there is more than one.
const NAMED: usize = 20;

/// A source that was fetched. What was made for it goes when it is let go.
#[derive(Debug)]
pub(in crate::skills) struct Fetched {
    shown: String,
    base: PathBuf,
    /// What a skill at its top is called, if its manifest does not say.
    name: String,
    came: Came,
    _scratch: Option<Scratch>,
}

#[derive(Debug)]
enum Came {
    Directory,
    Archive(String),
    Git { source: GitSource, commit: String },
}

/// One skill of a source.
#[derive(Debug)]
pub(in crate::skills) struct FetchedSkill {
    pub(in crate::skills) tree: Tree,
    /// Of its directory.
    pub(in crate::skills) name: String,
    pub(in crate::skills) shown: String,
    pub(in crate::skills) origin: SkillOrigin,
}

/// Get a source, and which directory of it is meant.
pub(in crate::skills) fn fetch(
    places: &Places,
    spec: &SourceSpec,
) -> Result<(Fetched, Option<String>), ServiceError> {
    let source = source::parse(places, spec)?;
    Ok((get(places, source.place)?, source.subdirectory))
}

/// Get what a skill came from: its newest version, or, with `pinned`, exactly the commit that it had.
pub(in crate::skills) fn fetch_origin(
    places: &Places,
    origin: &SkillOrigin,
    pinned: bool,
) -> Result<(Fetched, Option<String>), ServiceError> {
    match origin {
        SkillOrigin::Here => Err(ServiceError::new(
            ErrorCode::FetchFailed,
            "it was made in the library itself and can't be fetched from anywhere",
            "copy the library, or `ringfence skill pack` the skill and add the archive",
        )),
        SkillOrigin::Directory { path } => Ok((get(places, SourcePlace::Directory(path.into()))?, None)),
        SkillOrigin::Archive { path } => Ok((get(places, SourcePlace::Archive(path.into()))?, None)),
        SkillOrigin::Git { url, subdirectory, revision, commit } => {
            if let Some(revision) = revision {
                source::check_revision(revision)?;
            }
            let wanted = if pinned { Some(commit.clone()) } else { revision.clone() };
            let git = source::git(url, wanted)?;
            let subdirectory = source::subdirectory(subdirectory.as_deref())?;
            Ok((get(places, SourcePlace::Git(git))?.following(revision.clone()), subdirectory))
        }
    }
}

fn get(places: &Places, place: SourcePlace) -> Result<Fetched, ServiceError> {
    match place {
        SourcePlace::Directory(path) => {
            let shown = path.display().to_string();
            let base = path.canonicalize().map_err(|error| unreadable(&shown, &error))?;
            let name = base.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            Ok(Fetched { shown, base, name, came: Came::Directory, _scratch: None })
        }
        SourcePlace::Archive(path) => {
            let shown = path.display().to_string();
            let (scratch, name) = unpacked(places, &shown, &path)?;
            let real = path.canonicalize().map_err(|error| unreadable(&shown, &error))?;
            let came = Came::Archive(real.display().to_string());
            Ok(Fetched { shown, base: scratch.path.clone(), name, came, _scratch: Some(scratch) })
        }
        SourcePlace::Git(source) => {
            let (scratch, commit) = fetch_git(places, &source)?;
            let last = source.url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let name = last.trim_end_matches(".git").to_owned();
            let shown = source.url.clone();
            let came = Came::Git { source, commit };
            Ok(Fetched { shown, base: scratch.path.clone(), name, came, _scratch: Some(scratch) })
        }
    }
}

impl Fetched {
    /// The skill that is meant: in that directory, at the top, or the only one that there is.
    pub(in crate::skills) fn skill(&self, subdirectory: Option<&str>) -> Result<FetchedSkill, ServiceError> {
        if let Some(path) = subdirectory {
            return self.open(path);
        }
        let mut found = self.skills()?;
        match found.len() {
            1 => self.open(&found.remove(0)),
            0 => Err(ServiceError::new(
                ErrorCode::BadSkill,
                format!("{}: there is no SKILL.md in it", self.shown),
                "name a directory with a SKILL.md, an archive of one, or a repository",
            )),
            count => {
                let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
                found.truncate(NAMED);
                Err(ServiceError::new(
                    ErrorCode::BadRequest,
                    format!("{} has {count} skills: {}{more}", self.shown, found.join(", ")),
                    "name one with --path DIR, or take them with --all",
                ))
            }
        }
    }

    /// Every skill, as directories; an empty one is the top. What is in a skill's directory is that skill's.
    pub(in crate::skills) fn skills(&self) -> Result<Vec<String>, ServiceError> {
        let tree = Tree::read_at(self.directory("")?, WHERE, left_out)
            .map_err(|error| unreadable(&self.shown, &error))?;
        let files = tree.entries().iter().filter(|entry| matches!(entry.kind, Kind::File { .. }));
        let directories = files
            .filter_map(|entry| {
                let (directory, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
                MANIFEST_NAMES.contains(&name).then_some(directory)
            })
            .collect();
        let mut found: Vec<String> =
            outermost(directories, is_within).into_iter().map(str::to_owned).collect();
        found.sort_unstable();
        Ok(found)
    }

    pub(in crate::skills) fn open(&self, path: &str) -> Result<FetchedSkill, ServiceError> {
        let shown = if path.is_empty() { self.shown.clone() } else { format!("{}#{path}", self.shown) };
        let tree = Tree::read_at(self.directory(path)?, TreeLimits::default(), left_out)
            .map_err(|error| unreadable(&shown, &error))?;
        let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&self.name).to_owned();
        let subdirectory = (!path.is_empty()).then(|| path.to_owned());
        let origin = match &self.came {
            Came::Directory => {
                let at = if path.is_empty() { self.base.clone() } else { self.base.join(path) };
                SkillOrigin::Directory { path: at.display().to_string() }
            }
            Came::Archive(path) => SkillOrigin::Archive { path: path.clone() },
            Came::Git { source, commit } => SkillOrigin::Git {
                url: source.url.clone(),
                subdirectory,
                revision: source.revision.clone(),
                commit: commit.clone(),
            },
        };
        Ok(FetchedSkill { tree, name, shown, origin })
    }

    /// A pinned commit was fetched, and a branch is followed still.
    fn following(mut self, revision: Option<String>) -> Self {
        if let Came::Git { source, .. } = &mut self.came {
            source.revision = revision;
        }
        self
    }

    /// Beneath the source, through no link of it.
    fn directory(&self, path: &str) -> Result<OwnedFd, ServiceError> {
        let failed = |error: rustix::io::Errno| {
            let shown = if path.is_empty() { self.shown.clone() } else { format!("{}#{path}", self.shown) };
            unreadable(&shown, &std::io::Error::from(error))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(&self.base, flags, Mode::empty()).map_err(failed)?;
        if path.is_empty() {
            return Ok(top);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(&top, path, flags, Mode::empty(), resolve).map_err(failed)
    }
}

/// Those that lie in no other. Sorted part by part, what is within a directory follows it, so that each is compared once.
fn outermost(mut directories: Vec<&str>, mut is_within: impl FnMut(&str, &str) -> bool) -> Vec<&str> {
    directories.sort_unstable_by(|one, other| one.split('/').cmp(other.split('/')));
    directories.dedup_by(|inner, outer| is_within(inner, outer));
    directories
}

/// Is a directory this one, or somewhere in it? The empty one is the top.
fn is_within(directory: &str, outer: &str) -> bool {
    outer.is_empty()
        || directory.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn unreadable(shown: &str, why: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!("{shown}: {why}"),
        "name a directory with a SKILL.md, an archive of one, or a repository",
    )
}

impl From<TreeError> for ServiceError {
    fn from(error: TreeError) -> Self {
        Self::new(
            ErrorCode::BadSkill,
            error.to_string(),
            "take out what is named, or what makes the skill so large",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_skill_is_that_skills() {
        let found = |directories: &[&'static str]| outermost(directories.to_vec(), is_within);
        assert_eq!(found(&["b/c", "a-b", "a/x/y", "a", "a.c", "a"]), ["a", "a-b", "a.c", "b/c"]);
        assert_eq!(found(&["a", "", "b/c"]), [""]);
        assert_eq!(found(&[]), [] as [&str; 0]);
    }

    #[test]
    fn each_of_many_directories_is_compared_once() {
        let names: Vec<String> = (0..20_000).map(|number| format!("skills/s{number}")).collect();
        let mut compared = 0;
        let found = outermost(names.iter().map(String::as_str).collect(), |inner, outer| {
            compared += 1;
            is_within(inner, outer)
        });
        assert_eq!((found.len(), compared), (20_000, 19_999));
    }
}
