//! The command line as it is typed. `resolve` turns it into what the services take; nothing else reads these.

mod image;
mod library;
mod oci;
mod pool;
mod provider;
mod server;
mod session;
mod setup;
mod skill;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, Command, Parser, Subcommand, ValueEnum};
use ringfence_policy::{
    AddressRange, Bound, ByteSize, Clause, Compat, Cpus, HostName, HostRule, ProfileName, ProviderName,
    RuntimeName, Span,
};
use ringfence_service::Registry;

pub(crate) use image::{ImageArgs, ImageVerb};
pub(crate) use library::{
    LintFormat, SkillAddArgs, SkillCatArgs, SkillHistoryArgs, SkillLibraryVerb, SkillLintArgs, SkillListArgs,
    SkillLockArgs, SkillNewArgs, SkillOutdatedArgs, SkillPackArgs, SkillPromptArgs, SkillPropertiesArgs,
    SkillPublishArgs, SkillRemoveArgs, SkillRollbackArgs, SkillSearchArgs, SkillShowArgs, SkillUpdateArgs,
    SkillValidateArgs, SkillVerifyArgs,
};
pub(crate) use oci::{OciArgs, OciJob, OciVerb};
pub(crate) use pool::PoolArgs;
pub(crate) use provider::{ProviderArgs, ProviderVerb};
pub(crate) use server::{
    ActionsArgs, ActionsVerb, AuditArgs, AuditVerb, KeyArgs, KeyVerb, McpArgs, ServeArgs, TopArgs,
};
pub(crate) use session::{
    End, Inside, SessionArgs, SessionAttachArgs, SessionCommitArgs, SessionCpArgs, SessionCreateArgs,
    SessionDiffArgs, SessionExecArgs, SessionExposeArgs, SessionExtendArgs, SessionFileArgs, SessionForkArgs,
    SessionLogsArgs, SessionLsArgs, SessionMkdirArgs, SessionMvArgs, SessionNameArgs, SessionProcessArgs,
    SessionRmArgs, SessionRollbackArgs, SessionSignalArgs, SessionSnapshotArgs, SessionStdinArgs,
    SessionUnexposeArgs, SessionVerb, SessionWriteArgs, SnapshotArgs, SnapshotVerb, WorkspaceArgs,
    WorkspaceVerb,
};
pub(crate) use setup::{AgentArgs, ClientName, PolicyImportArgs, SetupArgs, WrapArgs};
pub(crate) use skill::{
    SkillArgs, SkillDepsArgs, SkillGrantArgs, SkillGrantsArgs, SkillLayersVerb, SkillRevokeArgs,
    SkillRunArgs, SkillVerb, described_skill_run,
};

/// Run commands in a sandbox that proves it is closed.
#[derive(Debug, Parser)]
#[command(
    name = "ringfence",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  ringfence run -- python3 -c 'print(1)'   in this directory, with the moderate profile\n  ringfence denials                        what was blocked, and what would allow it\n  ringfence doctor                         what this host can enforce"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    #[command(after_help = RUN_HELP)]
    Run(Box<RunArgs>),
    Session(SessionArgs),
    Snapshot(SnapshotArgs),
    Workspace(WorkspaceArgs),
    Skill(SkillArgs),
    Policy(PolicyArgs),
    Setup(SetupArgs),
    Wrap(WrapArgs),
    Agent(Box<AgentArgs>),
    Trust(TrustArgs),
    Denials(DenialsArgs),
    Secret(SecretArgs),
    Mcp(Box<McpArgs>),
    Pool(Box<PoolArgs>),
    Serve(ServeArgs),
    Top(TopArgs),
    Key(KeyArgs),
    Actions(ActionsArgs),
    Audit(AuditArgs),
    Doctor(DoctorArgs),
    Provider(ProviderArgs),
    Image(ImageArgs),
    Oci(OciArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

const RUN_HELP: &str = "\
Sizes are like 512M or 2G, times like 30s or 1h30m; `none` lifts a limit. A host RULE is like
api.example.com, *.example.com:443, 192.0.2.10:22 or @group; without a port it means 80 and 443.

Exit status: the command's own; 128+n if signal n ended it; 124 after --timeout; 125 if the
sandbox was refused or failed; 126 if the command can't be executed, 127 if it isn't there.

Examples:
  ringfence run -- cargo build --offline
  ringfence run --profile restrictive -- python3 script.py < input
  ringfence run --workspace ~/project --timeout 30s --memory 512M -- make test
  ringfence run --read /srv/data --env MODE=fast --pass-env TOKEN -- ./report
  ringfence run --allow-host api.example.com:443 -- curl https://api.example.com/
  ringfence run --allow-registry pip -- pip install --target lib requests
  ringfence run --allow-host api.example.com --secret TOKEN=env:TOKEN@api.example.com -- ./deploy
  ringfence run --learn -- ./unknown-program
  ringfence run --skills -- ls /skills
  ringfence run --image python -- python3 script.py
  ringfence run --json -- ls | jq .exit_code
  ringfence run --explain -- true";

/// What derive can't put on a lone parser.
pub(crate) fn described_run(command: Command) -> Command {
    command.after_help(RUN_HELP)
}

/// Run a command in a fresh sandbox.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) flags: RunFlags,
    /// Show the whole skill library at /skills, read-only
    #[arg(long, help_heading = "Skills")]
    pub(crate) skills: bool,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR", requires = "skills", help_heading = "Skills")]
    pub(crate) library: Option<PathBuf>,
    /// Take the sandbox from the `ringfence pool` that listens here; yours where no path is given
    #[arg(
        long,
        value_name = "SOCKET",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = path_or_nothing(),
        help_heading = "Run"
    )]
    pub(crate) pool: Option<PathBuf>,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// A path that may be empty, for a flag with no value: clap's own reader of paths refuses one.
