//! Sandboxes made ahead.

use std::path::PathBuf;

use clap::Args;

use super::PolicyFlags;

/// Keep sandboxes ready, and hand them to `ringfence run --pool`
#[derive(Debug, Args)]
#[command(after_help = "\
Each sandbox is made ahead, waits, runs one command and is gone; another is made in its place. A run brings its own command,
workspace, skills and environment. One whose policy is another, or that comes after this host has changed, starts afresh.
The pool runs until it is interrupted; when it ends, everything in it ends too. See docs/pool.md.

Examples:
  ringfence pool --size 4 --profile restrictive
  ringfence run --pool --profile restrictive -- python3 -c 'print(1)'
  ringfence pool --size 8 --closed --socket /run/user/1000/ringfence-pool
  ringfence run --pool=/run/user/1000/ringfence-pool --workspace private -- true </dev/null | cat")]
pub(crate) struct PoolArgs {
    /// How many are kept ready
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) size: u16,
    /// Where runs find it; for this user only
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Close the walls ahead: the fastest start, for runs with a private workspace, no skills, and pipes
    #[arg(long)]
    pub(crate) closed: bool,
    /// Print what is ready, and where, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}
