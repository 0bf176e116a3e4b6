//! `ringfence session` as it is typed.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfence_policy::{ByteSize, Span};

use super::PolicyFlags;
use crate::failure::Failure;

/// Sandboxes that stay and take many commands.
#[derive(Debug, Args)]
#[command(
    after_help = "A session lives in a process of its own until `rm`, its --ttl or its --idle-timeout ends it: no daemon, and no client has to stay.\n\nExamples:\n  ringfence session create --name work\n  ringfence session exec work -- make test\n  ringfence session exec -d work -- ./server      prints a process id\n  ringfence session logs work 2 --follow\n  ringfence session shell work\n  ringfence session rm work"
)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) verb: SessionVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionVerb {
    #[command(
        after_help = "Examples:\n  ringfence session create --name work\n  ringfence session create --profile restrictive --ttl 1h --idle-timeout 10m\n  ringfence session create --allow-host api.example.com --skills"
    )]
    Create(Box<SessionCreateArgs>),
    #[command(
        after_help = "Exit status: the command's own, as with `ringfence run`.\n\nExamples:\n  ringfence session exec work -- cargo test\n  ringfence session exec --timeout 30s --cwd sub work -- ./slow\n  ringfence session exec -d work -- ./server"
    )]
    Exec(SessionExecArgs),
    /// An interactive shell
    #[command(after_help = "Example:\n  ringfence session shell work")]
    Shell(SessionNameArgs),
    #[command(
        after_help = "Examples:\n  ringfence session ls\n  ringfence session ls --all --json\n  ringfence session ls work /workspace\n  ringfence session ls work:/workspace         the same"
    )]
    Ls(SessionLsArgs),
    /// The processes of a session
    #[command(after_help = "Example:\n  ringfence session ps work")]
    Ps(SessionNameArgs),
    #[command(
        after_help = "Examples:\n  ringfence session logs work 2\n  ringfence session logs work 2 --follow --from 4096"
    )]
    Logs(SessionLogsArgs),
    #[command(
        after_help = "Examples:\n  ringfence session signal work 2 TERM\n  ringfence session signal --tree work 2 KILL"
    )]
    Signal(SessionSignalArgs),
    #[command(after_help = "Example:\n  ringfence session attach work 2")]
    Attach(SessionAttachArgs),
    #[command(
        after_help = "Examples:\n  echo hello | ringfence session stdin work 2\n  ringfence session stdin --close work 2 < file"
    )]
    Stdin(SessionStdinArgs),
    /// Wait for a process to end; with its exit status
    #[command(after_help = "Example:\n  ringfence session wait work 2")]
    Wait(SessionProcessArgs),
    /// Stop every process, until `resume`
    #[command(after_help = "Example:\n  ringfence session pause work")]
    Pause(SessionNameArgs),
    /// Let a paused session go on
    #[command(after_help = "Example:\n  ringfence session resume work")]
    Resume(SessionNameArgs),
    /// What a session uses: processor, memory, processes, disk, network
    #[command(after_help = "Example:\n  ringfence session stats work")]
    Stats(SessionNameArgs),
    #[command(after_help = "Example:\n  ringfence session extend work --ttl 2h")]
    Extend(SessionExtendArgs),
    /// Policy, receipt, denials and how it is
    #[command(after_help = "Example:\n  ringfence session inspect work --json")]
    Inspect(SessionNameArgs),
    #[command(
        after_help = "Examples:\n  ringfence session expose work 8000\n  ringfence session expose -d work 8000 --listen 127.0.0.1:9000"
    )]
    Expose(SessionExposeArgs),
    #[command(after_help = "Example:\n  ringfence session unexpose work 8000")]
    Unexpose(SessionUnexposeArgs),
    #[command(
        after_help = "Examples:\n  ringfence session rm work\n  ringfence session rm --all\n  ringfence session rm -r work:/workspace/build\n  ringfence session rm -r work /workspace/build   the same; a relative path is written work:build"
    )]
    Rm(SessionRmArgs),
    #[command(
        after_help = "DST is the new name; a directory that is there gets the copy inside it. Links are copied, never followed.\n\nExamples:\n  ringfence session cp data.csv work:/workspace/data.csv\n  ringfence session cp work:/workspace/out ./out"
    )]
    Cp(SessionCpArgs),
    /// Print a file
    #[command(
        after_help = "Examples:\n  ringfence session cat work /workspace/notes.txt\n  ringfence session cat work:notes.txt"
    )]
    Cat(SessionFileArgs),
    #[command(
        after_help = "Examples:\n  echo hello | ringfence session write work /workspace/hello.txt\n  echo hello | ringfence session write work:hello.txt"
    )]
    Write(SessionWriteArgs),
    /// What is known of a file
    #[command(
        after_help = "Examples:\n  ringfence session stat work /workspace/notes.txt\n  ringfence session stat work:notes.txt"
    )]
    Stat(SessionFileArgs),
    #[command(
        after_help = "Examples:\n  ringfence session mkdir -p work /workspace/a/b\n  ringfence session mkdir -p work:a/b"
    )]
    Mkdir(SessionMkdirArgs),
    #[command(after_help = "Example:\n  ringfence session mv work:/workspace/a work:/workspace/b")]
    Mv(SessionMvArgs),
    #[command(
        after_help = "A snapshot is of the workspace and, where it is the session's own, the home. What did not change since the last one costs nothing.\n\nExamples:\n  ringfence session snapshot work --name before-upgrade\n  ringfence snapshot ls"
    )]
    Snapshot(SessionSnapshotArgs),
    #[command(after_help = "Example:\n  ringfence session rollback work before-upgrade")]
    Rollback(SessionRollbackArgs),
    #[command(
        after_help = "The new sessions are like the one that they come from; more flags of `session create` can be added.\n\nExamples:\n  ringfence session fork work --count 3\n  ringfence session fork before-upgrade --name again"
    )]
    Fork(Box<SessionForkArgs>),
    #[command(
        after_help = "Examples:\n  ringfence session diff work                      a session that was made with --overlay or --keep-start\n  ringfence session diff work --since before-upgrade --list"
    )]
    Diff(SessionDiffArgs),
    #[command(
        after_help = "Each file is replaced whole; one that you changed meanwhile stops the commit, and is named. Protected names are left out.\n\nExamples:\n  ringfence session commit work\n  ringfence session commit work --only src\n  ringfence session commit work --undo              an interrupted one"
    )]
    Commit(SessionCommitArgs),
    /// Print changes below a path as they happen
    #[command(
        after_help = "Examples:\n  ringfence session watch work /workspace --json\n  ringfence session watch work:src"
    )]
    Watch(SessionFileArgs),
}

