//! Trust in a project's file: by its canonical path and the hash of its exact content, in `trust.json`.
//!
//! A changed file is a new file: it may only tighten again until its user looks at it once more.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::parse_layer;
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;
use crate::project::{FILE_NAME, find_project};
use crate::state::StateDir;

const FILE: &str = "trust.json";
const LOCK: &str = "trust.lock";

/// A file that its user has trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrustedFile {
    pub path: PathBuf,
    pub blake3: String,
    /// Is the file still what was trusted?
    pub current: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    /// Path to hash, in hexadecimal.
    files: BTreeMap<PathBuf, String>,
}

/// Trust `file`, or the project's file here, as it is now.
pub fn trust(places: &Places, file: Option<&Path>) -> Result<TrustedFile, ServiceError> {
    let (path, text) = read_named(places, file)?;
    parse_layer(&path, &text)?;
    trust_text(&places.state, &path, &text)
}

/// Take trust back. The path need not exist any more.
pub fn revoke(places: &Places, file: Option<&Path>) -> Result<PathBuf, ServiceError> {
    let wanted = match file {
        Some(file) => places.absolute(file, &places.current),
        None => nearest(places)?,
    };
    let _lock = places.state.lock(LOCK)?;
    let mut book = read_book(&places.state)?;
    let path = fs::canonicalize(&wanted).unwrap_or(wanted);
    if book.files.remove(&path).is_none() {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            format!("{} is not trusted", path.display()),
            "see `ringfence trust --list`",
        ));
    }
    write_book(&places.state, &book)?;
    Ok(path)
}

/// Every file that was trusted, and whether it still is what it was then.
pub fn trusted_files(places: &Places) -> Result<Vec<TrustedFile>, ServiceError> {
    let book = read_book(&places.state)?;
    let files = book.files.into_iter().map(|(path, blake3)| {
        let current = read_if_there(&path).ok().flatten().is_some_and(|text| hash(&text) == blake3);
        TrustedFile { path, blake3, current }
    });
    Ok(files.collect())
}

/// Trust exactly this text at this path.
pub(crate) fn trust_text(state: &StateDir, path: &Path, text: &str) -> Result<TrustedFile, ServiceError> {
    let path = canonical(path)?;
    let _lock = state.lock(LOCK)?;
    let mut book = read_book(state)?;
    let blake3 = hash(text);
    book.files.insert(path.clone(), blake3.clone());
    write_book(state, &book)?;
    Ok(TrustedFile { path, blake3, current: true })
}

/// Did its user trust this very text?
pub(crate) fn is_trusted(state: &StateDir, path: &Path, text: &str) -> Result<bool, ServiceError> {
    let path = canonical(path)?;
    Ok(read_book(state)?.files.get(&path).is_some_and(|trusted| *trusted == hash(text)))
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn nearest(places: &Places) -> Result<PathBuf, ServiceError> {
    find_project(&places.current, &places.home)?.map(|file| file.path).ok_or_else(|| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("there is no {FILE_NAME} here or above in this project"),
            "name the file: `ringfence trust FILE`",
        )
    })
}

fn read_named(places: &Places, file: Option<&Path>) -> Result<(PathBuf, String), ServiceError> {
    let path = match file {
        Some(file) => places.absolute(file, &places.current),
        None => nearest(places)?,
    };
    let problem = |why: String| {
        ServiceError::new(
            ErrorCode::BadRequest,
            format!("cannot read {}: {why}", path.display()),
            format!("name the project's {FILE_NAME}"),
        )
    };
    match read_if_there(&path) {
        Ok(Some(text)) => Ok((path, text)),
        Ok(None) => Err(problem("no such file".into())),
        Err(error) => Err(problem(error.to_string())),
    }
}

fn canonical(path: &Path) -> Result<PathBuf, ServiceError> {
    let canonical = fs::canonicalize(path).map_err(|error| {
        let message = format!("cannot find {}: {error}", path.display());
        ServiceError::new(ErrorCode::BadPolicy, message, "check that its directories can be read")
    })?;
    if canonical.to_str().is_none() {
        return Err(ServiceError::new(
            ErrorCode::BadPolicy,
            format!("{} cannot be trusted: its path is not UTF-8", canonical.display()),
            "rename the directory",
        ));
    }
    Ok(canonical)
}

fn read_book(state: &StateDir) -> Result<Book, ServiceError> {
    let path = state.path().join(FILE);
    let text = read_if_there(&path).map_err(|error| ServiceError::state("read", &path, &error))?;
    let Some(text) = text else { return Ok(Book::default()) };
    // Whoever can write this file can make any project trusted.
    let facts = fs::metadata(&path).map_err(|error| ServiceError::state("read", &path, &error))?;
    let own = [0, rustix::process::geteuid().as_raw()].contains(&facts.uid());
    if !own || facts.mode() & 0o022 != 0 {
        return Err(ServiceError::new(
            ErrorCode::State,
            format!("{} can be written by others, so that it says nothing", path.display()),
            "remove it and trust the projects again",
        ));
    }
    serde_json::from_str(&text).map_err(|error| {
        ServiceError::new(
            ErrorCode::State,
            format!("cannot read {}: {error}", path.display()),
            "remove it and trust the projects again",
        )
    })
}

fn write_book(state: &StateDir, book: &Book) -> Result<(), ServiceError> {
    let text = serde_json::to_vec_pretty(book).map_err(|error| {
        ServiceError::state("write", &state.path().join(FILE), &std::io::Error::other(error))
    })?;
    state.replace(FILE, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn exact_text_at_one_place_in_a_book_of_ones_own() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(root.path().join("state"));
        let (one, link) = (root.path().join("one.toml"), root.path().join("link.toml"));
        fs::write(&one, "a").unwrap();
        std::os::unix::fs::symlink(&one, &link).unwrap();
        assert!(!is_trusted(&state, &one, "a").unwrap());
        trust_text(&state, &one, "a").unwrap();
        assert!(is_trusted(&state, &one, "a").unwrap());
        assert!(is_trusted(&state, &link, "a").unwrap(), "the same file by another name");
        assert!(!is_trusted(&state, &one, "a\n").unwrap());
        fs::set_permissions(state.path().join(FILE), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(is_trusted(&state, &one, "a").is_err());
    }
}
