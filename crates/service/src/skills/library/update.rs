//! What is newer where skills came from, and taking it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_skills::{Digest, Library, LibraryError, Reference, Replace, SkillOrigin, Status, Unreadable};
use serde::Serialize;

use super::open::existing_library;
use super::revise::EditsOf;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::skills::intake::{
    AddedSkill, Fetched, accept, fetch_origin, judge, subdirectory as stored_subdirectory, take,
};

#[derive(Clone, Debug, Default, Serialize)]
pub struct OutdatedReport {
    pub outdated: Vec<OutdatedSkill>,
    pub unreachable: Vec<Unreachable>,
    /// What of the library could not be looked at.
    pub unreadable: Vec<Unreadable>,
}

/// What an update came to.
#[derive(Clone, Debug, Default)]
pub struct UpdateReport {
    pub added: Vec<AddedSkill>,
    pub unreachable: Vec<Unreachable>,
    /// What is newer and was not taken; only if no skill was named, else that is an error.
    pub refused: Vec<(String, ServiceError)>,
    /// What of the library could not be looked at.
    pub unreadable: Vec<Unreadable>,
}

#[derive(Clone, Debug, Serialize)]
pub struct OutdatedSkill {
    pub skill: String,
    pub origin: SkillOrigin,
    pub published: Digest,
    pub latest: Digest,
    /// The folder has an edit, which an update would overwrite.
    pub edited: bool,
}

/// A skill whose origin can't be looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Unreachable {
    pub skill: String,
    pub why: String,
}

#[derive(Clone, Debug, Default)]
pub struct UpdateSpec {
    /// None: every skill.
    pub skills: Vec<String>,
    pub edits: EditsOf,
    pub accept_findings: bool,
    pub library: Option<PathBuf>,
}

/// Look at where every skill came from. Fetches repositories; changes nothing.
pub fn outdated_skills(places: &Places, library: Option<&Path>) -> Result<OutdatedReport, ServiceError> {
    let mut report = OutdatedReport::default();
    let Some(library) = existing_library(places, library)? else { return Ok(report) };
    let mut origins = Origins::new(places);
    let listing = library.list()?;
    report.unreadable = listing.unreadable;
    for reference in listing.skills {
        let state = match published(&library, &reference) {
            Ok(Some(state)) => state,
            Ok(None) => continue,
            Err(error) => {
                report.unreadable.push(error.unreadable(&reference)?);
                continue;
            }
        };
        match origins.latest(&state) {
            Ok(latest) if latest != state.digest => report.outdated.push(OutdatedSkill {
                skill: reference.to_string(),
                origin: state.origin,
                published: state.digest,
                latest,
                edited: state.edited,
            }),
            Ok(_) => {}
            Err(error) => {
                report.unreachable.push(Unreachable { skill: reference.to_string(), why: error.message });
            }
        }
    }
    Ok(report)
}

/// Take the newest version of these skills, or of all. What is as new already is not in the report. Of all, one that is
/// refused stops no other.
pub fn update_skills(places: &Places, spec: &UpdateSpec) -> Result<UpdateReport, ServiceError> {
    let mut report = UpdateReport::default();
    let Some(library) = existing_library(places, spec.library.as_deref())? else {
        return match spec.skills.first() {
            Some(skill) => Err(LibraryError::NotFound(skill.clone()).into()),
            None => Ok(report),
        };
    };
    let named: Result<Vec<_>, _> = spec.skills.iter().map(|skill| library.find(skill)).collect();
    let named = named?;
    let mut origins = Origins::new(places);
    for reference in &named {
        if let Some(state) = published(&library, reference)? {
            match origins.get(&state) {
                Ok(newest) => report.added.extend(take_newest(&library, reference, &state, newest, spec)?),
                Err(error) => report.unreachable(reference, error),
            }
        }
    }
    if !named.is_empty() {
        return Ok(report);
    }
    let listing = library.list()?;
    report.unreadable = listing.unreadable;
    for reference in listing.skills {
        match published(&library, &reference) {
            Ok(Some(state)) => match origins.get(&state) {
                Ok(newest) => match take_newest(&library, &reference, &state, newest, spec) {
                    Ok(taken) => report.added.extend(taken),
                    Err(error) => report.refused.push((reference.to_string(), error)),
                },
                Err(error) => report.unreachable(&reference, error),
            },
            Ok(None) => {}
            Err(error) => report.unreadable.push(error.unreadable(&reference)?),
        }
    }
    Ok(report)
}

