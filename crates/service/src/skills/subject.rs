//! A skill that is looked at and not run: a directory, an archive, or a name in the library. Its manifest may be broken.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_skills::{
    Library, LibraryError, MANIFEST_NAMES, Reference, Tree, TreeLimits, UnpackLimits, left_out, unpack,
};
use rustix::fs::{Mode, OFlags};

use super::library::{existing_library, find_reference};
use super::scratch::Scratch;
use super::source::SkillReference;
use crate::error::{ErrorCode, ServiceError};
use crate::files::open_regular;
use crate::places::Places;

/// A directory that should be a skill, held open.
#[derive(Debug)]
pub(crate) struct Subject {
    /// As a person named it.
    pub(crate) shown: String,
    /// Of its directory.
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) in_library: Option<(Library, Reference)>,
    _unpacked: Option<Scratch>,
}

impl Subject {
    /// What counts for its version.
    pub(crate) fn tree(&self) -> Result<Tree, ServiceError> {
        if let Some((library, reference)) = &self.in_library {
            return Ok(library.tree(reference)?);
        }
        Tree::read(&self.directory, TreeLimits::default(), left_out)
            .map_err(|error| unreadable(&self.shown, &error))
    }

    pub(crate) fn open(&self) -> Result<OwnedFd, ServiceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.directory, flags, Mode::empty())
            .map_err(|error| unreadable(&self.shown, &error))
    }
}

/// What a word means that is both a path here and a name in the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Library,
    Path,
}

/// A path, or a name in the library. `SKILL.md` stands for its directory.
pub(crate) fn subject(
    places: &Places,
    reference: &SkillReference,
    first: First,
) -> Result<Subject, ServiceError> {
    let text = reference.skill.to_string_lossy();
    let path = places.absolute(Path::new(&reference.skill), &places.current);
    let looks_like_a_path = text.is_empty() || text.starts_with(['/', '.', '~']);
    let in_the_way = first == First::Path && path.exists();
    if !looks_like_a_path
        && !in_the_way
        && let Some(found) = in_library(places, reference, &text)?
    {
        return Ok(found);
    }
    match fs::metadata(&path) {
        Ok(facts) if facts.is_dir() => directory(&text, &path),
        Ok(facts)
            if facts.is_file()
                && path.file_name().is_some_and(|name| MANIFEST_NAMES.iter().any(|one| name == *one)) =>
        {
            directory(&text, path.parent().unwrap_or(Path::new("/")))
        }
        Ok(facts) if facts.is_file() => archive(places, &text, &path),
        Ok(_) => Err(unreadable(&text, &"neither a directory nor an archive")),
        Err(_) if !looks_like_a_path => {
            // The library's own words for what is not there.
            find_reference(places, reference.library.as_deref(), &text)
                .map(|_| ())
                .and(Err(unreadable(&text, &"it came and went")))
        }
        Err(error) => Err(unreadable(&text, &error)),
    }
}

fn in_library(
    places: &Places,
    reference: &SkillReference,
    text: &str,
) -> Result<Option<Subject>, ServiceError> {
    let Some(library) = existing_library(places, reference.library.as_deref())? else { return Ok(None) };
    let found = match library.find(text) {
        Ok(found) => found,
        Err(LibraryError::NotFound(_) | LibraryError::Name { .. } | LibraryError::Domain(_)) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(Subject {
        shown: found.to_string(),
        name: found.name.to_string(),
        directory: library.folder_path(&found),
        in_library: Some((library, found)),
        _unpacked: None,
    }))
}

fn directory(shown: &str, path: &Path) -> Result<Subject, ServiceError> {
    let real = path.canonicalize().map_err(|error| unreadable(shown, &error))?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Subject { shown: shown.to_owned(), name, directory: real, in_library: None, _unpacked: None })
}

fn archive(places: &Places, shown: &str, path: &Path) -> Result<Subject, ServiceError> {
    let (scratch, name) = unpacked(places, shown, path)?;
    Ok(Subject {
        shown: shown.to_owned(),
        name,
        directory: scratch.path.clone(),
        in_library: None,
        _unpacked: Some(scratch),
    })
}

/// An archive in a directory of ours, and the name that it gives the skill.
pub(crate) fn unpacked(places: &Places, shown: &str, path: &Path) -> Result<(Scratch, String), ServiceError> {
    let refused = |why: &dyn std::fmt::Display| {
        ServiceError::new(
            ErrorCode::BadSkill,
            format!("{shown}: {why}"),
            "ask for another archive of the skill: nothing of this one was kept",
        )
    };
    let file = open_regular(path).map_err(|error| refused(&error))?;
    let scratch = Scratch::new(&places.state)?;
    let into = File::open(&scratch.path).map_err(|error| refused(&error))?;
    let unpacked = unpack(&file, into.as_fd(), &UnpackLimits::default()).map_err(|error| refused(&error))?;
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = [".skill", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"]
        .into_iter()
        .filter_map(|ending| file_name.strip_suffix(ending))
        .min_by_key(|stem| stem.len())
        .unwrap_or(&file_name);
    let name = unpacked.name.unwrap_or_else(|| stem.to_owned());
    Ok((scratch, name))
}

fn unreadable(shown: &str, why: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!("{}: {why}", if shown.is_empty() { "no path" } else { shown }),
        "name a directory with a SKILL.md, an archive of one, or a skill of the library",
    )
}
