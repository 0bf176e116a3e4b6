//! A skill as an archive: the same skill, the same bytes.

use std::path::PathBuf;

use ringfence_skills::{ArchiveError, Digest, Format, load, pack_file, read_manifest};
use serde::Serialize;

use super::source::SkillReference;
use super::subject::{First, subject};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

#[derive(Clone, Debug)]
pub struct PackSpec {
    pub reference: SkillReference,
    /// Without one: the skill's name and `.skill`, or what the format asks for, here.
    pub out: Option<PathBuf>,
    /// Without one: what the file's name asks for, else a zip.
    pub format: Option<Format>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PackedSkill {
    pub path: String,
    pub format: Format,
    pub digest: Digest,
    pub files: usize,
    pub bytes: u64,
    pub archive_bytes: u64,
}

pub fn pack_skill(places: &Places, spec: &PackSpec) -> Result<PackedSkill, ServiceError> {
    let subject = subject(places, &spec.reference, First::Path)?;
    let broken = |why: &dyn std::fmt::Display| {
        ServiceError::new(
            ErrorCode::BadSkill,
            format!("{}: {why}", subject.shown),
            "correct it; `ringfence skill validate DIR` shows all that is wrong",
        )
    };
    let (file, bytes) = read_manifest(subject.open()?).map_err(|error| broken(&error))?;
    load(&bytes, &subject.name).map_err(|error| broken(&format!("{file}: {error}")))?;
    let named = spec.out.as_ref().and_then(|out| Format::of_name(&out.to_string_lossy()));
    let format = match (spec.format, named, &spec.out) {
        (Some(format), ..) | (None, Some(format), _) => format,
        (None, None, None) => Format::Zip,
        (None, None, Some(out)) => {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!("{} does not say which kind of archive it is to be", out.display()),
                "end it in .skill, .zip, .tar, .tar.gz or .tar.zst, or pass --format",
            ));
        }
    };
    let default = PathBuf::from(format!("{}.{}", subject.name, ending(format)));
    let out = places.absolute(spec.out.as_ref().unwrap_or(&default), &places.current);
    let packed = pack_file(&subject.directory, &subject.name, format, &out).map_err(|error| match error {
        ArchiveError::OutputInside(_) => ServiceError::new(
            ErrorCode::BadRequest,
            error.to_string(),
            "name a file elsewhere with -o, or call it from another directory",
        ),
        other => broken(&other),
    })?;
    Ok(PackedSkill {
        path: out.display().to_string(),
        format,
        digest: packed.digest,
        files: packed.files,
        bytes: packed.bytes,
        archive_bytes: packed.archive_bytes,
    })
}

fn ending(format: Format) -> &'static str {
    match format {
        Format::Zip => "skill",
        Format::Tar => "tar",
        Format::TarGz => "tar.gz",
        Format::TarZst => "tar.zst",
    }
}
