//! Arguments of `ringfence oci`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::PolicyFlags;

/// A policy as an OCI bundle, which crun, runc and their like enforce by themselves.
#[derive(Debug, Args)]
#[command(
    after_help = "What a bundle can't hold is refused; what would only have been reported is listed on stderr.\n\nExamples:\n  ringfence oci spec --profile restrictive --waive filesystem.landlock -- python3 -c 'print(1)'\n  ringfence oci bundle --profile restrictive --waive filesystem.landlock job -- true && runc run --bundle job job"
)]
pub(crate) struct OciArgs {
    #[command(subcommand)]
    pub(crate) verb: OciVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OciVerb {
    /// Print the configuration, config.json
    #[command(
        after_help = "Examples:\n  ringfence oci spec --profile restrictive --waive filesystem.landlock -- true"
    )]
    Spec(Box<OciSpecArgs>),
    /// Write a bundle: config.json, the root, and the files that it shows
    #[command(
        after_help = "Examples:\n  ringfence oci bundle --profile restrictive --waive filesystem.landlock job -- true\n  runc run --bundle job job"
    )]
    Bundle(Box<OciBundleArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct OciSpecArgs {
    #[command(flatten)]
    pub(crate) job: OciJob,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct OciBundleArgs {
    #[command(flatten)]
    pub(crate) job: OciJob,
    /// Where to; not there yet, or empty
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// What both take.
#[derive(Debug, Args)]
pub(crate) struct OciJob {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Start in this directory of the sandbox
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    pub(crate) cwd: Option<PathBuf>,
    /// A default limit that the bundle can't hold is an error
    #[arg(long, help_heading = "Run")]
    pub(crate) strict: bool,
    /// Print one object: the configuration and the notes
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}
