//! The state directory: trust, the log of denials, counts of placeholders. Made when first needed, for its user only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::ServiceError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Make the directory if it isn't there. What others can write is refused: trust is kept in it.
    pub fn ensure(&self) -> Result<(), ServiceError> {
        let facts = match fs::metadata(&self.0) {
            Ok(facts) => facts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = self.0.parent() {
                    DirBuilder::new()
                        .recursive(true)
                        .mode(0o755)
                        .create(parent)
                        .map_err(|error| ServiceError::state("make", parent, &error))?;
                }
                match DirBuilder::new().mode(0o700).create(&self.0) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(ServiceError::state("make", &self.0, &error));
                    }
                    _ => {
                        fs::metadata(&self.0).map_err(|error| ServiceError::state("use", &self.0, &error))?
                    }
                }
            }
            Err(error) => return Err(ServiceError::state("use", &self.0, &error)),
        };
        if !facts.is_dir() {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(ServiceError::state("use", &self.0, &error));
        }
        let uid = rustix::process::geteuid().as_raw();
        if facts.uid() != uid && uid != 0 {
            let error = io::Error::other(format!("it belongs to user {}", facts.uid()));
            return Err(ServiceError::state("use", &self.0, &error));
        }
        if facts.mode() & 0o022 != 0 {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700))
                .map_err(|error| ServiceError::state("close to others", &self.0, &error))?;
        }
        Ok(())
    }

    /// Replace a file of the directory whole: a reader sees the old or the new one.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), ServiceError> {
        self.ensure()?;
        let path = self.0.join(name);
        replace_file(&path, content, 0o600).map_err(|error| ServiceError::state("write", &path, &error))
    }

    /// Hold a lock, by its name, until the file is dropped.
    pub(crate) fn lock(&self, name: &str) -> Result<File, ServiceError> {
        self.ensure()?;
        let path = self.0.join(name);
        let problem = |error: io::Error| ServiceError::state("lock", &path, &error);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(problem)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| problem(error.into()))?;
        Ok(file)
    }
}

/// Write beside `path` and rename over it.
pub(crate) fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let fresh = path.with_file_name(name);
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(&fresh)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_for_its_user_only() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(root.path().join("a/b"));
        state.ensure().unwrap();
        assert_eq!(fs::metadata(state.path()).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
        state.ensure().unwrap();
        assert_eq!(fs::metadata(state.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_file_in_its_place_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        fs::write(&path, "").unwrap();
        assert!(StateDir::new(&path).ensure().is_err());
    }

    #[test]
    fn replaced_whole_and_private() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(root.path().join("state"));
        state.replace("x", b"one").unwrap();
        state.replace("x", b"two").unwrap();
        assert_eq!(fs::read(state.path().join("x")).unwrap(), b"two");
        assert_eq!(fs::metadata(state.path().join("x")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
    }
}