/// Make a session and print its name.
#[derive(Debug, Default, Args)]
pub(crate) struct SessionCreateArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// What to call it; else it gets a name of its own
    #[arg(long, value_name = "NAME", help_heading = "Session")]
    pub(crate) name: Option<String>,
    /// End it after this time
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Session")]
    pub(crate) ttl: Option<Span>,
    /// End it when nothing has run in it and nobody has asked for it for this time
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Session")]
    pub(crate) idle_timeout: Option<Span>,
    /// Use a workspace of this name, which outlives the session: NAME or TEAM/NAME
    #[arg(long, value_name = "NAME", conflicts_with = "workspace", help_heading = "Files")]
    pub(crate) workspace_name: Option<String>,
    /// Keep what it writes to the workspace apart, for `session diff` and `session commit`
    #[arg(long, help_heading = "Files")]
    pub(crate) overlay: bool,
    /// Take a snapshot of the workspace first, for `session diff`: content that is kept already costs nothing
    #[arg(long, conflicts_with = "overlay", help_heading = "Files")]
    pub(crate) keep_start: bool,
    /// Commands start in this directory of the sandbox
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    pub(crate) cwd: Option<PathBuf>,
    /// A default limit that this host can't enforce is an error
    #[arg(long, help_heading = "Session")]
    pub(crate) strict: bool,
    /// Report every refused file access
    #[arg(long, help_heading = "Session")]
    pub(crate) trace: bool,
    /// Show this skill at /skills, read-only, with what its scripts need: a name, a directory or an archive
    #[arg(long, value_name = "SKILL", help_heading = "Skills", conflicts_with = "skills")]
    pub(crate) skill: Vec<OsString>,
    /// Show the whole skill library at /skills, read-only
    #[arg(long, help_heading = "Skills")]
    pub(crate) skills: bool,
    /// The library's directory, if it is not yours
    #[arg(long, value_name = "DIR", help_heading = "Skills")]
    pub(crate) library: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

