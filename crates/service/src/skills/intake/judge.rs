//! A skill before it is taken: can it be read, what does it ask for, what is suspicious in it.

use ringfence_skills::{
    Digest, Finding, Library, Loaded, Manifest, Problem, Reference, Severity, Status, load, read_manifest,
};

use super::fetch::FetchedSkill;
use crate::error::{ErrorCode, ServiceError};
use crate::skills::grants::{Permissions, asked_by};
use crate::skills::lint::findings;

/// What is shown of it.
#[derive(Clone, Debug)]
pub(in crate::skills) struct Judged {
    pub(in crate::skills) manifest: Manifest,
    pub(in crate::skills) warnings: Vec<Problem>,
    pub(in crate::skills) asks: Permissions,
    /// What the published version does not ask for; all of it where there is none.
    pub(in crate::skills) asks_newly: Permissions,
    /// High and critical ones.
    pub(in crate::skills) findings: Vec<Finding>,
    pub(in crate::skills) notes: Vec<String>,
    /// What was judged: nothing else may be taken.
    pub(in crate::skills) digest: Digest,
}

/// Look at a skill; `reference` is where it would go.
pub(in crate::skills) fn judge(
    skill: &FetchedSkill,
    name: &str,
    before: Option<(&Library, &Reference)>,
) -> Result<Judged, ServiceError> {
    let loaded = loaded(skill, name)?;
    let mut notes = Vec::new();
    let asks = asked_by(name, &loaded.manifest).unwrap_or_else(|error| {
        notes.push(error.message);
        Permissions::default()
    });
    let had = before.and_then(|(library, reference)| published_permissions(library, reference));
    let asks_newly = asks.beyond(&had.unwrap_or_default());
    let mut found = findings(&skill.tree, Ok(&loaded));
    found.retain(|finding| finding.severity >= Severity::High);
    let digest = skill.tree.digest().map_err(|error| bad(skill, &error))?;
    let Loaded { manifest, warnings, .. } = loaded;
    Ok(Judged { manifest, warnings, asks, asks_newly, findings: found, notes, digest })
}

/// The manifest as clients read it.
pub(super) fn loaded(skill: &FetchedSkill, name: &str) -> Result<Loaded, ServiceError> {
    let (file, bytes) = read_manifest(skill.tree.root()).map_err(|error| bad(skill, &error))?;
    load(&bytes, name).map_err(|error| bad(skill, &format!("{file}: {error}")))
}

/// Critical findings are somebody's decision.
pub(in crate::skills) fn accept(judged: &Judged, shown: &str, accepted: bool) -> Result<(), ServiceError> {
    let critical: Vec<&Finding> =
        judged.findings.iter().filter(|finding| finding.severity == Severity::Critical).collect();
    let Some(first) = critical.first().filter(|_| !accepted) else { return Ok(()) };
    let more = match critical.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Err(ServiceError::new(
        ErrorCode::Findings,
        format!("{shown} was not taken: {first}{more}"),
        "read it with `ringfence skill lint SOURCE`; --accept-findings takes it all the same",
    ))
}

fn published_permissions(library: &Library, reference: &Reference) -> Option<Permissions> {
    let published = match library.status(reference).ok()? {
        Status::Published { digest } => digest,
        Status::Edited { published, .. } => published,
        Status::Unpublished { .. } => return None,
    };
    let tree = library.version(&published).ok()?;
    let (_, bytes) = read_manifest(tree.root()).ok()?;
    let loaded = load(&bytes, reference.name.as_str()).ok()?;
    asked_by(reference.name.as_str(), &loaded.manifest).ok()
}

fn bad(skill: &FetchedSkill, why: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!("{}: {why}", skill.shown),
        "correct it; `ringfence skill validate DIR` shows all that is wrong",
    )
}
