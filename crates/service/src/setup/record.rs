//! What a file held before Ringfence changed it, in the state directory, for its user alone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::state::{StateDir, replace_file};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) client: String,
    pub(super) path: PathBuf,
    /// `None`: there was no such file.
    pub(super) before: Option<String>,
    pub(super) after: String,
    /// The directories that were made for it, deepest first.
    #[serde(default)]
    pub(super) made: Vec<PathBuf>,
}

const DIRECTORY: &str = "setup";

pub(super) fn directory(state: &StateDir) -> PathBuf {
    state.path().join(DIRECTORY)
}

/// Those that can be read.
pub(super) fn all(state: &StateDir) -> Result<Vec<Record>, ServiceError> {
    let place = directory(state);
    let entries = match std::fs::read_dir(&place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ServiceError::state("read", &place, &error)),
    };
    let files = entries.flatten().map(|entry| entry.path());
    let texts =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "json")).map(std::fs::read_to_string);
    Ok(texts.flatten().filter_map(|text| serde_json::from_str(&text).ok()).collect())
}

fn place(state: &StateDir, path: &Path) -> PathBuf {
    let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    directory(state).join(format!("{}.json", &name[..32]))
}

pub(super) fn find(state: &StateDir, path: &Path) -> Result<Option<Record>, ServiceError> {
    let place = place(state, path);
    let text = read_if_there(&place).map_err(|error| ServiceError::state("read", &place, &error))?;
    let Some(text) = text else { return Ok(None) };
    let record: Record = serde_json::from_str(&text).map_err(|error| {
        ServiceError::new(
            ErrorCode::State,
            format!("cannot read {}: {error}", place.display()),
            "remove it; your settings are then changed by what they hold, not by what they held",
        )
    })?;
    Ok(Some(record).filter(|record| record.path == path))
}

pub(super) fn keep(state: &StateDir, record: &Record) -> Result<(), ServiceError> {
    state.ensure()?;
    let place = place(state, &record.path);
    let directory = directory(state);
    let problem = |error: &std::io::Error| ServiceError::state("write", &place, error);
    std::fs::create_dir_all(&directory).map_err(|error| problem(&error))?;
    let text = serde_json::to_vec_pretty(record).map_err(|error| problem(&std::io::Error::other(error)))?;
    replace_file(&place, &text, 0o600).map_err(|error| problem(&error))
}

pub(super) fn forget(state: &StateDir, path: &Path) -> Result<(), ServiceError> {
    let place = place(state, path);
    match std::fs::remove_file(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ServiceError::state("remove", &place, &error))
        }
        _ => Ok(()),
    }
}
