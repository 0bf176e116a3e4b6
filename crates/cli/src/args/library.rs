//! The verbs of `ringfence skill` that run nothing, as they are typed: one struct a verb.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ringfence_service::skills::{EditsOf, Format, Language, Severity};

#[derive(Debug, Subcommand)]
pub(crate) enum SkillLibraryVerb {
    /// Add skills to the library
    #[command(after_help = ADD_HELP)]
    Add(SkillAddArgs),
    /// What is in the library
    #[command(
        after_help = "STATE is published, edited (by hand, since it was published), unpublished (made by hand) or unfit (it holds what no skill can have).\n\nExamples:\n  ringfence skill list\n  ringfence skill list --domain office --json\n  ringfence skill list --all          also those of .agents/skills, .claude/skills and the like"
    )]
    List(SkillListArgs),
    /// Find skills by words, best first; typos are forgiven
    #[command(
        after_help = "Examples:\n  ringfence skill search extract tables from pdf\n  ringfence skill search --limit 3 --json invoice"
    )]
    Search(SkillSearchArgs),
    /// Everything that is known of a skill
    #[command(
        after_help = "Examples:\n  ringfence skill show pdf-tools\n  ringfence skill show ./my-skill --json"
    )]
    Show(SkillShowArgs),
    /// Print a skill's SKILL.md, or another file of it
    #[command(
        after_help = "On a terminal, control characters are shown and not sent; in a pipe the bytes are as they are.\n\nExamples:\n  ringfence skill cat pdf-tools\n  ringfence skill cat pdf-tools scripts/extract.py"
    )]
    Cat(SkillCatArgs),
    /// A skill's properties as JSON, as the reference tool prints them
    #[command(after_help = "Example:\n  ringfence skill properties pdf-tools | jq -r .description")]
    Properties(SkillPropertiesArgs),
    /// The <available_skills> block for an agent's prompt
    #[command(
        after_help = "Examples:\n  ringfence skill prompt\n  ringfence skill prompt pdf-tools office/invoice\n  ringfence skill prompt --host-paths   where the files are here, instead of in a sandbox"
    )]
    Prompt(SkillPromptArgs),
    /// Check manifests
    #[command(after_help = VALIDATE_HELP)]
    Validate(SkillValidateArgs),
    /// Look for what is suspicious
    #[command(after_help = LINT_HELP)]
    Lint(SkillLintArgs),
    /// Make an archive; the same skill gives the same bytes
    #[command(
        after_help = "Caches, node_modules, .git and evals are left out.\n\nExamples:\n  ringfence skill pack ./my-skill\n  ringfence skill pack ./my-skill -o /tmp/my-skill.tar.zst\n  ringfence skill pack ./my-skill --image host:python3"
    )]
    Pack(SkillPackArgs),
    /// Make a new skill to start from
    #[command(
        after_help = "Examples:\n  ringfence skill new word-count\n  ringfence skill new resize --template node --description 'Resizes images.' --dir ~/skills"
    )]
    New(SkillNewArgs),
    /// Make an edit by hand a version
    #[command(after_help = "Example:\n  ringfence skill publish pdf-tools")]
    Publish(SkillPublishArgs),
    /// What happened to a skill; also to one that was removed
    #[command(after_help = "Example:\n  ringfence skill history pdf-tools")]
    History(SkillHistoryArgs),
    /// Go back to a version of a skill, or bring a removed one back
    #[command(
        after_help = "Without DIGEST it is the version before the present one. Six digits of one are enough.\n\nExamples:\n  ringfence skill rollback pdf-tools\n  ringfence skill rollback pdf-tools 3f2a91c0d4e7"
    )]
    Rollback(SkillRollbackArgs),
    /// Take skills out of the library; their versions stay
    #[command(
        after_help = "Examples:\n  ringfence skill remove pdf-tools\n  ringfence skill remove office/invoice --discard-edits"
    )]
    Remove(SkillRemoveArgs),
    /// Pin every skill of the library in a lock file
    #[command(
        after_help = "Examples:\n  ringfence skill lock\n  ringfence skill lock -o team/skills.lock\n  ringfence skill add --frozen          brings the library to what skills.lock says"
    )]
    Lock(SkillLockArgs),
    /// Which skills have a newer version where they came from
    #[command(after_help = "Example:\n  ringfence skill outdated")]
    Outdated(SkillOutdatedArgs),
    /// Take the newest version of skills from where they came
    #[command(
        after_help = "Examples:\n  ringfence skill update\n  ringfence skill update pdf-tools --keep-edits"
    )]
    Update(SkillUpdateArgs),
    /// Check every byte of the library
    #[command(
        after_help = "What killed processes left is cleared first.\n\nExit status: 0 if all is in order, 1 if something is wrong."
    )]
    Verify(SkillVerifyArgs),
}

