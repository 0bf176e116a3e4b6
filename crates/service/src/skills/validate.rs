//! Is a manifest valid: as the reference says (strict), or as clients would load it.

use ringfence_skills::{Level, ManifestError, Problem, load, read_manifest, validate};
use serde::Serialize;

use super::source::SkillReference;
use super::subject::{First, subject};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// The verdict of the reference validator.
    Strict,
    /// What clients do: an error is what makes a skill unusable, all else is a warning.
    Lenient,
}

#[derive(Clone, Debug, Serialize)]
pub struct Validation {
    /// As it was named.
    pub path: String,
    pub valid: bool,
    pub problems: Vec<Problem>,
}

pub fn validate_skill(
    places: &Places,
    reference: &SkillReference,
    strictness: Strictness,
) -> Result<Validation, ServiceError> {
    let subject = subject(places, reference, First::Path)?;
    let bytes = match read_manifest(subject.open()?) {
        Ok((_, bytes)) => bytes,
        Err(error @ (ManifestError::Missing | ManifestError::NotAFile { .. })) => {
            let problem = Problem {
                code: "manifest-missing",
                level: Level::Error,
                message: error.to_string(),
                line: None,
            };
            return Ok(Validation { path: subject.shown, valid: false, problems: vec![problem] });
        }
        Err(error) => {
            return Err(ServiceError::new(
                ErrorCode::BadSkill,
                format!("{}: {error}", subject.shown),
                "make its manifest readable",
            ));
        }
    };
    Ok(validate_manifest(&bytes, &subject.name, subject.shown, strictness))
}

/// The same for the text of a SKILL.md that is in no directory of this machine. `name` is that of its folder.
pub fn validate_manifest(bytes: &[u8], name: &str, path: String, strictness: Strictness) -> Validation {
    let problems = match strictness {
        Strictness::Strict => validate(bytes, name),
        Strictness::Lenient => match load(bytes, name) {
            Ok(loaded) => loaded.warnings,
            Err(error) => vec![error.0],
        },
    };
    let valid = problems.iter().all(|problem| problem.level != Level::Error);
    Validation { path, valid, problems }
}
