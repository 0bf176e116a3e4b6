//! One file of a skill, as it is.

use std::io::Read;

use ringfence_skills::{Kind, LibraryError, MANIFEST_NAMES, Tree};

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::skills::source::SkillReference;
use crate::skills::subject::{First, subject};

/// For people and models to read, not to copy data with.
const MOST: u64 = 64 << 20;

/// A file of a skill; without one, its manifest.
pub fn read_skill_file(
    places: &Places,
    reference: &SkillReference,
    file: Option<&str>,
) -> Result<Vec<u8>, ServiceError> {
    let subject = subject(places, reference, First::Library)?;
    if let Some((library, reference)) = &subject.in_library {
        let read = |path: &str| library.read(reference, path, MOST);
        return match file {
            Some(path) => read(path).map_err(|error| missing(&subject.name, path, &error)),
            None => Ok(library.manifest_bytes(reference)?),
        };
    }
    let tree = subject.tree()?;
    let path = match file {
        Some(path) => path,
        None => MANIFEST_NAMES
            .into_iter()
            .find(|name| is_file(&tree, name))
            .ok_or_else(|| LibraryError::NoManifest(subject.shown.clone()))?,
    };
    if !is_file(&tree, path) {
        return Err(no_file(&subject.name, path));
    }
    let mut bytes = Vec::new();
    let mut file = tree.open(path).map_err(|error| bad(error.to_string()))?.take(MOST + 1);
    file.read_to_end(&mut bytes).map_err(|error| bad(format!("{path}: {error}")))?;
    if bytes.len() as u64 > MOST {
        return Err(bad(format!("{path}: more than {MOST} bytes")));
    }
    Ok(bytes)
}

fn is_file(tree: &Tree, path: &str) -> bool {
    tree.entries().iter().any(|entry| entry.path == path && matches!(entry.kind, Kind::File { .. }))
}

fn missing(skill: &str, path: &str, error: &LibraryError) -> ServiceError {
    match error {
        // A path that leads out of the skill is a file that it does not have.
        LibraryError::Io { source, .. }
            if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::CrossesDevices) =>
        {
            no_file(skill, path)
        }
        other => bad(other.to_string()),
    }
}

fn no_file(skill: &str, path: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!("{skill} has no file {path}"),
        "`ringfence skill show SKILL` lists its files",
    )
}

fn bad(message: String) -> ServiceError {
    ServiceError::new(ErrorCode::BadSkill, message, "`ringfence skill show SKILL` lists its files")
}
