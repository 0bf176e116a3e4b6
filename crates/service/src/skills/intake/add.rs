//! Adding skills. All that is to be added is judged first: what is refused leaves the library as it was.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ringfence_skills::{
    Add, DEFAULT_DOMAIN, Digest, Domain, Edits, Finding, Library, LockFile, Problem, Reference, Replace,
    SkillName, SkillOrigin,
};
use serde::Serialize;

use super::fetch::{FetchedSkill, fetch, fetch_origin};
use super::judge::{Judged, accept, judge, loaded};
use super::source::SourceSpec;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::skills::grants::Permissions;
use crate::skills::library::{EditsOf, open_library, read_lock_file};

/// What a caller asks for.
#[derive(Clone, Debug, Default)]
pub struct AddSpec {
    /// Nothing, with `frozen`: everything that the lock file names.
    pub source: Option<SourceSpec>,
    pub domain: Option<String>,
    pub name: Option<String>,
    /// Every skill of the source.
    pub all: bool,
    /// Only what a lock file pins.
    pub frozen: bool,
    pub lock: Option<PathBuf>,
    pub replace: bool,
    pub edits: EditsOf,
    pub accept_findings: bool,
    pub library: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub struct AddReport {
    pub added: Vec<AddedSkill>,
}

#[derive(Clone, Debug, Serialize)]
pub struct AddedSkill {
    /// `domain/name`.
    pub skill: String,
    pub description: String,
    pub digest: Digest,
    /// What was published before; the same where nothing changed.
    pub previous: Option<Digest>,
    pub origin: SkillOrigin,
    /// What it asks for beyond a profile. Nothing is granted.
    pub asks: Permissions,
    /// What the version before did not ask for.
    pub asks_newly: Permissions,
    /// High and critical ones.
    pub findings: Vec<Finding>,
    pub warnings: Vec<Problem>,
    pub notes: Vec<String>,
}

pub fn add_skills(places: &Places, spec: &AddSpec) -> Result<AddReport, ServiceError> {
    let lock = if spec.frozen { Some(read_lock_file(places, spec.lock.as_deref())?) } else { None };
    match (&spec.source, &lock) {
        (Some(source), lock) => add_source(places, spec, source, lock.as_ref()),
        (None, Some(lock)) => add_locked(places, spec, lock),
        (None, None) => Err(ServiceError::new(
            ErrorCode::BadRequest,
            "there is no source to add from",
            "ringfence skill add SOURCE; with --frozen alone, what skills.lock names is added",
        )),
    }
}

/// What the one skill of a source would be called. Nothing is added.
pub(in crate::skills) fn name_of_added(
    places: &Places,
    source: &SourceSpec,
    named: Option<&str>,
) -> Result<SkillName, ServiceError> {
    let (fetched, subdirectory) = fetch(places, source)?;
    name(named, &fetched.skill(subdirectory.as_deref())?)
}

fn add_source(
    places: &Places,
    spec: &AddSpec,
    source: &SourceSpec,
    lock: Option<&LockFile>,
) -> Result<AddReport, ServiceError> {
    let domain = Domain::parse(spec.domain.as_deref().unwrap_or(DEFAULT_DOMAIN))?;
    let (fetched, subdirectory) = fetch(places, source)?;
    let skills = if spec.all {
        let below = subdirectory.as_deref().unwrap_or_default();
        let wanted =
            |path: &String| below.is_empty() || path == below || path.starts_with(&format!("{below}/"));
        fetched
            .skills()?
            .into_iter()
            .filter(wanted)
            .map(|path| fetched.open(&path))
            .collect::<Result<Vec<_>, _>>()?
    } else {
        vec![fetched.skill(subdirectory.as_deref())?]
    };
    if skills.is_empty() {
        return Err(ServiceError::new(
            ErrorCode::BadSkill,
            "there is no SKILL.md in it",
            "name a directory with skills in it, an archive of one, or a repository",
        ));
    }
    if spec.name.is_some() && skills.len() > 1 {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "one name can't be given to several skills",
            "leave --name out, or name one skill with --path",
        ));
    }
    let library = open_library(places, spec.library.as_deref())?;
    let mut judged = Vec::new();
    let mut taken = BTreeSet::new();
    for skill in skills {
        let reference = Reference { domain: domain.clone(), name: name(spec.name.as_deref(), &skill)? };
        if !taken.insert(reference.clone()) {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!("two skills of the source are called {}", reference.name),
                "add them one by one with --path and --name",
            ));
        }
        let verdict = judge(&skill, reference.name.as_str(), Some((&library, &reference)))?;
        accept(&verdict, &skill.shown, spec.accept_findings)?;
        if let Some(lock) = lock {
            frozen(lock, &reference, &verdict.digest)?;
        }
        judged.push((skill, reference, verdict));
    }
    let replace = if spec.replace || lock.is_some() { Replace::Yes(spec.edits.into()) } else { Replace::No };
    let mut added = Vec::new();
    for (skill, reference, verdict) in judged {
        added
            .push(take(&library, &skill, reference, replace, verdict).map_err(|error| after(error, &added))?);
    }
    Ok(AddReport { added })
}