fn path_or_nothing() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// How a command is run and told of, shared by `run` and `skill run`.
#[derive(Debug, Default, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Start in this directory of the sandbox
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    pub(crate) cwd: Option<PathBuf>,
    /// Give the command a terminal of its own
    #[arg(short = 't', long = "tty", help_heading = "Run")]
    pub(crate) terminal: bool,
    /// Print one JSON object: exit code, output, usage, denials, receipt
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// A default limit that this host can't enforce is an error
    #[arg(long, help_heading = "Run")]
    pub(crate) strict: bool,
    /// Write what was enforced, and how, as JSON; `-` is stderr
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) receipt: Option<PathBuf>,
    /// Print the plan and run nothing
    #[arg(long, help_heading = "Output")]
    pub(crate) explain: bool,
    /// Report every refused file access
    #[arg(long, help_heading = "Run")]
    pub(crate) trace: bool,
    /// Grant nothing more, and print the rules for what the command tried to reach
    #[arg(long, help_heading = "Network")]
    pub(crate) learn: bool,
    /// Print what the command used, and its connections, on stderr
    #[arg(long, help_heading = "Output")]
    pub(crate) stats: bool,
}

/// The flags that say what a sandbox may do, shared by `run`, `skill run` and `policy show`.
#[derive(Debug, Default, Args)]
pub(crate) struct PolicyFlags {
    /// The policy to start from: restrictive, moderate (the default) or permissive
    #[arg(long, value_name = "NAME", help_heading = "Policy")]
    pub(crate) profile: Option<ProfileName>,
    /// What builds the sandbox: native (the default), bwrap, oci, docker or auto; `ringfence provider ls` tells what is here
    #[arg(long, value_name = "NAME", value_parser = str::parse::<ProviderName>, help_heading = "Policy")]
    pub(crate) provider: Option<ProviderName>,
    /// Show the system directories of this image in place of the host's; see `ringfence image`
    #[arg(long, value_name = "NAME", help_heading = "Policy")]
    pub(crate) image: Option<String>,
    /// Which runtime the provider drives: of oci, crun, runc, youki or kata-runtime
    #[arg(long, value_name = "NAME", value_parser = str::parse::<RuntimeName>, help_heading = "Policy")]
    pub(crate) runtime: Option<RuntimeName>,
    /// Start from the defaults of a client's own sandbox: native, claude-code, codex or gemini
    #[arg(long, value_name = "CLIENT", value_parser = str::parse::<Compat>, help_heading = "Policy")]
    pub(crate) compat: Option<Compat>,
    /// A policy file, TOML or JSON
    #[arg(long = "policy", value_name = "FILE", help_heading = "Policy")]
    pub(crate) policy_file: Option<PathBuf>,
    /// The directory that the command may write; `private`: an empty one, gone at the end
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub(crate) workspace: Option<PathBuf>,
    /// Show a host path, read-only
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) read: Vec<PathBuf>,
    /// Show a host path, writable
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) write: Vec<PathBuf>,
    /// Show a host path as empty, whatever else would show it
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) hide: Vec<PathBuf>,
    /// Let the command change a protected name of the workspace: .git/hooks
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub(crate) unprotect: Vec<String>,
    /// Keep one more name of the workspace from being changed: docs/api, or a directory with a final slash
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub(crate) protect: Vec<String>,
    /// Set a variable
    #[arg(long, value_name = "K=V", help_heading = "Environment")]
    pub(crate) env: Vec<String>,
    /// Pass a variable of yours; a trailing `*` matches a prefix
    #[arg(long, value_name = "NAME", help_heading = "Environment")]
    pub(crate) pass_env: Vec<String>,
    /// What may be reached: off, allow or open
    #[arg(long, value_name = "MODE", help_heading = "Network")]
    pub(crate) network: Option<NetworkChoice>,
    /// Let the command reach a host: api.example.com, *.example.com:443, 192.0.2.10:22, @group
    #[arg(long, value_name = "RULE", value_parser = HostRule::parse, help_heading = "Network")]
    pub(crate) allow_host: Vec<HostRule>,
    /// Refuse a host, whatever else would allow it
    #[arg(long, value_name = "RULE", value_parser = HostRule::parse, help_heading = "Network")]
    pub(crate) deny_host: Vec<HostRule>,
    /// Let the command reach a port of your own loopback, at 127.0.0.1 and ::1
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Network")]
    pub(crate) allow_local: Vec<u16>,
    /// Private addresses that allowed names may lead to: 10.0.0.0/8
    #[arg(long, value_name = "CIDR", value_parser = str::parse::<AddressRange>, help_heading = "Network")]
    pub(crate) allow_private: Vec<AddressRange>,
    /// Let TLS to this host go without a server name in it
    #[arg(long, value_name = "NAME", value_parser = HostName::parse, help_heading = "Network")]
    pub(crate) allow_no_sni: Vec<HostName>,
    /// Let the command reach what this package client is configured to use: pip, npm, cargo, apt
    #[arg(long, value_name = "CLIENT", value_parser = str::parse::<Registry>, help_heading = "Network")]
    pub(crate) allow_registry: Vec<Registry>,
    /// A secret that stays outside and is put into requests to its hosts: NAME=env:VARIABLE@HOST; also file:PATH,
    /// cmd:COMMAND, store:NAME
    #[arg(long, value_name = "SPEC", help_heading = "Network")]
    pub(crate) secret: Vec<String>,
    /// Open a system call
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = "System calls")]
    pub(crate) allow_syscall: Vec<String>,
    /// Close a system call
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = "System calls")]
    pub(crate) deny_syscall: Vec<String>,
    /// End the command after this time
    #[arg(long, value_name = "TIME", value_parser = bound::<Span>, help_heading = "Limits")]
    pub(crate) timeout: Option<Bound<Span>>,
    /// Processors' worth of time: 1.5
    #[arg(long, value_name = "N", value_parser = cpus, allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) cpus: Option<Bound<Cpus>>,
    /// Memory
    #[arg(long, value_name = "SIZE", value_parser = bound::<ByteSize>, help_heading = "Limits")]
    pub(crate) memory: Option<Bound<ByteSize>>,
    /// Processes and threads at one time
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) pids: Option<Bound<u32>>,
    /// Bytes written to private layers
    #[arg(long, value_name = "SIZE", value_parser = bound::<ByteSize>, help_heading = "Limits")]
    pub(crate) disk: Option<Bound<ByteSize>>,
    /// File descriptors of each process
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) open_files: Option<Bound<u32>>,
    /// Captured bytes, each of stdout and stderr (with --json)
    #[arg(long, value_name = "SIZE", value_parser = bound::<ByteSize>, help_heading = "Limits")]
    pub(crate) output_limit: Option<Bound<ByteSize>>,
    /// Connections out at one time
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) connections: Option<Bound<u32>>,
    /// Bytes a second over the network, in each direction
    #[arg(long, value_name = "SIZE", value_parser = bound::<ByteSize>, help_heading = "Limits")]
    pub(crate) bandwidth: Option<Bound<ByteSize>>,
    /// Give up a clause: network, syscalls, limits.memory …
    #[arg(long, value_name = "CLAUSE", value_parser = Clause::parse_waivable, help_heading = "Policy")]
    pub(crate) waive: Vec<Clause>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum NetworkChoice {
    Off,
    Allow,
    Open,
}

