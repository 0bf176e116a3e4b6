//! Opening the library, and its errors in the words of the command line.

use std::path::Path;

use ringfence_skills::{Create, DEFAULT_DOMAIN, Domain, Library, LibraryError, Reference, Wanted};

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::skills::settings::library_root;

/// The library, made if it is not there.
pub(in crate::skills) fn open_library(places: &Places, flag: Option<&Path>) -> Result<Library, ServiceError> {
    let root = library_root(places, flag)?;
    if root.starts_with(places.state.path()) {
        places.state.ensure()?;
    }
    Ok(Library::open(&root, Create::Yes)?)
}

/// The library, if there is one. One that somebody named and that is not there is an error.
pub(in crate::skills) fn existing_library(
    places: &Places,
    flag: Option<&Path>,
) -> Result<Option<Library>, ServiceError> {
    let root = library_root(places, flag)?;
    match Library::open(&root, Create::No) {
        Err(LibraryError::NoLibrary(_)) if root.starts_with(places.state.path()) => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// The full name, `domain/name`, of a skill of the library. A path is none, whatever lies there: for names that come from
/// somebody who may not see this machine's files.
pub fn library_skill(places: &Places, skill: &str) -> Result<String, ServiceError> {
    let (_, reference) = find_reference(places, None, skill)?;
    Ok(reference.to_string())
}

/// The library and the skill of it that a person means.
pub(in crate::skills) fn find_reference(
    places: &Places,
    flag: Option<&Path>,
    skill: &str,
) -> Result<(Library, Reference), ServiceError> {
    let library = existing_library(places, flag)?;
    let library = library.ok_or_else(|| LibraryError::NotFound(skill.escape_debug().to_string()))?;
    let reference = library.find(skill)?;
    Ok((library, reference))
}

/// The same for one that may have been removed: its history is still there.
pub(super) fn find_remembered(
    places: &Places,
    flag: Option<&Path>,
    skill: &str,
) -> Result<(Library, Reference), ServiceError> {
    let library = existing_library(places, flag)?;
    let library = library.ok_or_else(|| LibraryError::NotFound(skill.escape_debug().to_string()))?;
    match library.find(skill) {
        Err(LibraryError::NotFound(_) | LibraryError::NotSeen { .. }) => {
            let Wanted { domain, name } = Wanted::parse(skill)?;
            let domain = domain.map_or_else(|| Domain::parse(DEFAULT_DOMAIN), Ok)?;
            Ok((library, Reference { domain, name }))
        }
        found => Ok((library, found?)),
    }
}

impl From<LibraryError> for ServiceError {
    fn from(error: LibraryError) -> Self {
        use LibraryError as E;
        let (code, hint) = match &error {
            E::Io { .. } | E::Busy(_) => {
                (ErrorCode::State, "look at the directory and its permissions, then try again")
            }
            E::Format { .. } => {
                (ErrorCode::State, "use the version of ringfence that wrote it, or another directory")
            }
            E::Tree { .. } | E::Unfit { .. } => {
                (ErrorCode::BadSkill, "take out what is named, or what makes the skill so large")
            }
            E::NoLibrary(_) => {
                (ErrorCode::BadSkill, "name a library's directory; `ringfence skill add SOURCE` makes one")
            }
            E::Domain(_) => (ErrorCode::BadRequest, "write it like `office` or `team-7`"),
            E::Name { .. } => {
                (ErrorCode::BadRequest, "write it like `pdf-tools`; --name gives an added skill another name")
            }
            E::NotFound(_) => (
                ErrorCode::BadSkill,
                "`ringfence skill list` shows what there is, `ringfence skill search WORDS` finds it",
            ),
            E::NotSeen { .. } => (
                ErrorCode::BadSkill,
                "ask whose folder that is to let you read it; `ringfence skill list` shows what there is",
            ),
            E::Ambiguous { .. } => (ErrorCode::BadSkill, "name its domain too: DOMAIN/SKILL"),
            E::Exists(_) => (
                ErrorCode::BadRequest,
                "--replace makes this its new version; --name NAME or --domain DOMAIN keeps both",
            ),
            E::Collides { .. } => (ErrorCode::BadRequest, "give it another name with --name"),
            E::Edited(_) => (
                ErrorCode::BadRequest,
                "`ringfence skill publish SKILL` makes the edit a version; --keep-edits does that first, --discard-edits throws it away",
            ),
            E::Unpublished(_) => (ErrorCode::BadRequest, "`ringfence skill publish SKILL`"),
            E::NoManifest(_) => (
                ErrorCode::BadSkill,
                "name a directory with a SKILL.md; `ringfence skill new NAME` makes one",
            ),
            E::Unexpected { .. } => (
                ErrorCode::Frozen,
                "get the version that the lock file pins; without --frozen, and with a new `ringfence skill lock`, this one is taken",
            ),
            E::NotLocked(_) | E::Frozen(_) => (
                ErrorCode::Frozen,
                "add it without --frozen and write the lock file anew: `ringfence skill lock`",
            ),
            E::NoVersion { .. } => (
                ErrorCode::BadRequest,
                "`ringfence skill history SKILL` shows its versions; at least six digits of one are needed",
            ),
            E::Damaged { .. } => (
                ErrorCode::State,
                "add the skill again from where it came from: that mends it; `ringfence skill verify` shows what else is wrong",
            ),
            E::LockFile(_) => (ErrorCode::BadRequest, "write it anew: `ringfence skill lock`"),
            E::Restless(_) => (ErrorCode::State, "try again when nobody writes to it"),
            E::Template(_) => {
                (ErrorCode::BadRequest, "correct it: `ringfence skill new word-count --description TEXT`")
            }
        };
        Self::new(code, one_line(&error.to_string()), hint)
    }
}

/// A parser's message may have several lines.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
