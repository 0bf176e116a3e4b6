//! `ringfence skill …` as it is typed: one struct a verb.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command, Subcommand};
use ringfence_policy::{Bound, ByteSize, Cpus, HostRule, Span};

use super::library::SkillLibraryVerb;
use super::{RunFlags, bound, count, cpus};

/// Agent Skills: check, pack, keep, find, and run them in a sandbox with what they need.
#[derive(Debug, Args)]
#[command(
    after_help = "SKILL is a name in the library (`pdf-tools`, or `office/pdf-tools`), a directory (`./my-skill`) or an archive.\n\nExamples:\n  ringfence skill add https://example.com/team/skills --all\n  ringfence skill search extract tables\n  ringfence skill run ./my-skill\n  ringfence skill run pdf-tools extract.py -- report.pdf\n  ringfence skill deps pdf-tools"
)]
pub(crate) struct SkillArgs {
    #[command(subcommand)]
    pub(crate) verb: SkillVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillVerb {
    /// Run a script of a skill in a fresh sandbox
    #[command(after_help = RUN_HELP)]
    Run(Box<SkillRunArgs>),
    /// What a skill needs, and where each of it is declared
    #[command(
        after_help = "Examples:\n  ringfence skill deps ./my-skill\n  ringfence skill deps pdf-tools extract.py --json"
    )]
    Deps(SkillDepsArgs),
    /// Installed dependencies that are kept for the next run
    #[command(
        subcommand,
        after_help = "Examples:\n  ringfence skill layers ls\n  ringfence skill layers rm 3f2a91c0d4e7\n  ringfence skill layers rm --all"
    )]
    Layers(SkillLayersVerb),
    /// Let a skill have, at every run, what its metadata asks for
    #[command(
        after_help = "Without a flag it shows what the skill asks for. A grant holds for this skill and for what it asked for then: a new version that asks for more gets no more.\n\nExamples:\n  ringfence skill grant weather\n  ringfence skill grant weather --host api.example.com --env WEATHER_TOKEN\n  ringfence skill grant weather --all"
    )]
    Grant(SkillGrantArgs),
    /// Take grants back
    #[command(after_help = "Example:\n  ringfence skill revoke weather")]
    Revoke(SkillRevokeArgs),
    /// What has been granted
    #[command(after_help = "Example:\n  ringfence skill grants")]
    Grants(SkillGrantsArgs),
    #[command(flatten)]
    Library(SkillLibraryVerb),
    /// Install dependencies: a process of its own, so that the one that shows progress has no sandbox.
    #[command(hide = true)]
    BuildLayer,
}

const RUN_HELP: &str = "\
SKILL is a name in the library, a directory or an archive. SCRIPT is a path in the skill, or a name in its
scripts directory; it may be left out where there is one. The skill is read-only at /skills/DOMAIN/SKILL, the
command starts in the workspace. Every flag of `ringfence run` works here.

Exit status: as of `ringfence run`.

Examples:
  ringfence skill run ./my-skill
  ringfence skill run office/pdf-tools extract.py -- report.pdf --pages 1-3
  ringfence skill run ./my-skill -m tools.convert -- input.csv
  ringfence skill run --allow-host api.example.com --pass-env API_TOKEN weather forecast.py
  ringfence skill run --json ./my-skill.skill | jq .workspace_changes";

/// What derive can't put on a lone parser.
pub(crate) fn described_skill_run(command: Command) -> Command {
    command.about("Run a script of a skill in a fresh sandbox").after_help(RUN_HELP)
}

#[derive(Debug, Default, Args)]
pub(crate) struct SkillRunArgs {
    #[command(flatten)]
    pub(crate) flags: RunFlags,
    /// Run a Python module of the skill, named from its root: package.module
    #[arg(short = 'm', value_name = "MODULE", conflicts_with = "script", help_heading = "Skills")]
    pub(crate) module: Option<String>,
    /// Let the skill write into its own directory; what it writes is gone at the end
    #[arg(long, help_heading = "Skills")]
    pub(crate) copy: bool,
    /// Install nothing: run with what the host has
    #[arg(long, help_heading = "Skills")]
    pub(crate) no_deps: bool,
    /// Install the dependencies again
    #[arg(long, conflicts_with = "no_deps", help_heading = "Skills")]
    pub(crate) rebuild_deps: bool,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR", help_heading = "Skills")]
    pub(crate) library: Option<PathBuf>,
    /// A name in the library, a directory or an archive
    #[arg(value_name = "SKILL")]
    pub(crate) skill: OsString,
    /// A path in the skill, or a name in its scripts directory
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: Option<OsString>,
    /// The script's arguments
    #[arg(value_name = "ARG", last = true)]
    pub(crate) args: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct SkillDepsArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: OsString,
    /// Only what this script needs
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: Option<OsString>,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillLayersVerb {
    /// What is kept, and how large it is
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove one by its id, or all
    Rm {
        #[arg(value_name = "ID", required_unless_present = "all")]
        id: Option<String>,
        /// Every one that no run is using
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SkillGrantArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: OsString,
    /// A host that it asks for
    #[arg(long = "host", value_name = "RULE", value_parser = HostRule::parse)]
    pub(crate) hosts: Vec<HostRule>,
    /// A variable of yours that it asks for
    #[arg(long = "env", value_name = "NAME")]
    pub(crate) variables: Vec<String>,
    /// Time for each run
    #[arg(long, value_name = "TIME", value_parser = bound::<Span>)]
    pub(crate) timeout: Option<Bound<Span>>,
    /// Memory for each run
    #[arg(long, value_name = "SIZE", value_parser = bound::<ByteSize>)]
    pub(crate) memory: Option<Bound<ByteSize>>,
    /// Processors' worth of time
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub(crate) cpus: Option<Bound<Cpus>>,
    /// Processes and threads at one time
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) pids: Option<Bound<u32>>,
    /// Bytes written to private layers
    #[arg(long, value_name = "SIZE", value_parser = bound::<ByteSize>)]
    pub(crate) disk: Option<Bound<ByteSize>>,
    /// Everything that it asks for now
    #[arg(long, conflicts_with_all = ["hosts", "variables", "timeout", "memory", "cpus", "pids", "disk"])]
    pub(crate) all: bool,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SkillRevokeArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: OsString,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SkillGrantsArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