fn span(text: &str) -> Result<Span, String> {
    text.parse::<Span>().map_err(|error| error.to_string())
}

/// Run a command in a session.
#[derive(Debug, Default, Args)]
pub(crate) struct SessionExecArgs {
    /// Start in this directory of the sandbox
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Set a variable
    #[arg(long, value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// End the command, and all that it started, after this time
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) timeout: Option<Span>,
    /// Give the command a terminal of its own
    #[arg(short = 't', long = "tty")]
    pub(crate) terminal: bool,
    /// Let it go on by itself, keep its output, and print its process id
    #[arg(short = 'd', long)]
    pub(crate) detach: bool,
    /// With -d: keep its stdin open for `session stdin` and `session attach`
    #[arg(short = 'i', long, requires = "detach")]
    pub(crate) interactive: bool,
    /// Print one JSON object: exit code, output, usage, denials
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionNameArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The sessions that there are, or the files of a directory of one
#[derive(Debug, Args)]
pub(crate) struct SessionLsArgs {
    /// A directory of a session: NAME:PATH, or NAME and PATH
    #[arg(value_name = "NAME[:PATH]", conflicts_with = "all")]
    pub(crate) directory: Option<OsString>,
    #[arg(value_name = "PATH", requires = "directory")]
    pub(crate) path: Option<OsString>,
    /// Those that ended too
    #[arg(long, short = 'a')]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionProcessArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[arg(value_name = "PROCESS")]
    pub(crate) process: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The output of a detached process, from any point of it
#[derive(Debug, Args)]
pub(crate) struct SessionLogsArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[arg(value_name = "PROCESS")]
    pub(crate) process: u32,
    /// Go on until the process ends
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Leave so many bytes out at the start
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    pub(crate) from: u64,
    /// Print JSON, one object a piece, with the offset to go on from
    #[arg(long)]
    pub(crate) json: bool,
}

/// Send a signal to a process
#[derive(Debug, Args)]
pub(crate) struct SessionSignalArgs {
    /// Kill it and all that it started, wherever that went
    #[arg(long)]
    pub(crate) tree: bool,
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[arg(value_name = "PROCESS")]
    pub(crate) process: u32,
    /// TERM, KILL, INT, HUP … or a number
    #[arg(value_name = "SIGNAL", default_value = "TERM")]
    pub(crate) signal: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Follow a detached process, and type to it
#[derive(Debug, Args)]
pub(crate) struct SessionAttachArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[arg(value_name = "PROCESS")]
    pub(crate) process: u32,
    /// From this offset of its output on; else from now
    #[arg(long, value_name = "OFFSET")]
    pub(crate) from: Option<u64>,
    /// Print JSON: an object for each piece of output, and one for how it ended
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write this command's stdin to a process that was started with -d -i
#[derive(Debug, Args)]
pub(crate) struct SessionStdinArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[arg(value_name = "PROCESS")]
    pub(crate) process: u32,
    /// Close it afterwards
    #[arg(long)]
    pub(crate) close: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give a session more time
#[derive(Debug, Args)]
pub(crate) struct SessionExtendArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// End it after this time from now on
    #[arg(long, value_name = "TIME", value_parser = span, required_unless_present = "idle_timeout")]
    pub(crate) ttl: Option<Span>,
    /// End it when it has been idle for this time
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) idle_timeout: Option<Span>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Forward a port of this machine's loopback to one inside
#[derive(Debug, Args)]
pub(crate) struct SessionExposeArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The port inside
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Where to listen; else the same port of 127.0.0.1. Only loopback
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Go on in the background, until `unexpose` or the session's end
    #[arg(short = 'd', long)]
    pub(crate) detach: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Forward a port no longer
#[derive(Debug, Args)]
pub(crate) struct SessionUnexposeArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[arg(value_name = "PORT")]
    pub(crate) port: u16,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// End sessions and take their files away; or remove a file of one
#[derive(Debug, Args)]
pub(crate) struct SessionRmArgs {
    /// Sessions; or files of them, as NAME:PATH or as NAME and a PATH with a slash
    #[arg(value_name = "NAME|NAME:PATH", required_unless_present = "all")]
    pub(crate) names: Vec<OsString>,
    /// All sessions
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Directories too, with all that is in them
    #[arg(short = 'r', long)]
    pub(crate) recursive: bool,
    /// A session whose keeper does not answer too: the keeper is killed
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A place in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) session: String,
    pub(crate) path: PathBuf,
}

