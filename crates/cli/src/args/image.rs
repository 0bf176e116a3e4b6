//! Arguments of `ringfence image`.

use clap::{Args, Subcommand};

/// Root filesystems to run in, in place of the host's system directories.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ringfence image build python --from host --with python3,git\n  ringfence image build app --from app.tar.gz\n  ringfence image ls\n  ringfence run --image python -- python3 -c 'print(1)'"
)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) verb: ImageVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Make an image, or make it again
    #[command(
        after_help = "--from is `host`, a directory, a tar (also .gz, .zst), an OCI layout (a directory or a tar), what `docker save`\nwrote, or docker:NAME for an image of the Docker daemon. Of the host only root's public files in system\ndirectories are taken. The same host gives the same digest.\n\nExamples:\n  ringfence image build python --from host --with python3,git,coreutils\n  ringfence image build tools --from ./rootfs\n  ringfence image build alpine --from alpine-minirootfs.tar.gz\n  ringfence image build app --from docker:app:latest"
    )]
    Build {
        /// What it is called: a-z, 0-9, `.`, `_` and `-`
        #[arg(value_name = "NAME")]
        name: String,
        /// host, DIR, TAR, an OCI layout or docker:NAME
        #[arg(long, value_name = "SOURCE")]
        from: String,
        /// Programs of the host, by name or path; `coreutils` is the usual small ones
        #[arg(long, value_name = "PROGRAM", value_delimiter = ',')]
        with: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the images
    #[command(after_help = "Examples:\n  ringfence image ls\n  ringfence image ls --json")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What is known of an image, and where its tree is
    #[command(after_help = "Example:\n  ringfence image show python")]
    Show {
        #[arg(value_name = "NAME")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove images; refused while a sandbox shows one
    #[command(after_help = "Example:\n  ringfence image rm python")]
    Rm {
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check that images are what was built: contents, modes, links, and nothing missing or added
    #[command(after_help = "Examples:\n  ringfence image verify\n  ringfence image verify python --json")]
    Verify {
        /// All of them, if none is named
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
