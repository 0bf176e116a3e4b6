//! A tree copied to where it is staged, with plain modes and nothing that a version can't have.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, fchmod, fsync, mkdirat, symlinkat};

use crate::tree::stays_inside;
use crate::{Kind, Tree, TreeError, TreeLimits};

use super::LibraryError;
use super::beneath;
use super::steps::Steps;

/// The modes of what is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modes {
    pub(super) directory: u32,
    pub(super) file: u32,
    pub(super) executable: u32,
}

/// Copy what counts for a version into an empty directory, and see it on disk.
pub(super) fn copy(
    from: &Tree,
    path: &str,
    into: BorrowedFd<'_>,
    modes: Modes,
    limits: TreeLimits,
    steps: &Steps,
) -> Result<(), LibraryError> {
    let mut directories = BTreeSet::new();
    let mut left = limits.bytes;
    for entry in from.entries() {
        let inner = &entry.path;
        match &entry.kind {
            // An empty one is no part of a version; others come with what is in them.
            Kind::Directory => continue,
            Kind::Special { what } => {
                return Err(LibraryError::tree(path)(TreeError::Special { path: inner.clone(), what }));
            }
            Kind::Link { to } if !stays_inside(inner, to) => {
                return Err(LibraryError::tree(path)(TreeError::LinkOut {
                    path: inner.clone(),
                    to: to.clone(),
                }));
            }
            Kind::Link { .. } | Kind::File { .. } => {}
        }
        let failed = |error: io::Error| LibraryError::Io {
            step: "copy",
            path: format!("{path}/{inner}"),
            source: error,
        };
        for (end, _) in inner.match_indices('/') {
            let parent = &inner[..end];
            if directories.insert(parent.to_owned()) {
                mkdirat(into, parent, Mode::from_raw_mode(0o700)).map_err(|error| failed(error.into()))?;
            }
        }
        steps.run("copy", path, || Ok(()))?;
        match &entry.kind {
            Kind::Link { to } => {
                symlinkat(to.as_str(), into, inner.as_str()).map_err(|error| failed(error.into()))?;
            }
            Kind::File { executable, .. } => {
                let mode = if *executable { modes.executable } else { modes.file };
                let source = from.open(inner).map_err(LibraryError::tree(path))?;
                // It may have grown, or become something else, since the tree was read.
                if !source.metadata().map_err(failed)?.is_file() {
                    return Err(failed(io::Error::other("no longer a regular file")));
                }
                let mut target = beneath::create_file(into, inner, mode).map_err(failed)?;
                let copied =
                    io::copy(&mut source.take(left.saturating_add(1)), &mut target).map_err(failed)?;
                left = left
                    .checked_sub(copied)
                    .ok_or(TreeError::Bytes(limits.bytes))
                    .map_err(LibraryError::tree(path))?;
                fsync(&target).map_err(|error| failed(error.into()))?;
            }
            Kind::Directory | Kind::Special { .. } => {}
        }
    }
    // Innermost first, so that a mode without the w bit would not be in the way.
    for directory in directories.iter().rev() {
        seal(into, directory, modes.directory)
            .map_err(LibraryError::io("copy", format!("{path}/{directory}")))?;
    }
    fchmod(into, Mode::from_raw_mode(modes.directory))
        .and_then(|()| fsync(into))
        .map_err(|error| LibraryError::io("copy", path)(error.into()))
}

fn seal(at: BorrowedFd<'_>, directory: &str, mode: u32) -> io::Result<()> {
    let open = beneath::open_directory(at, directory)?;
    fchmod(&open, Mode::from_raw_mode(mode))?;
    fsync(&open)?;
    Ok(())
}
