//! Publishing an edit, going back, removing, and the check of everything.

use std::path::Path;

use ringfence_skills::{Action, Digest, Edits, Library, Record, Reference, Verified};
use serde::Serialize;

use super::open::{existing_library, find_reference, find_remembered};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// What becomes of an edit by hand that is in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditsOf {
    #[default]
    Refuse,
    /// It becomes a version first.
    Keep,
    Discard,
}

impl From<EditsOf> for Edits {
    fn from(edits: EditsOf) -> Self {
        match edits {
            EditsOf::Refuse => Self::Refuse,
            EditsOf::Keep => Self::Keep,
            EditsOf::Discard => Self::Discard,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct PublishedSkill {
    pub skill: String,
    pub digest: Digest,
    /// It was published as it is already.
    pub unchanged: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct RemovedSkill {
    pub skill: String,
    /// What can be rolled back to.
    pub published: Option<Digest>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RolledBack {
    pub skill: String,
    pub digest: Digest,
    /// What was published before; nothing where it had been removed.
    pub from: Option<Digest>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SkillHistory {
    pub skill: String,
    /// Oldest first.
    pub records: Vec<Record>,
    /// What the folder holds, where nobody has published that.
    pub unpublished: Option<Digest>,
}

pub fn publish_skill(
    places: &Places,
    library: Option<&Path>,
    skill: &str,
) -> Result<PublishedSkill, ServiceError> {
    let (library, reference) = find_reference(places, library, skill)?;
    // What can't be read can't be used by anybody.
    if let Err(error) = library.manifest(&reference)? {
        return Err(ServiceError::new(
            ErrorCode::BadSkill,
            format!("{reference}: {error}"),
            "correct its SKILL.md; `ringfence skill validate` shows what is wrong",
        ));
    }
    let before = published(&library, &reference)?;
    let digest = library.publish(&reference)?;
    Ok(PublishedSkill { skill: reference.to_string(), unchanged: before.as_ref() == Some(&digest), digest })
}

pub fn remove_skill(
    places: &Places,
    library: Option<&Path>,
    skill: &str,
    edits: EditsOf,
) -> Result<RemovedSkill, ServiceError> {
    let (library, reference) = find_reference(places, library, skill)?;
    library.remove(&reference, edits.into())?;
    let kept = library.history(&reference)?.into_iter().rev().find_map(|record| record.digest);
    Ok(RemovedSkill { skill: reference.to_string(), published: kept })
}

/// Go back to a version, or to the one before the present one.
pub fn roll_back(
    places: &Places,
    library: Option<&Path>,
    skill: &str,
    to: Option<&str>,
    edits: EditsOf,
) -> Result<RolledBack, ServiceError> {
    let (library, reference) = find_remembered(places, library, skill)?;
    let records = library.history(&reference)?;
    let from = records.last().and_then(|record| record.digest.clone());
    let to = match to {
        Some(to) => to.to_owned(),
        None => before(&records).ok_or_else(|| {
            ServiceError::new(
                ErrorCode::BadRequest,
                format!("{reference} has no version before this one"),
                "`ringfence skill history SKILL` shows its versions",
            )
        })?,
    };
    let digest = library.rollback(&reference, &to, edits.into())?;
    Ok(RolledBack { skill: reference.to_string(), digest, from })
}

pub fn skill_history(
    places: &Places,
    library: Option<&Path>,
    skill: &str,
) -> Result<SkillHistory, ServiceError> {
    let (library, reference) = find_remembered(places, library, skill)?;
    let records = library.history(&reference)?;
    let unpublished = match library.status(&reference) {
        Ok(status) if !status.is_published() => Some(status.digest().clone()),
        _ => None,
    };
    Ok(SkillHistory { skill: reference.to_string(), records, unpublished })
}

/// A time of a history, for people.
pub fn time_of(at: u64) -> String {
    let at = i64::try_from(at).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(at).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

/// Check every byte. A library that was never made is in order.
pub fn verify_library(places: &Places, library: Option<&Path>) -> Result<Verified, ServiceError> {
    match existing_library(places, library)? {
        Some(library) => Ok(library.verify()?),
        None => Ok(Verified::default()),
    }
}

fn published(library: &Library, reference: &Reference) -> Result<Option<Digest>, ServiceError> {
    Ok(library.history(reference)?.last().and_then(|record| record.digest.clone()))
}

/// The version that stood before the present one: going back twice goes back two steps, not to and fro.
fn before(records: &[Record]) -> Option<String> {
    let mut stack: Vec<&Digest> = Vec::new();
    for record in records {
        match (&record.digest, record.action) {
            (None, _) => {}
            (Some(digest), Action::Rollback) => match stack.iter().rposition(|one| *one == digest) {
                Some(at) => stack.truncate(at + 1),
                None => stack.push(digest),
            },
            (Some(digest), _) if stack.last() != Some(&digest) => stack.push(digest),
            _ => {}
        }
    }
    let removed = records.last().is_some_and(|record| record.digest.is_none());
    let at = if removed { stack.len().checked_sub(1) } else { stack.len().checked_sub(2) };
    at.and_then(|at| stack.get(at)).map(|digest| digest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_skills::SkillOrigin;

    fn record(action: Action, digest: Option<char>) -> Record {
        let digest = digest.and_then(|letter| Digest::parse(&letter.to_string().repeat(64)));
        Record { at: 0, action, digest, origin: SkillOrigin::Here }
    }

    #[test]
    fn back_is_back_and_not_to_and_fro() {
        let first = |records: &[Record]| before(records).map(|digest| digest.chars().next().unwrap());
        let mut records = vec![record(Action::Add, Some('a'))];
        assert_eq!(first(&records), None);
        records.push(record(Action::Publish, Some('b')));
        records.push(record(Action::Add, Some('c')));
        assert_eq!(first(&records), Some('b'));
        records.push(record(Action::Rollback, Some('b')));
        assert_eq!(first(&records), Some('a'));
        records.push(record(Action::Remove, None));
        assert_eq!(first(&records), Some('b'));
    }
}