/// Show, check and describe policies.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ringfence policy show\n  ringfence policy check ringfence.toml\n  ringfence policy schema > policy.schema.json"
)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) verb: PolicyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// The policy that a run here would have, and where each clause comes from
    #[command(
        after_help = "Examples:\n  ringfence policy show --profile restrictive\n  ringfence policy show --memory 1G --json"
    )]
    Show(Box<PolicyShowArgs>),
    /// The JSON Schema of a policy file
    #[command(after_help = "Example:\n  ringfence policy schema > policy.schema.json")]
    Schema,
    /// Another tool's settings as a policy, with what became of each
    #[command(
        after_help = "The policy is never looser than the settings: what can't be said as it is becomes tighter, and the table says so.\n\nExamples:\n  ringfence policy import --from claude-code\n  ringfence policy import --from srt ~/.srt-settings.json > ringfence.toml\n  ringfence policy import --from codex --json"
    )]
    Import(PolicyImportArgs),
    /// Is this file a policy?
    #[command(after_help = "Example:\n  ringfence policy check ringfence.toml")]
    Check {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PolicyShowArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Let a project's ringfence.toml loosen the policy, as it is now.
#[derive(Debug, Args)]
#[command(
    after_help = "A project's file may only tighten until you trust it. Trust holds for its exact content: a changed file has to be trusted again.\n\nExamples:\n  ringfence trust                  the file of this project\n  ringfence trust ../ringfence.toml\n  ringfence trust --list\n  ringfence trust --revoke"
)]
pub(crate) struct TrustArgs {
    /// The file; else the project's own
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Show what is trusted
    #[arg(long, conflicts_with_all = ["file", "revoke"])]
    pub(crate) list: bool,
    /// Take trust back
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What sandboxes blocked lately, and what would allow it.
#[derive(Debug, Args)]
#[command(
    after_help = "The newest run comes first, and number 1 is its first denial.\n\nExamples:\n  ringfence denials --last\n  ringfence denials --allow 1                  for every run of yours\n  ringfence denials --allow 2 --for project    in this project's ringfence.toml"
)]
pub(crate) struct DenialsArgs {
    /// Only those of the last run that had any
    #[arg(long)]
    pub(crate) last: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the rule that allows this one
    #[arg(long, value_name = "N", conflicts_with_all = ["last", "json"])]
    pub(crate) allow: Option<usize>,
    /// Where the rule goes
    #[arg(long = "for", value_name = "WHOSE", default_value = "user", requires = "allow")]
    pub(crate) scope: Scope,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Scope {
    /// This project's ringfence.toml
    Project,
    /// Your own config file
    User,
}

/// Keep secrets for `ringfence run --secret NAME=store:NAME@HOST`, encrypted.
#[derive(Debug, Args)]
#[command(
    after_help = "A value is typed, piped or read from a file: never an argument, which other programs can see.\n\nExamples:\n  ringfence secret set GITHUB_TOKEN\n  ringfence secret ls\n  ringfence secret rm GITHUB_TOKEN"
)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    pub(crate) verb: SecretVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Store a value, in place of an older one
    #[command(
        after_help = "Examples:\n  ringfence secret set GITHUB_TOKEN                       asks for it, without echo\n  pass github/token | ringfence secret set GITHUB_TOKEN --from-stdin\n  ringfence secret set DEPLOY_KEY --from-file ~/keys/deploy\n  ringfence run --allow-host api.example.com --secret TOKEN=store:GITHUB_TOKEN@api.example.com -- ./deploy"
    )]
    Set(SecretSetArgs),
    /// The names of what is stored
    #[command(after_help = "Example:\n  ringfence secret ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a value
    #[command(after_help = "Example:\n  ringfence secret rm GITHUB_TOKEN")]
    Rm {
        #[arg(value_name = "NAME")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SecretSetArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Read the value from stdin; one line end at its end is left out
    #[arg(long, conflicts_with = "from_file")]
    pub(crate) from_stdin: bool,
    /// Read the value from a file; one line end at its end is left out
    #[arg(long, value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Taken only to be refused, without being repeated.
    #[arg(hide = true)]
    pub(crate) value: Vec<OsString>,
}

