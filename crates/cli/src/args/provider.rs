//! Arguments of `ringfence provider`.

use clap::{Args, Subcommand};

/// What can build sandboxes here.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ringfence provider ls\n  ringfence provider ls --json\n  ringfence run --provider bwrap -- make test"
)]
pub(crate) struct ProviderArgs {
    #[command(subcommand)]
    pub(crate) verb: ProviderVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProviderVerb {
    /// List the providers by rank: what is here, its version, what it can enforce, or why not
    #[command(after_help = "Examples:\n  ringfence provider ls\n  ringfence provider ls --json")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