impl Inside {
    /// `NAME:PATH`, unless it is a local path: one with a slash before its first colon.
    pub(crate) fn parse(text: &OsStr) -> Option<Self> {
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|&byte| byte == b':')?;
        let session = std::str::from_utf8(&bytes[..colon]).ok()?;
        if session.is_empty() || session.contains('/') {
            return None;
        }
        Some(Self { session: session.to_owned(), path: OsStr::from_bytes(&bytes[colon + 1..]).into() })
    }

    /// `NAME:PATH`, or `NAME` and `PATH`.
    pub(crate) fn of(name: &OsStr, path: Option<&OsStr>) -> Result<Self, Failure> {
        match (Self::parse(name), path) {
            (Some(inside), None) => Ok(inside),
            (None, Some(path)) if path.is_empty() => Err(Failure::new(
                "the path is empty",
                format!("name the file, or `{}:` for where its commands start", name.display()),
            )),
            (None, Some(path)) => Ok(Self {
                // No name has other bytes: it is then one that there is no session of.
                session: name.to_string_lossy().into_owned(),
                path: path.into(),
            }),
            (Some(_), Some(path)) => Err(Failure::new(
                format!("`{}` names a file already, and so does `{}`", name.display(), path.display()),
                "write NAME:PATH, or NAME and PATH",
            )),
            (None, None) => Err(Failure::new(
                format!("`{}` names a session and no file of it", name.display()),
                format!("write {0}:PATH, or {0} PATH", name.display()),
            )),
        }
    }

    /// Two words that can only be a session and a file of it: no session has a slash in its name.
    pub(crate) fn of_two(words: &[OsString]) -> Option<Self> {
        let [name, path] = words else { return None };
        let has_slash = |word: &OsStr| word.as_bytes().contains(&b'/');
        if Self::parse(name).is_some() || has_slash(name) || Self::parse(path).is_some() || !has_slash(path) {
            return None;
        }
        Self::of(name, Some(path)).ok()
    }
}

/// A place in a session as it is typed: in one word or in two.
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// A session and a file of it: NAME:PATH, or NAME and PATH
    #[arg(value_name = "NAME[:PATH]")]
    pub(crate) name: OsString,
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<OsString>,
}

impl InsideArgs {
    pub(crate) fn resolve(&self) -> Result<Inside, Failure> {
        Inside::of(&self.name, self.path.as_deref())
    }
}

fn inside(text: &str) -> Result<Inside, String> {
    Inside::parse(OsStr::new(text)).ok_or_else(|| "a file of a session is NAME:PATH".to_owned())
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Inside(Inside),
    Local(PathBuf),
}

fn end(text: &str) -> Result<End, std::convert::Infallible> {
    Ok(Inside::parse(OsStr::new(text)).map_or_else(|| End::Local(text.into()), End::Inside))
}