const ADD_HELP: &str = "\
SOURCE is a directory, an archive (.skill, .zip, .tar, .tar.gz, .tar.zst), or a git repository: https://HOST/PATH,
file:///PATH, or a directory with --rev. A directory in it follows a #, or --path. A repository is fetched by git in a
sandbox that reaches that one host, without your keys and configuration.

What the skill asks for and lint findings of high severity are shown. A critical finding refuses the skill, and the
library stays as it was. Nothing is granted: see `ringfence skill grant`.

Examples:
  ringfence skill add ./my-skill
  ringfence skill add my-skill.skill --domain office
  ringfence skill add https://example.com/team/skills#office/pdf-tools --rev v2
  ringfence skill add https://example.com/team/skills --all
  ringfence skill add ./my-skill --replace
  ringfence skill add --frozen                          everything that skills.lock names, to the byte";

const VALIDATE_HELP: &str = "\
Without --strict a skill is valid if clients can load it, and what they overlook is a warning. With it, the verdict is
that of the reference validator.

Exit status: 0 if all are valid, 1 if one is not, 125 if a path can't be read.

Examples:
  ringfence skill validate ./my-skill
  ringfence skill validate --strict skills/*/ --json";

const LINT_HELP: &str = "\
Lint is advice: it knows what is commonly done, and can be got round. The sandbox is the control.

Exit status: 0 if there is nothing as severe as --fail-on, else 1; 125 if a path can't be read.

Examples:
  ringfence skill lint ./my-skill
  ringfence skill lint --fail-on medium skills/*/
  ringfence skill lint --format sarif ./my-skill > lint.sarif
  ringfence skill lint --rules";

