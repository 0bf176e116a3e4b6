//! A copy-on-write workspace as part of a request: which directory lies beneath, and where on disk the writes go.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::WorkspaceDir;
use crate::refusal::Refusal;

/// Writes of a session to its workspace, kept apart from the directory that they are meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceLayers {
    /// Holds `upper` and `work`, as [`prepare_layers`](crate::prepare_layers) made them: the kernel wants both on one
    /// mount.
    pub directory: PathBuf,
    /// A read-only tree to lie beneath instead of the user's own directory.
    pub lower: Option<PathBuf>,
}

/// The same, looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayersDir {
    pub directory: PathBuf,
    pub lower: WorkspaceDir,
}

impl WorkspaceLayers {
    /// Where new and changed files are.
    pub fn upper(&self) -> PathBuf {
        self.directory.join("upper")
    }

    /// The kernel's own, beside it.
    pub fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    pub(crate) fn look(&self, workspace: Option<&WorkspaceDir>) -> Result<LayersDir, Refusal> {
        let real = |path: &Path, fix: &str| {
            fs::canonicalize(path).map_err(|error| {
                Refusal::bad(format!("{} cannot be a layer of the workspace: {error}", path.display()), fix)
            })
        };
        for part in [self.upper(), self.work()] {
            real(&part, "make the layers first")?;
        }
        let lower = match (&self.lower, workspace) {
            (Some(lower), _) => {
                let path = real(lower, "name a directory that exists")?;
                WorkspaceDir::of(path).map_err(|error| {
                    let what = format!("{} cannot lie beneath the workspace: {error}", lower.display());
                    Refusal::bad(what, "name a directory that exists")
                })?
            }
            (None, Some(workspace)) => workspace.clone(),
            (None, None) => {
                return Err(Refusal::bad(
                    "a copy-on-write workspace needs a directory beneath it, and the workspace is private",
                    "name the directory with --workspace DIR",
                ));
            }
        };
        Ok(LayersDir { directory: real(&self.directory, "make the layers first")?, lower })
    }
}
