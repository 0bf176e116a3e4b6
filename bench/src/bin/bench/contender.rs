//! Who is measured, and with what: each contender as the words that it puts before a command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::stage::Stage;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Exec,
    Floor,
    Bwrap,
    Restrictive,
    Moderate,
    ModerateGit,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Exec, Self::Floor, Self::Bwrap, Self::Restrictive, Self::Moderate, Self::ModerateGit];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Exec => "plain exec",
            Self::Floor => "floor",
            Self::Bwrap => "bwrap",
            Self::Restrictive => "ringfence, restrictive",
            Self::Moderate => "ringfence, moderate",
            Self::ModerateGit => "ringfence, moderate, git repository",
        }
    }
}

/// A command, how it is written in a report, and what it must print.
pub(crate) const COMMANDS: &[(&[&str], &str, &str)] = &[
    (&["/bin/true"], "/bin/true", ""),
    (&["/bin/bash", "-c", "echo hi"], "bash -c 'echo hi'", "hi\n"),
    (&["/usr/bin/python3", "-c", "print(1)"], "python3 -c 'print(1)'", "1\n"),
];

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contender {
    pub(crate) kind: Kind,
    prefix: Vec<OsString>,
    directory: PathBuf,
}

/// Everything that a measuring process needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) quick: bool,
    pub(crate) programs: PathBuf,
    pub(crate) contenders: Vec<Contender>,
    environment: Vec<(String, OsString)>,
    filter: PathBuf,
}

impl Setup {
    pub(crate) fn new(stage: &Stage, quick: bool) -> Result<Self> {
        let home = stage.path("home");
        let environment = vec![
            ("PATH".into(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into()),
            ("HOME".into(), home.clone().into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("TERM".into(), "xterm".into()),
            ("RINGFENCE_STATE_DIR".into(), stage.path("state").into()),
        ];
        let programs = stage.path("bin");
        let ringfence = |profile: &[&str]| {
            let mut words: Vec<OsString> = vec![programs.join("ringfence").into(), "run".into()];
            words.extend(profile.iter().map(Into::into));
            words.push("--".into());
            words
        };
        let empty = stage.path("empty");
        let mut contenders = Vec::new();
        for kind in Kind::ALL {
            let prefix = match kind {
                Kind::Exec => Vec::new(),
                Kind::Floor => vec![programs.join("floor").into()],
                Kind::Bwrap => bwrap(stage),
                Kind::Restrictive => ringfence(&["--profile", "restrictive"]),
                Kind::Moderate | Kind::ModerateGit => ringfence(&[]),
            };
            let directory = if kind == Kind::ModerateGit { stage.path("git") } else { empty.clone() };
            contenders.push(Contender { kind, prefix, directory });
        }
        Ok(Self { quick, programs, contenders, environment, filter: stage.filter() })
    }

    pub(crate) fn words(&self, contender: &Contender, words: &[&str]) -> Vec<OsString> {
        contender.prefix.iter().cloned().chain(words.iter().map(Into::into)).collect()
    }

    /// The command in the contender's sandbox, with no input and nobody to read its output.
    pub(crate) fn command(&self, contender: &Contender, words: &[&str]) -> Command {
        let words = self.words(contender, words);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.surround(&mut command, contender);
        command
    }

    /// Environment, directory and stdio, the same for all.
    pub(crate) fn surround(&self, command: &mut Command, contender: &Contender) {
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&contender.directory)
            .stdin(self.input(contender))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }

    /// Nothing to read; bwrap takes its filter from there.
    fn input(&self, contender: &Contender) -> Stdio {
        let file = if contender.kind == Kind::Bwrap { std::fs::File::open(&self.filter).ok() } else { None };
        file.map_or_else(Stdio::null, Stdio::from)
    }

    /// Each contender really runs each command, or the figures would be of something else.
    pub(crate) fn check(&self) -> Result<()> {
        for contender in &self.contenders {
            for (words, shown, prints) in COMMANDS {
                let mut command = self.command(contender, words);
                let output = command
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .output()
                    .with_context(|| format!("cannot start {}", contender.kind.label()))?;
                if !output.status.success() || output.stdout != prints.as_bytes() {
                    bail!(
                        "{} did not run {shown}: {}, printed {:?}, said {:?}",
                        contender.kind.label(),
                        output.status,
                        String::from_utf8_lossy(&output.stdout),
                        String::from_utf8_lossy(&output.stderr)
                    );
                }
            }
        }
        Ok(())
    }
}

/// The policy of bwrap that is nearest to restrictive, masked paths and our seccomp filter (on stdin) included. It has
/// no limits, no Landlock and no reports.
fn bwrap(stage: &Stage) -> Vec<OsString> {
    let mut words: Vec<OsString> = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--hostname",
        "sandbox",
        "--seccomp",
        "0",
    ]
    .map(Into::into)
    .to_vec();
    for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu"] {
        let path = Path::new("/").join(name);
        match std::fs::read_link(&path) {
            Ok(to) => words.extend(["--symlink".into(), to.into(), path.into()]),
            Err(_) if path.is_dir() => words.extend(["--ro-bind".into(), path.clone().into(), path.into()]),
            Err(_) => {}
        }
    }
    for name in ["passwd", "group", "hosts"] {
        words.extend([
            "--ro-bind".into(),
            stage.path("etc").join(name).into(),
            Path::new("/etc").join(name).into(),
        ]);
    }
    for (flag, target) in [
        ("--dev", "/dev"),
        ("--tmpfs", "/dev/shm"),
        ("--tmpfs", "/tmp"),
        ("--tmpfs", "/var/tmp"),
        ("--tmpfs", "/run"),
        ("--proc", "/proc"),
        ("--tmpfs", "/home/sandbox"),
        ("--tmpfs", "/workspace"),
        ("--chdir", "/workspace"),
    ] {
        words.extend([flag.into(), target.into()]);
    }
    for (empty, names) in
        [("empty", &["acpi", "asound", "scsi"][..]), ("etc/nothing", &["interrupts", "keys", "timer_list"])]
    {
        for name in names {
            let path = Path::new("/proc").join(name);
            if path.exists() {
                words.extend(["--ro-bind".into(), stage.path(empty).into(), path.into()]);
            }
        }
    }
    words.extend(["--remount-ro", "/"].map(Into::into));
    if rustix::process::getuid().is_root() && stage.user().is_none() {
        words.extend(["--uid", "1000", "--gid", "1000"].map(Into::into));
    }
    words.extend(["--cap-drop", "ALL", "--clearenv"].map(Into::into));
    for (name, value) in [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/home/sandbox"),
        ("USER", "sandbox"),
        ("LANG", "C.UTF-8"),
        ("TERM", "xterm"),
        ("TMPDIR", "/tmp"),
    ] {
        words.extend(["--setenv", name, value].map(Into::into));
    }
    words.push("--".into());
    words
}
