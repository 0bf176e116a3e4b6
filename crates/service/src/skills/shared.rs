//! Skills for users of a server: those of the library, by domain and name, and archives that they send. Nobody names a path
//! of the machine, and none is told.

use std::fs;
use std::io::Cursor;

use ringfence_skills::{Domain, Format, Library, Reference, SkillName, pack};

use super::intake::{AddSpec, AddedSkill, SourceSpec, add_skills, name_of_added};
use super::library::{
    EditsOf, ShownSkill, SkillHistory, existing_library, find_reference, read_skill_file, show_skill,
    skill_history,
};
use super::lint::{LintReport, lint_skill};
use super::scratch::Scratch;
use super::settings::library_root;
use super::source::{SkillReference, domains};
use super::validate::{Strictness, Validation, validate_skill};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// An archive that somebody sent, kept for the time of one call.
#[derive(Debug)]
pub struct SkillUpload {
    scratch: Scratch,
    name: String,
}

impl SkillUpload {
    /// `name` is what it is called where it does not say so itself.
    pub fn new(places: &Places, name: Option<&str>, bytes: &[u8]) -> Result<Self, ServiceError> {
        let name = name.map(|name| SkillName::parse(name).map(|name| name.to_string())).transpose()?;
        let name = format!("{}.skill", name.as_deref().unwrap_or("skill"));
        let scratch = Scratch::new(&places.state)?;
        let path = scratch.path.join(&name);
        fs::write(&path, bytes).map_err(|error| ServiceError::state("write", &path, &error))?;
        Ok(Self { scratch, name })
    }

    fn source(&self) -> SourceSpec {
        SourceSpec { source: self.reference().skill, ..SourceSpec::default() }
    }

    fn reference(&self) -> SkillReference {
        SkillReference { skill: self.scratch.path.join(&self.name).into_os_string(), library: None }
    }

    /// Messages speak of the archive, not of where it was put.
    fn told<T>(&self, told: Result<T, ServiceError>) -> Result<T, ServiceError> {
        let path = self.scratch.path.join(&self.name).display().to_string();
        told.map_err(|mut error| {
            error.message = error.message.replace(&path, "the archive");
            error
        })
    }
}

/// Nothing relative is there.
fn nowhere(places: &Places) -> Places {
    Places { current: places.state.path().join("none"), ..places.clone() }
}

fn found(places: &Places, domain: &str, name: &str) -> Result<(Library, Reference), ServiceError> {
    let (domain, name) = (Domain::parse(domain)?, SkillName::parse(name)?);
    find_reference(places, None, &format!("{domain}/{name}"))
}

/// Whether there is such a skill; a name that can be none is not there either.
pub fn has_shared_skill(places: &Places, domain: &str, name: &str) -> Result<bool, ServiceError> {
    let (Ok(domain), Ok(name)) = (Domain::parse(domain), SkillName::parse(name)) else { return Ok(false) };
    let Some(library) = existing_library(places, None)? else { return Ok(false) };
    Ok(library.find(&format!("{domain}/{name}")).is_ok())
}

/// The domains there are.
pub fn shared_domains(places: &Places) -> Result<Vec<String>, ServiceError> {
    Ok(domains(&library_root(places, None)?))
}

fn reference(domain: &str, name: &str) -> SkillReference {
    SkillReference { skill: format!("{domain}/{name}").into(), library: None }
}

pub fn show_shared(places: &Places, domain: &str, name: &str) -> Result<ShownSkill, ServiceError> {
    found(places, domain, name)?;
    show_skill(&nowhere(places), &reference(domain, name))
}

/// A file of a skill; its manifest without one.
pub fn read_shared_file(
    places: &Places,
    domain: &str,
    name: &str,
    file: Option<&str>,
) -> Result<Vec<u8>, ServiceError> {
    found(places, domain, name)?;
    read_skill_file(&nowhere(places), &reference(domain, name), file)
}

pub fn shared_history(places: &Places, domain: &str, name: &str) -> Result<SkillHistory, ServiceError> {
    found(places, domain, name)?;
    skill_history(places, None, &format!("{domain}/{name}"))
}

/// The skill as an archive, and always the same bytes for the same skill.
pub fn pack_shared(places: &Places, domain: &str, name: &str) -> Result<Vec<u8>, ServiceError> {
    let (library, reference) = found(places, domain, name)?;
    let tree = library.tree(&reference)?;
    let mut out = Cursor::new(Vec::new());
    pack(&tree, reference.name.as_str(), Format::TarGz, &mut out).map_err(|error| {
        ServiceError::new(
            ErrorCode::BadSkill,
            format!("{reference}: {error}"),
            "ask whoever published it to correct it",
        )
    })?;
    Ok(out.into_inner())
}

pub fn validate_shared(
    places: &Places,
    domain: &str,
    name: &str,
    strictness: Strictness,
) -> Result<Validation, ServiceError> {
    let (library, reference) = found(places, domain, name)?;
    let skill = library.folder_path(&reference).into_os_string();
    let told = validate_skill(places, &SkillReference { skill, library: None }, strictness)?;
    Ok(Validation { path: reference.to_string(), ..told })
}

pub fn lint_shared(places: &Places, domain: &str, name: &str) -> Result<LintReport, ServiceError> {
    let (library, reference) = found(places, domain, name)?;
    let skill = library.folder_path(&reference).into_os_string();
    let told = lint_skill(places, &SkillReference { skill, library: None })?;
    Ok(LintReport { path: reference.to_string(), ..told })
}

pub fn validate_upload(
    places: &Places,
    upload: &SkillUpload,
    strictness: Strictness,
) -> Result<Validation, ServiceError> {
    let told = upload.told(validate_skill(places, &upload.reference(), strictness))?;
    Ok(Validation { path: "the archive".into(), ..told })
}

pub fn lint_upload(places: &Places, upload: &SkillUpload) -> Result<LintReport, ServiceError> {
    let told = upload.told(lint_skill(places, &upload.reference()))?;
    Ok(LintReport { path: "the archive".into(), ..told })
}

/// What it will be called in the library: `named`, or what the archive says.
pub fn name_upload(
    places: &Places,
    upload: &SkillUpload,
    named: Option<&str>,
) -> Result<String, ServiceError> {
    Ok(upload.told(name_of_added(places, &upload.source(), named))?.to_string())
}

/// Put an archive into the library as one skill, or as a new version of one where `replace` allows that.
pub fn add_upload(
    places: &Places,
    upload: &SkillUpload,
    domain: &str,
    name: Option<String>,
    replace: bool,
    accept_findings: bool,
) -> Result<AddedSkill, ServiceError> {
    let spec = AddSpec {
        source: Some(upload.source()),
        domain: Some(Domain::parse(domain)?.to_string()),
        name,
        replace,
        edits: EditsOf::Keep,
        accept_findings,
        ..AddSpec::default()
    };
    let added = upload.told(add_skills(places, &spec))?.added.into_iter().next();
    added.ok_or_else(|| {
        ServiceError::new(ErrorCode::BadSkill, "there is no skill in the archive", "send one with a SKILL.md")
    })
}
