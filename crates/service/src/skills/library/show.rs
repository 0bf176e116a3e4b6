//! Everything that is known of one skill, for people.

use ringfence_skills::{
    Certainty, Digest, Kind, Loaded, NeededHost, Problem, SkillOrigin, load, needs, properties, read_manifest,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::catalogue::SkillState;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::skills::grants::{Permissions, asked_by};
use crate::skills::source::SkillReference;
use crate::skills::subject::{First, subject};

#[derive(Clone, Debug, Serialize)]
pub struct ShownSkill {
    /// Null for a skill that is in no library.
    pub domain: Option<String>,
    pub name: String,
    pub path: String,
    pub state: Option<SkillState>,
    /// What the folder holds.
    pub digest: Option<Digest>,
    /// What was published, where that is something else.
    pub published: Option<Digest>,
    pub origin: Option<SkillOrigin>,
    /// As `skill properties` prints it.
    pub properties: Value,
    /// Every field of the manifest as it was written.
    #[serde(skip)]
    pub frontmatter: Map<String, Value>,
    /// What had to be overlooked or repaired in the manifest.
    pub warnings: Vec<Problem>,
    /// What it asks for beyond a profile. Nothing is granted by being here.
    pub asks: Permissions,
    /// Hosts in the URLs of its scripts that it does not ask for. Nothing is granted by being here.
    pub inferred_hosts: Vec<NeededHost>,
    pub files: Vec<ShownFile>,
    /// Why it can be no version, or asks in a way that can't be read.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ShownFile {
    pub path: String,
    #[serde(flatten)]
    pub kind: Kind,
}

pub fn show_skill(places: &Places, reference: &SkillReference) -> Result<ShownSkill, ServiceError> {
    let subject = subject(places, reference, First::Library)?;
    let (name, bytes) = read_manifest(subject.open()?).map_err(|error| broken(&subject.shown, &error))?;
    let Loaded { manifest, warnings, frontmatter, .. } =
        load(&bytes, &subject.name).map_err(|error| broken(&format!("{}/{name}", subject.shown), &error))?;
    let tree = subject.tree()?;
    let mut problems = Vec::new();
    let asks = asked_by(&subject.name, &manifest).unwrap_or_else(|error| {
        problems.push(error.message);
        Permissions::default()
    });
    let digest = tree.digest().map_err(|error| problems.push(error.to_string())).ok();
    let mut shown = ShownSkill {
        domain: None,
        name: subject.name.clone(),
        path: subject.directory.display().to_string(),
        state: None,
        digest,
        published: None,
        origin: None,
        properties: properties(&manifest),
        frontmatter,
        warnings,
        asks,
        inferred_hosts: needs(&tree, &manifest, None)
            .hosts
            .into_iter()
            .filter(|host| host.certainty != Certainty::Declared)
            .collect(),
        files: tree
            .entries()
            .iter()
            .filter(|entry| entry.kind != Kind::Directory)
            .map(|entry| ShownFile { path: entry.path.clone(), kind: entry.kind.clone() })
            .collect(),
        problems,
    };
    if let Some((library, reference)) = &subject.in_library {
        shown.domain = Some(reference.domain.to_string());
        match library.status(reference) {
            Ok(status) => {
                shown.state = Some(SkillState::from(&status));
                if let ringfence_skills::Status::Edited { published, .. } = status {
                    shown.published = Some(published);
                }
            }
            Err(_) => shown.state = Some(SkillState::Unfit),
        }
        shown.origin = library.origin(reference)?;
    }
    Ok(shown)
}

fn broken(what: &str, why: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!("{what}: {why}"),
        "`ringfence skill cat SKILL` prints its manifest as it is, `ringfence skill validate` says what is wrong",
    )
}
