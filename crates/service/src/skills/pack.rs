//! A skill as an archive: the same skill, the same bytes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ringfence_images::{PackedImage, pack_image};
use ringfence_skills::{
    ArchiveError, Digest, Format, Tree, TreeLimits, left_out, load, pack, pack_file, read_manifest,
};
use serde::Serialize;

use super::source::SkillReference;
use super::subject::{First, subject};
use crate::error::{ErrorCode, ServiceError};
use crate::images::{ImageBuild, build_image};
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

/// A skill and an image in one archive: what `image build --from` takes.
#[derive(Clone, Debug, Serialize)]
pub struct PackedWithImage {
    pub path: String,
    #[serde(flatten)]
    pub packed: PackedImage,
    pub archive_bytes: u64,
}

/// With an image that is there, or with one of the host (`host:python3,git`) that gets the skill's name: its root filesystem, and the skill in it.
pub fn pack_skill_with_image(
    places: &Places,
    reference: &SkillReference,
    image: &str,
    out: Option<&Path>,
) -> Result<PackedWithImage, ServiceError> {
    let subject = subject(places, reference, First::Path)?;
    let broken = |why: &dyn std::fmt::Display| {
        ServiceError::new(
            ErrorCode::BadSkill,
            format!("{}: {why}", subject.shown),
            "correct it; `ringfence skill validate DIR` shows all that is wrong",
        )
    };
    let (file, bytes) = read_manifest(subject.open()?).map_err(|error| broken(&error))?;
    load(&bytes, &subject.name).map_err(|error| broken(&format!("{file}: {error}")))?;
    let default = PathBuf::from(format!("{}.tar.zst", subject.name));
    let out = places.absolute(out.unwrap_or(&default), &places.current);
    if !out.to_string_lossy().ends_with(".tar.zst") {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            format!("{} is to be a tar that zstd compressed", out.display()),
            "end it in .tar.zst",
        ));
    }
    // The same tree as the archive of the skill alone has: what can't be a skill is refused by it.
    let tree =
        Tree::read(&subject.directory, TreeLimits::default(), left_out).map_err(|error| broken(&error))?;
    let memory = rustix::fs::memfd_create("skill", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| broken(&io::Error::from(error)))?;
    let mut own = File::from(memory);
    let version = pack(&tree, &subject.name, Format::Tar, &mut own).map_err(|error| broken(&error))?;
    let image = match image.strip_prefix("host:") {
        Some(programs) => {
            let with = programs.split(',').map(str::to_owned).collect();
            let spec = ImageBuild { name: subject.name.clone(), from: "host".to_owned(), with };
            build_image(places, spec, &mut |_, _| std::ops::ControlFlow::Continue(()))?.record.name
        }
        None => image.to_owned(),
    };
    let store = crate::images::open(places)?;
    let beside = out.with_extension(format!("new-{}", std::process::id()));
    let problem = |error: &io::Error| ServiceError::state("write", &beside, error);
    let written = File::create_new(&beside).map_err(|error| problem(&error)).and_then(|mut file| {
        let packed = pack_image(&store, &image, &own, &subject.name, &version.digest.to_string(), &mut file)?;
        let archive_bytes = file.metadata().map_err(|error| problem(&error))?.len();
        fs::rename(&beside, &out).map_err(|error| problem(&error))?;
        Ok(PackedWithImage { path: out.display().to_string(), packed, archive_bytes })
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn ending(format: Format) -> &'static str {
    match format {
        Format::Zip => "skill",
        Format::Tar => "tar",
        Format::TarGz => "tar.gz",
        Format::TarZst => "tar.zst",
    }
}