/// What this host can enforce, and the fix for each gap.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 if the restrictive profile can be enforced whole, else 1. With --fix: 0 if the provider can be used.\n\nExamples:\n  ringfence doctor\n  ringfence doctor --json\n  ringfence doctor --fix bwrap             shows the commands, asks, and runs them\n  ringfence doctor --fix docker --dry-run  only shows them"
)]
pub(crate) struct DoctorArgs {
    /// Install or configure this provider, after showing the commands that do
    #[arg(long, value_name = "PROVIDER", value_parser = str::parse::<ProviderName>)]
    pub(crate) fix: Option<ProviderName>,
    /// With --fix: do not ask
    #[arg(long, short, requires = "fix", conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// With --fix: only show the commands
    #[arg(long, requires = "fix")]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a script that completes this command in your shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ringfence completions bash > ~/.local/share/bash-completion/completions/ringfence\n  ringfence completions fish > ~/.config/fish/completions/ringfence.fish"
)]
pub(crate) struct CompletionsArgs {
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write the man pages into a directory.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ringfence man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

pub(crate) fn bound<T>(text: &str) -> Result<Bound<T>, T::Err>
where
    T: std::str::FromStr,
{
    if text == "none" { Ok(Bound::Unlimited) } else { text.parse().map(Bound::At) }
}

pub(crate) fn cpus(text: &str) -> Result<Bound<Cpus>, String> {
    bound::<f64>(text).map(|bound| bound.map(Cpus)).map_err(|_| "write a number like 1.5, or none".to_owned())
}

pub(crate) fn count(text: &str) -> Result<Bound<u32>, String> {
    bound::<u32>(text).map_err(|_| format!("write a whole number up to {}, or none", u32::MAX))
}
