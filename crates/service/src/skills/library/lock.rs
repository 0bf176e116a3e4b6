//! The lock file: written from the library, read by `add --frozen`.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_skills::{LockFile, Unreadable};

use super::open::existing_library;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::state::replace_file;

/// Where it is, unless somebody says otherwise.
const NAME: &str = "skills.lock";
const MOST: u64 = 64 << 20;

/// What was locked.
#[derive(Clone, Debug)]
pub struct Locked {
    pub text: String,
    pub skills: usize,
    /// Where it was written; nothing if it was only asked for.
    pub path: Option<PathBuf>,
    /// What was not pinned, because it can't be read.
    pub unreadable: Vec<Unreadable>,
}

/// Pin these skills, or, with none named, every one. `-` as the path writes nothing; without one it is `skills.lock` here.
pub fn lock_skills(
    places: &Places,
    library: Option<&Path>,
    skills: &[String],
    out: Option<&Path>,
) -> Result<Locked, ServiceError> {
    let Some(library) = existing_library(places, library)? else {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "there is nothing to lock: the library is empty",
            "`ringfence skill add SOURCE`",
        ));
    };
    let (lock, unreadable) = if skills.is_empty() {
        library.lock_file()?
    } else {
        let wanted: Result<Vec<_>, _> = skills.iter().map(|skill| library.find(skill)).collect();
        (library.lock_file_of(&wanted?)?, Vec::new())
    };
    let text = lock.to_toml()?;
    let skills = lock.skills().len();
    if out.is_some_and(|out| out.as_os_str() == "-") {
        return Ok(Locked { text, skills, path: None, unreadable });
    }
    let path = places.absolute(out.unwrap_or(Path::new(NAME)), &places.current);
    replace_file(&path, text.as_bytes(), 0o644).map_err(|error| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("cannot write {}: {error}", path.display()),
            "name a file that you can write with -o",
        )
    })?;
    Ok(Locked { text, skills, path: Some(path), unreadable })
}

/// A lock file as somebody names it, or the one here.
pub(in crate::skills) fn read_lock_file(
    places: &Places,
    path: Option<&Path>,
) -> Result<LockFile, ServiceError> {
    let path = places.absolute(path.unwrap_or(Path::new(NAME)), &places.current);
    let unreadable = |why: &dyn std::fmt::Display| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("cannot read the lock file {}: {why}", path.display()),
            "`ringfence skill lock` writes one; --lock FILE names another",
        )
    };
    let facts = fs::metadata(&path).map_err(|error| unreadable(&error))?;
    if !facts.is_file() || facts.len() > MOST {
        return Err(unreadable(&"not a file of that kind"));
    }
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&error))?;
    Ok(LockFile::parse(&text)?)
}
