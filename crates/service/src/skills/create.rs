//! A new skill to start from, in a directory of its own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringfence_skills::{Language, TemplateFile, template};
use serde::Serialize;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

#[derive(Clone, Debug)]
pub struct NewSkill {
    pub name: String,
    pub description: Option<String>,
    pub language: Language,
    /// Where its directory is made; here without one.
    pub parent: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub struct CreatedSkill {
    pub path: String,
    pub files: Vec<&'static str>,
}

/// Make `PARENT/NAME` with a manifest and a script that works.
pub fn new_skill(places: &Places, new: &NewSkill) -> Result<CreatedSkill, ServiceError> {
    let description = new.description.clone().unwrap_or_else(|| {
        format!("Counts the lines and words of a text file. Use it when somebody asks for {}.", new.name)
    });
    let files = template(new.language, &new.name, &description)?;
    let parent = places.absolute(new.parent.as_deref().unwrap_or(Path::new(".")), &places.current);
    let path = parent.join(&new.name);
    let failed = |error: &io::Error| {
        let next = match error.kind() {
            io::ErrorKind::AlreadyExists => "give it another name, or another directory with --dir",
            _ => "name a directory that you can write with --dir",
        };
        ServiceError::new(ErrorCode::BadRequest, format!("cannot make {}: {error}", path.display()), next)
    };
    fs::create_dir(&path).map_err(|error| failed(&error))?;
    if let Err(error) = write(&path, &files) {
        // It is ours: it was not there before.
        let _ = fs::remove_dir_all(&path);
        return Err(failed(&error));
    }
    Ok(CreatedSkill { path: path.display().to_string(), files: files.iter().map(|file| file.path).collect() })
}

fn write(path: &Path, files: &[TemplateFile]) -> io::Result<()> {
    for file in files {
        let at = path.join(file.path);
        if let Some(parent) = at.parent() {
            fs::create_dir_all(parent)?;
        }
        let mode = if file.executable { 0o755 } else { 0o644 };
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(at)?
            .write_all(file.content.as_bytes())?;
    }
    Ok(())
}
