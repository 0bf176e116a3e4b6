//! What is in the library: for people, and for an agent's prompt.

use std::path::{Path, PathBuf};

use ringfence_skills::{
    Digest, Library, LibraryError, PromptEntry, Reference, Status, Stray, Unloadable, Unreadable, load,
    prompt_block,
};
use serde::Serialize;

use super::open::{existing_library, find_reference};
use crate::error::ServiceError;
use crate::places::Places;

/// How a folder compares with what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillState {
    Published,
    Edited,
    Unpublished,
    /// Something is in it that no version can have, or it can't be read.
    Unfit,
}

impl SkillState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Edited => "edited",
            Self::Unpublished => "unpublished",
            Self::Unfit => "unfit",
        }
    }
}

impl From<&Status> for SkillState {
    fn from(status: &Status) -> Self {
        match status {
            Status::Published { .. } => Self::Published,
            Status::Edited { .. } => Self::Edited,
            Status::Unpublished { .. } => Self::Unpublished,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct ListedSkill {
    pub domain: String,
    pub name: String,
    /// Null where the manifest can't be read.
    pub description: Option<String>,
    pub state: SkillState,
    /// What the folder holds; null where that can be no version.
    pub digest: Option<Digest>,
    /// Why it is unfit, or its manifest can't be read.
    pub problem: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Catalogue {
    pub skills: Vec<ListedSkill>,
    /// What lies in the library and is no skill.
    pub strays: Vec<Stray>,
    /// Domains that could not be looked into.
    pub unreadable: Vec<Unreadable>,
}

/// One skill as an agent sees it.
#[derive(Clone, Debug, Serialize)]
pub struct CatalogueEntry {
    pub name: String,
    pub description: String,
    pub location: String,
}

/// The skills for an agent's prompt.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub entries: Vec<CatalogueEntry>,
    /// `<available_skills>`.
    pub block: String,
    /// What could not be looked at.
    pub unreadable: Vec<Unreadable>,
}

/// Every skill, or those of one domain. Reads every byte, to see what was edited.
pub fn list_skills(
    places: &Places,
    library: Option<&Path>,
    domain: Option<&str>,
) -> Result<Catalogue, ServiceError> {
    let Some(library) = existing_library(places, library)? else { return Ok(Catalogue::default()) };
    let domain = domain.map(ringfence_skills::Domain::parse).transpose()?;
    let listing = library.list()?;
    let wanted =
        listing.skills.into_iter().filter(|one| domain.as_ref().is_none_or(|domain| one.domain == *domain));
    let skills =
        wanted.filter_map(|reference| listed(&library, reference).transpose()).collect::<Result<_, _>>()?;
    Ok(Catalogue { skills, strays: listing.strays, unreadable: listing.unreadable })
}

/// The skills after `after` (`domain/name`), of those domains that `sees` lets through: only these are read. And where to
/// go on, if there are more.
pub fn page_of_skills(
    places: &Places,
    sees: &dyn Fn(&str) -> bool,
    after: Option<&str>,
    most: usize,
) -> Result<(Vec<ListedSkill>, Option<String>), ServiceError> {
    let Some(library) = existing_library(places, None)? else { return Ok((Vec::new(), None)) };
    let mut wanted: Vec<(String, Reference)> = library
        .list()?
        .skills
        .into_iter()
        .filter(|one| sees(one.domain.as_str()))
        .map(|one| (one.to_string(), one))
        .filter(|(key, _)| after.is_none_or(|after| key.as_str() > after))
        .collect();
    wanted.sort_by(|one, other| one.0.cmp(&other.0));
    let more = wanted.len() > most;
    wanted.truncate(most);
    let next = wanted.last().filter(|_| more).map(|(key, _)| key.clone());
    let rows = wanted.into_iter().filter_map(|(_, one)| listed(&library, one).transpose());
    Ok((rows.collect::<Result<_, _>>()?, next))
}

/// What an agent is told of these skills, or of all that can be read. Locations are those of a sandbox, or of the host.
pub fn catalogue(
    places: &Places,
    library: Option<&Path>,
    skills: &[String],
    on_host: bool,
) -> Result<Prompt, ServiceError> {
    let mut entries = Vec::new();
    let mut unreadable = Vec::new();
    if skills.is_empty() {
        if let Some(library) = existing_library(places, library)? {
            let listing = library.list()?;
            unreadable = listing.unreadable;
            for reference in listing.skills {
                match entry(&library, &reference, on_host) {
                    Ok(Ok(entry)) => entries.push(entry),
                    Ok(Err(_)) | Err(LibraryError::NotFound(_) | LibraryError::NoManifest(_)) => {}
                    Err(error) => unreadable.push(error.unreadable(&reference)?),
                }
            }
        }
    } else {
        for skill in skills {
            let (library, reference) = find_reference(places, library, skill)?;
            entries.push(entry(&library, &reference, on_host)?.map_err(|error| {
                ServiceError::new(
                    crate::ErrorCode::BadSkill,
                    format!("{reference}: {error}"),
                    "correct its SKILL.md; `ringfence skill validate` shows what is wrong",
                )
            })?);
        }
    }
    let borrowed: Vec<PromptEntry<'_>> = entries
        .iter()
        .map(|entry| PromptEntry {
            name: &entry.name,
            description: &entry.description,
            location: &entry.location,
        })
        .collect();
    let block = prompt_block(&borrowed);
    Ok(Prompt { entries, block, unreadable })
}

fn entry(
    library: &Library,
    reference: &Reference,
    on_host: bool,
) -> Result<Result<CatalogueEntry, Unloadable>, LibraryError> {
    let bytes = library.manifest_bytes(reference)?;
    let top = if on_host { library.path().to_path_buf() } else { PathBuf::from("/skills") };
    let folder = top.join(reference.path());
    Ok(load(&bytes, reference.name.as_str()).map(|loaded| CatalogueEntry {
        // By the name that it can be run with.
        name: reference.name.to_string(),
        description: loaded.manifest.description,
        location: folder.join("SKILL.md").display().to_string(),
    }))
}

/// Nothing if it was removed since it was listed.
fn listed(library: &Library, reference: Reference) -> Result<Option<ListedSkill>, LibraryError> {
    let (state, digest, mut problem) = match library.status(&reference) {
        Ok(status) => (SkillState::from(&status), Some(status.digest().clone()), None),
        Err(LibraryError::NotFound(_)) => return Ok(None),
        Err(LibraryError::Unfit { why, .. }) => (SkillState::Unfit, None, Some(why)),
        Err(error @ (LibraryError::Io { .. } | LibraryError::Tree { .. } | LibraryError::Restless(_))) => {
            (SkillState::Unfit, None, Some(error.to_string()))
        }
        Err(error) => return Err(error),
    };
    let description = match library.manifest(&reference) {
        Ok(Ok(loaded)) => Some(loaded.manifest.description),
        Ok(Err(error)) => {
            problem.get_or_insert(error.to_string());
            None
        }
        Err(LibraryError::NotFound(_)) => return Ok(None),
        Err(error) => {
            problem.get_or_insert(error.to_string());
            None
        }
    };
    let Reference { domain, name } = reference;
    Ok(Some(ListedSkill { domain: domain.into(), name: name.into(), description, state, digest, problem }))
}