/// Bring the library to what a lock file says, from where each skill came.
fn add_locked(places: &Places, spec: &AddSpec, lock: &LockFile) -> Result<AddReport, ServiceError> {
    let library = open_library(places, spec.library.as_deref())?;
    let edits: Edits = spec.edits.into();
    let mut added = Vec::new();
    for pin in lock.skills() {
        let reference = pin.reference();
        if library
            .status(&reference)
            .is_ok_and(|status| status.is_published() && *status.digest() == pin.digest)
        {
            continue;
        }
        // A version that the library has kept needs no fetching.
        if library.version(&pin.digest).is_ok()
            && library.rollback(&reference, pin.digest.as_str(), edits).is_ok()
        {
            continue;
        }
        let named = |error: ServiceError| {
            after(ServiceError { message: format!("{reference}: {}", error.message), ..error }, &added)
        };
        let (fetched, subdirectory) = fetch_origin(places, &pin.origin, true).map_err(named)?;
        let skill = fetched.skill(subdirectory.as_deref()).map_err(named)?;
        let verdict = judge(&skill, reference.name.as_str(), Some((&library, &reference))).map_err(named)?;
        frozen(lock, &reference, &verdict.digest).map_err(|error| after(error, &added))?;
        accept(&verdict, &skill.shown, spec.accept_findings).map_err(|error| after(error, &added))?;
        let taken = take(&library, &skill, reference.clone(), Replace::Yes(edits), verdict);
        added.push(taken.map_err(|error| after(error, &added))?);
    }
    library.check_frozen(lock)?;
    Ok(AddReport { added })
}

/// Put what was judged into the library.
pub(in crate::skills) fn take(
    library: &Library,
    skill: &FetchedSkill,
    reference: Reference,
    replace: Replace,
    verdict: Judged,
) -> Result<AddedSkill, ServiceError> {
    let add =
        Add { reference, replace, expected: Some(verdict.digest.clone()), origin: skill.origin.clone() };
    let done = library.add_tree(&skill.tree, &skill.shown, &add)?;
    Ok(AddedSkill {
        skill: done.reference.to_string(),
        description: verdict.manifest.description,
        digest: done.digest,
        previous: done.previous,
        origin: add.origin,
        asks: verdict.asks,
        asks_newly: verdict.asks_newly,
        findings: verdict.findings,
        warnings: verdict.warnings,
        notes: verdict.notes,
    })
}

/// The caller's name, else the manifest's, else the directory's; the nearest that a folder can have.
fn name(named: Option<&str>, skill: &FetchedSkill) -> Result<SkillName, ServiceError> {
    if let Some(name) = named {
        return Ok(SkillName::parse(name)?);
    }
    let manifest = loaded(skill, &skill.name)?.manifest;
    let found = SkillName::parse(&manifest.name)
        .ok()
        .or_else(|| SkillName::from_title(&manifest.name))
        .or_else(|| SkillName::parse(&skill.name).ok());
    found.ok_or_else(|| {
        ServiceError::new(
            ErrorCode::BadSkill,
            format!(
                "{}: neither its manifest nor its directory has a name that a skill can have",
                skill.shown
            ),
            "give it one with --name",
        )
    })
}

fn frozen(lock: &LockFile, reference: &Reference, found: &Digest) -> Result<(), ServiceError> {
    let pin = lock.pin(reference)?;
    if pin.digest == *found {
        return Ok(());
    }
    Err(ringfence_skills::LibraryError::Unexpected {
        reference: reference.clone(),
        expected: pin.digest.clone(),
        found: found.clone(),
    }
    .into())
}

/// Some were added before one failed: say so.
fn after(error: ServiceError, added: &[AddedSkill]) -> ServiceError {
    if added.is_empty() {
        return error;
    }
    let names: Vec<&str> = added.iter().map(|one| one.skill.as_str()).collect();
    ServiceError { message: format!("{}; added before that: {}", error.message, names.join(", ")), ..error }
}