/// Copy files and trees into a session and out of it
#[derive(Debug, Args)]
pub(crate) struct SessionCpArgs {
    #[arg(value_name = "SRC", value_parser = end)]
    pub(crate) from: End,
    #[arg(value_name = "DST", value_parser = end)]
    pub(crate) to: End,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionFileArgs {
    #[command(flatten)]
    pub(crate) file: InsideArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write stdin to a file, in place of what it held
#[derive(Debug, Args)]
pub(crate) struct SessionWriteArgs {
    #[command(flatten)]
    pub(crate) file: InsideArgs,
    /// Its mode, in octal
    #[arg(long, value_name = "MODE", value_parser = octal, default_value = "644")]
    pub(crate) mode: u32,
    /// Only if there is no such file yet
    #[arg(long)]
    pub(crate) new: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("a mode is octal, like 644".to_owned()),
    }
}

/// Make a directory
#[derive(Debug, Args)]
pub(crate) struct SessionMkdirArgs {
    #[command(flatten)]
    pub(crate) directory: InsideArgs,
    /// Those above it too; one that is there is all right
    #[arg(short = 'p', long)]
    pub(crate) parents: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give a file another name
#[derive(Debug, Args)]
pub(crate) struct SessionMvArgs {
    #[arg(value_name = "NAME:PATH", value_parser = inside)]
    pub(crate) from: Inside,
    #[arg(value_name = "NAME:PATH", value_parser = inside)]
    pub(crate) to: Inside,
    /// Replace what has that name
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Keep a session's files as they are now
#[derive(Debug, Args)]
pub(crate) struct SessionSnapshotArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What to call it; else the session's name
    #[arg(long = "name", value_name = "SNAPSHOT", id = "snapshot_name")]
    pub(crate) snapshot: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Bring a session's files back to a snapshot
#[derive(Debug, Args)]
pub(crate) struct SessionRollbackArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshot: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make sessions that begin where a session, or a snapshot, is
#[derive(Debug, Args)]
pub(crate) struct SessionForkArgs {
    /// A session or a snapshot
    #[arg(value_name = "NAME|SNAPSHOT")]
    pub(crate) from: String,
    /// How many
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) count: u16,
    /// What to call it; several get a number each
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// More flags of `session create`
    #[arg(value_name = "FLAGS", last = true)]
    pub(crate) flags: Vec<OsString>,
}

/// What a session changed in its workspace
#[derive(Debug, Args)]
pub(crate) struct SessionDiffArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Since this snapshot; else since its start, where that is known: --overlay, --keep-start or a private workspace
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) since: Option<String>,
    /// Only which files
    #[arg(long)]
    pub(crate) list: bool,
    /// Print JSON: the list and the text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Apply what a session wrote to your own directory
#[derive(Debug, Args)]
pub(crate) struct SessionCommitArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Only this path of the workspace, and what is in it
    #[arg(long, value_name = "PATH")]
    pub(crate) only: Vec<PathBuf>,
    /// Carry an interrupted commit on to its end
    #[arg(long, conflicts_with_all = ["only", "undo"])]
    pub(crate) finish: bool,
    /// Take an interrupted commit back
    #[arg(long, conflicts_with = "only")]
    pub(crate) undo: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Kept states of sessions.
#[derive(Debug, Args)]
#[command(
    after_help = "A snapshot is named by its id, the beginning of one, or its name (the newest of that name).\n\nExamples:\n  ringfence snapshot ls\n  ringfence snapshot export before-upgrade state.tar.zst\n  ringfence snapshot verify"
)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    pub(crate) verb: SnapshotVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotVerb {
    /// The snapshots that there are, the newest first
    #[command(after_help = "Example:\n  ringfence snapshot ls --json")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove snapshots, and what no other one needs
    #[command(after_help = "Example:\n  ringfence snapshot rm before-upgrade")]
    Rm {
        #[arg(value_name = "SNAPSHOT", required = true)]
        snapshots: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a snapshot to a file: .tar or .tar.zst
    #[command(after_help = "Example:\n  ringfence snapshot export before-upgrade state.tar.zst")]
    Export {
        #[arg(value_name = "SNAPSHOT")]
        snapshot: String,
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a snapshot in that was exported
    #[command(after_help = "Example:\n  ringfence snapshot import state.tar.zst")]
    Import {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read every byte again, and name what is damaged
    #[command(after_help = "Example:\n  ringfence snapshot verify")]
    Verify {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Workspaces that outlive the sessions which write them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ringfence workspace create team/data --size 2G\n  ringfence session create --workspace-name team/data\n  ringfence workspace ls"
)]
pub(crate) struct WorkspaceArgs {
    #[command(subcommand)]
    pub(crate) verb: WorkspaceVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceVerb {
    /// Make one; `session create --workspace-name` does so too
    #[command(after_help = "Example:\n  ringfence workspace create team/data --size 2G")]
    Create {
        #[arg(value_name = "NAME")]
        name: String,
        /// What its files may take up, in all sessions; needs root
        #[arg(long, value_name = "SIZE")]
        size: Option<ByteSize>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The workspaces that there are
    #[command(after_help = "Example:\n  ringfence workspace ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What one takes up
    #[command(after_help = "Example:\n  ringfence workspace du team/data")]
    Du {
        #[arg(value_name = "NAME")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove one with all its files
    #[command(after_help = "Example:\n  ringfence workspace rm team/data")]
    Rm {
        #[arg(value_name = "NAME")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
