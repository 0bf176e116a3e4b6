//! Files that are complete before they have their name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use super::error::{During, Result};
use super::faults;

/// A name that nothing has, and that no one can have foreseen.
pub(crate) fn random_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty())?;
    Ok(format!(".ringfence-{:032x}", u128::from_ne_bytes(random)))
}

/// A file that goes when it is not given its name.
pub(super) struct Temporary(PathBuf);

impl Temporary {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn create(&self) -> Result<File> {
        faults::step().at("create", &self.0)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.0).at("create", &self.0)
    }

    pub(super) fn rename(self, to: &Path) -> Result<()> {
        faults::step().at("write", to)?;
        fs::rename(&self.0, to).at("write", to)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