impl UpdateReport {
    fn unreachable(&mut self, reference: &Reference, error: ServiceError) {
        self.unreachable.push(Unreachable { skill: reference.to_string(), why: error.message });
    }
}

/// Nothing where the library has it already.
fn take_newest(
    library: &Library,
    reference: &Reference,
    state: &Published,
    (fetched, subdirectory): (&Fetched, Option<String>),
    spec: &UpdateSpec,
) -> Result<Option<AddedSkill>, ServiceError> {
    let skill = fetched.skill(subdirectory.as_deref())?;
    let verdict = judge(&skill, reference.name.as_str(), Some((library, reference)))?;
    if verdict.digest == state.digest {
        return Ok(None);
    }
    accept(&verdict, &reference.to_string(), spec.accept_findings)?;
    take(library, &skill, reference.clone(), Replace::Yes(spec.edits.into()), verdict).map(Some)
}

struct Published {
    origin: SkillOrigin,
    /// Said by this user, so that a path in it is one that they have named.
    own: bool,
    digest: Digest,
    edited: bool,
}

/// Nothing for what was never published, came from nowhere, or is gone.
fn published(library: &Library, reference: &Reference) -> Result<Option<Published>, LibraryError> {
    let (digest, edited) = match library.status(reference) {
        Ok(Status::Published { digest }) => (digest, false),
        Ok(Status::Edited { published, .. }) => (published, true),
        Ok(Status::Unpublished { .. }) | Err(LibraryError::NotFound(_) | LibraryError::Unfit { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let origin = library.origin(reference)?.filter(|origin| *origin != SkillOrigin::Here);
    let own = library.is_own_record(reference)?;
    Ok(origin.map(|origin| Published { origin, own, digest, edited }))
}

/// Each repository is fetched once, however many skills came from it.
struct Origins<'a> {
    places: &'a Places,
    repositories: BTreeMap<(String, Option<String>), Result<Fetched, ServiceError>>,
    other: Option<Fetched>,
}

impl<'a> Origins<'a> {
    fn new(places: &'a Places) -> Self {
        Self { places, repositories: BTreeMap::new(), other: None }
    }

    fn latest(&mut self, state: &Published) -> Result<Digest, ServiceError> {
        let (fetched, subdirectory) = self.get(state)?;
        Ok(fetched.skill(subdirectory.as_deref())?.tree.digest()?)
    }

    fn get(&mut self, state: &Published) -> Result<(&Fetched, Option<String>), ServiceError> {
        let origin = &state.origin;
        // Whoever writes a shared library could name any directory of whoever updates it.
        let leads_away = matches!(origin, SkillOrigin::Git { url, .. } if url.starts_with("https://"));
        if !state.own && !leads_away {
            return Err(ServiceError::new(
                ErrorCode::FetchFailed,
                format!("it came from a place of another user's machine or home: {}", shown_place(origin)),
                "look at that place, then `ringfence skill add PLACE --replace`",
            ));
        }
        let SkillOrigin::Git { url, revision, subdirectory, .. } = origin else {
            let (fetched, subdirectory) = fetch_origin(self.places, origin, false)?;
            return Ok((self.other.insert(fetched), subdirectory));
        };
        let subdirectory = stored_subdirectory(subdirectory.as_deref())?;
        let places = self.places;
        let fetched = self
            .repositories
            .entry((url.clone(), revision.clone()))
            .or_insert_with(|| fetch_origin(places, origin, false).map(|(fetched, _)| fetched));
        match fetched {
            Ok(fetched) => Ok((fetched, subdirectory)),
            Err(error) => Err(error.clone()),
        }
    }
}

fn shown_place(origin: &SkillOrigin) -> String {
    match origin {
        SkillOrigin::Here => "the library".to_owned(),
        SkillOrigin::Directory { path } | SkillOrigin::Archive { path } => path.clone(),
        SkillOrigin::Git { url, .. } => url.clone(),
    }
}
