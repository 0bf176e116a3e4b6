//! What a caller asks of a sandbox.

use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_policy::Merged;
use serde::{Deserialize, Serialize};

use crate::attachment::Attached;
use crate::image::ImageTree;
use crate::layers::WorkspaceLayers;

/// Where the command's stdin, stdout and stderr go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// The caller's own descriptors, handed in.
    Inherit,
    /// stdin as given; stdout and stderr captured.
    Capture,
    /// A terminal of the sandbox's own, relayed to the caller's.
    Terminal,
    /// A session: each command has its own.
    Session,
}

/// One command and the policy for it.
#[derive(Clone, Debug)]
pub struct Request {
    pub policy: Merged,
    pub argv: Vec<OsString>,
    /// A directory inside; relative to where the command would start otherwise.
    pub directory: Option<PathBuf>,
    pub attached: Attached,
    /// The image that the policy names, found and held.
    pub image: Option<ImageTree>,
    /// The workspace is copy-on-write: what is written to it is kept here.
    pub workspace_layers: Option<WorkspaceLayers>,
    pub stream: Stream,
    /// Report every refused file access, exactly.
    pub trace: bool,
    /// Give every name an address, so that it is seen which ports are tried. Grants nothing.
    pub learn: bool,
    /// A default limit that can't be enforced is an error too.
    pub strict: bool,
    /// Where counts of placeholders are kept.
    pub state: PathBuf,
    /// Where egress finds stored secrets.
    pub secrets: PathBuf,
}