/// Which library.
#[derive(Debug, Default, Args)]
pub(crate) struct LibraryFlags {
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What becomes of an edit by hand that is in the way.
#[derive(Debug, Default, Args)]
pub(crate) struct EditFlags {
    /// Make an edit by hand a version first
    #[arg(long, conflicts_with = "discard_edits")]
    pub(crate) keep_edits: bool,
    /// Throw an edit by hand away
    #[arg(long)]
    pub(crate) discard_edits: bool,
}

impl EditFlags {
    pub(crate) fn edits(&self) -> EditsOf {
        match (self.keep_edits, self.discard_edits) {
            (true, _) => EditsOf::Keep,
            (_, true) => EditsOf::Discard,
            _ => EditsOf::Refuse,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SkillAddArgs {
    /// A directory, an archive or a git repository
    #[arg(value_name = "SOURCE", required_unless_present = "frozen")]
    pub(crate) source: Option<OsString>,
    /// A directory of the source
    #[arg(long, value_name = "DIR", requires = "source")]
    pub(crate) path: Option<String>,
    /// A branch, tag or whole commit of a repository
    #[arg(long, value_name = "REV", requires = "source")]
    pub(crate) rev: Option<String>,
    /// Every skill of the source
    #[arg(long, requires = "source")]
    pub(crate) all: bool,
    /// The group that it goes to
    #[arg(long, value_name = "DOMAIN", requires = "source")]
    pub(crate) domain: Option<String>,
    /// Another name than its own
    #[arg(long, value_name = "NAME", requires = "source")]
    pub(crate) name: Option<String>,
    /// Make it the new version of the skill that is there
    #[arg(long)]
    pub(crate) replace: bool,
    /// Only what the lock file pins, to the byte
    #[arg(long)]
    pub(crate) frozen: bool,
    /// The lock file, if it is not ./skills.lock
    #[arg(long, value_name = "FILE", requires = "frozen")]
    pub(crate) lock: Option<PathBuf>,
    /// Take it in spite of critical findings
    #[arg(long)]
    pub(crate) accept_findings: bool,
    #[command(flatten)]
    pub(crate) edits: EditFlags,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillListArgs {
    /// Only those of one group
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Also skills that other clients keep in this project and in your home
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillSearchArgs {
    /// Words
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillShowArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: OsString,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillCatArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: OsString,
    /// A path in the skill
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SkillPropertiesArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: OsString,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SkillPromptArgs {
    /// Without one: every skill
    #[arg(value_name = "SKILL")]
    pub(crate) skills: Vec<String>,
    /// Where the files are on this machine
    #[arg(long)]
    pub(crate) host_paths: bool,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillValidateArgs {
    /// Directories, archives, or skills of the library
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<OsString>,
    /// The verdict of the reference validator
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    #[default]
    Table,
    Json,
    Sarif,
}

#[derive(Debug, Args)]
pub(crate) struct SkillLintArgs {
    /// Directories, archives, or skills of the library
    #[arg(value_name = "PATH", required_unless_present = "rules")]
    pub(crate) paths: Vec<OsString>,
    /// Exit with 1 from this severity on: info, low, medium, high, critical, or never
    #[arg(long, value_name = "SEVERITY", default_value = "high", value_parser = fail_on)]
    pub(crate) fail_on: FailOn,
    /// How findings are printed
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    pub(crate) format: LintFormat,
    /// Print every rule instead
    #[arg(long, conflicts_with = "paths")]
    pub(crate) rules: bool,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

/// From which severity on lint fails; nothing is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailOn(pub(crate) Option<Severity>);

fn fail_on(text: &str) -> Result<FailOn, String> {
    if text == "never" {
        return Ok(FailOn(None));
    }
    let found = Severity::parse(text).map(|severity| FailOn(Some(severity)));
    found.ok_or_else(|| "write info, low, medium, high, critical or never".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct SkillPackArgs {
    /// The directory of a skill, or a skill of the library
    #[arg(value_name = "DIR")]
    pub(crate) directory: OsString,
    /// The archive; else NAME.skill here
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// zip, tar, tar-gz or tar-zst; else by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) format: Option<Format>,
    /// Pack an image with it, as a root filesystem that `ringfence image build --from` takes; `host:python3,git` makes one
    #[arg(long, value_name = "IMAGE", conflicts_with = "format")]
    pub(crate) image: Option<String>,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "zip" | "skill" => Ok(Format::Zip),
        "tar" => Ok(Format::Tar),
        "tar-gz" | "tar.gz" | "tgz" => Ok(Format::TarGz),
        "tar-zst" | "tar.zst" | "tzst" => Ok(Format::TarZst),
        _ => Err("write zip, tar, tar-gz or tar-zst".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct SkillNewArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// python, bash or node
    #[arg(long, value_name = "LANGUAGE", default_value = "python", value_parser = language)]
    pub(crate) template: Language,
    /// What it does and when to use it
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Where its directory is made; else here
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn language(text: &str) -> Result<Language, String> {
    match text {
        "python" => Ok(Language::Python),
        "bash" => Ok(Language::Bash),
        "node" => Ok(Language::Node),
        _ => Err("write python, bash or node".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct SkillPublishArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: String,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillHistoryArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: String,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillRollbackArgs {
    #[arg(value_name = "SKILL")]
    pub(crate) skill: String,
    #[arg(value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    #[command(flatten)]
    pub(crate) edits: EditFlags,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillRemoveArgs {
    #[arg(value_name = "SKILL", required = true)]
    pub(crate) skills: Vec<String>,
    #[command(flatten)]
    pub(crate) edits: EditFlags,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillLockArgs {
    /// Only these; else every skill that can be read
    #[arg(value_name = "SKILL")]
    pub(crate) skills: Vec<String>,
    /// The lock file; else ./skills.lock; `-` prints it
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillOutdatedArgs {
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillUpdateArgs {
    /// Without one: every skill
    #[arg(value_name = "SKILL")]
    pub(crate) skills: Vec<String>,
    /// Take it in spite of critical findings
    #[arg(long)]
    pub(crate) accept_findings: bool,
    #[command(flatten)]
    pub(crate) edits: EditFlags,
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SkillVerifyArgs {
    #[command(flatten)]
    pub(crate) flags: LibraryFlags,
}
