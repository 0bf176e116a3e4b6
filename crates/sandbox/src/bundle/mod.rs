//! A policy as an OCI bundle, which a runtime enforces by itself: no guard, no owner, nobody who watches. What such a bundle can't
//! hold is refused; what would only have been told is listed.
//!
//! Invariant: `bundle` does no I/O. A bundle never gives more than the sandbox that it stands for.

mod document;
mod filter;
mod mounts;
mod refuse;
mod write;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::host::Host;
use crate::plan::plan;
use crate::refusal::Refusal;
use crate::request::Request;
use mounts::Layout;
use ringfence_policy::ProviderName;

pub use write::write_bundle;

/// A configuration, and what lies beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OciBundle {
    pub config: Value,
    /// What a person should know: it is held in another way, or would only have been told.
    pub notes: Vec<String>,
    /// Small files, by their names beneath the directory of files.
    #[serde(skip)]
    pub files: Vec<(String, String)>,
    /// What the root has before anything is mounted in it.
    #[serde(skip)]
    pub root: Vec<RootEntry>,
    /// The id outside that is the command's.
    #[serde(skip)]
    pub owner: (u32, u32),
}

/// One thing in the root of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEntry {
    Directory { path: PathBuf, mode: u32 },
    File { path: PathBuf },
    Symlink { path: PathBuf, to: PathBuf },
}

/// Where the small files are, where the configuration is printed alone: relative to the bundle.
pub const FILES: &str = "files";

/// The bundle for a request on this host. `files_at`: where its small files will be.
pub fn bundle(request: &Request, host: &Host, files_at: &Path) -> Result<OciBundle, Refusal> {
    // A throwaway layer over the host's files is nothing that every runtime can make: they are shown read-only.
    let host = Host { overlay: false, ..host.clone() };
    let mut request = request.clone();
    let mut notes = refuse::unheld_limits(&mut request)?;
    let plan = plan(&request, &host, ProviderName::Oci)?;
    refuse::check(&request, &plan)?;
    notes.extend(plan.receipt.warnings.iter().cloned());
    let layout = Layout::of(&plan, &host, files_at);
    notes.extend(layout.notes.iter().cloned());
    let filter = plan.seccomp.then(|| filter::filter(&request.policy.policy, &host)).transpose()?;
    notes.extend(filter.as_ref().map(|filter| filter.note.to_owned()));
    let config = document::document(&request, &plan, &layout, filter.map(|filter| filter.seccomp))?;
    let outside = plan.ids.mapped.map(|mapped| mapped.outside);
    let owner = (outside.unwrap_or(host.uid), outside.unwrap_or(host.gid));
    Ok(OciBundle { config, notes, files: layout.files, root: layout.root, owner })
}
