//! Published versions, each under its digest. They are written once, and checked whenever they are used.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{RenameFlags, fsync, renameat_with};
use rustix::io::Errno;

use crate::{Digest, Tree, left_out};

use super::copy::copy;
use super::exclusive::Exclusive;
use super::staging::{Staging, random_name};
use super::{Library, LibraryError, beneath};

impl Library {
    /// Where a published version lies: read-only, and the same for ever, unlike the folder. What a run mounts.
    pub fn version_path(&self, digest: &Digest) -> PathBuf {
        self.path().join(".ringfence/versions").join(digest.as_str())
    }

    /// A published version, after a check of every byte.
    pub fn version(&self, digest: &Digest) -> Result<Tree, LibraryError> {
        let damaged = |why: String| LibraryError::Damaged { digest: digest.clone(), why };
        let directory = beneath::open_directory(self.versions.as_fd(), digest.as_str())
            .map_err(|error| damaged(error.to_string()))?;
        // Nothing is left out: whatever was put there counts as damage.
        let tree = Tree::read_at(directory, self.limits(), |_, _| false)
            .map_err(|error| damaged(error.to_string()))?;
        match tree.digest() {
            Ok(found) if found == *digest => Ok(tree),
            Ok(found) => Err(damaged(format!("it is {found} now"))),
            Err(error) => Err(damaged(error.to_string())),
        }
    }

    /// Copy a tree into staging as a version; the digest is that of the copy.
    pub(super) fn stage_version(
        &self,
        from: &Tree,
        path: &str,
        staging: &Staging,
        name: &str,
    ) -> Result<(Tree, Digest), LibraryError> {
        let into = self.steps.run("stage a version", path, || staging.make(name))?;
        copy(from, path, into.as_fd(), self.version_modes(), self.limits(), &self.steps)?;
        let staged = self.read_staged(into, path)?;
        let digest = staged.digest().map_err(LibraryError::tree(path))?;
        Ok((staged, digest))
    }

    /// Copy a version into staging as a folder.
    pub(super) fn stage_folder(
        &self,
        version: &Tree,
        digest: &Digest,
        staging: &Staging,
        name: &str,
    ) -> Result<(), LibraryError> {
        let path = digest.short();
        let into = self.steps.run("stage the folder", path, || staging.make(name))?;
        copy(version, path, into.as_fd(), self.folder_modes(), self.limits(), &self.steps)?;
        let found = self.read_staged(into, path)?.digest().map_err(LibraryError::tree(path))?;
        if found != *digest {
            return Err(LibraryError::Damaged {
                digest: digest.clone(),
                why: "it changed while it was copied".into(),
            });
        }
        Ok(())
    }

    /// Keep a staged version. One that is there already stays, unless it is damaged: then this is its cure.
    pub(super) fn store_version(
        &self,
        staging: &Staging,
        name: &str,
        digest: &Digest,
        _proof: &Exclusive,
    ) -> Result<(), LibraryError> {
        self.steps.run("store the version", digest.short(), || {
            let (all, path) = (self.versions.as_fd(), digest.as_str());
            if beneath::facts(all, path)?.is_some() {
                if self.version(digest).is_ok() {
                    return Ok(());
                }
                rustix::fs::renameat(all, path, staging.directory(), &*random_name()?)?;
            }
            match renameat_with(staging.directory(), name, all, path, RenameFlags::NOREPLACE) {
                // A filesystem without that flag. We hold the lock, and looked.
                Err(Errno::INVAL) => rustix::fs::renameat(staging.directory(), name, all, path)?,
                other => other?,
            }
            Ok(fsync(all)?)
        })
    }

    fn read_staged(&self, directory: OwnedFd, path: &str) -> Result<Tree, LibraryError> {
        Tree::read_at(directory, self.limits(), left_out).map_err(LibraryError::tree(path))
    }
}
