//! Where the measured programs run: copies that any user can start, and directories of their own.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use ringfence_linux::seccomp::{Arch, ClosedAction, Rules, compile};
use tempfile::TempDir;

/// A user that no machine has: an account is not needed to be ordinary.
pub(crate) const ORDINARY: u32 = 61_234;

#[derive(Debug)]
pub(crate) struct Stage {
    directory: TempDir,
    user: Option<u32>,
}

/// `words` started as this user, or as the caller.
pub(crate) fn as_user(user: Option<u32>, words: &[OsString]) -> Command {
    let Some(user) = user else {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        return command;
    };
    let user = user.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]).args(words);
    command
}

impl Stage {
    pub(crate) fn make(user: Option<u32>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        let stage = Self { directory, user };
        for name in ["bin", "etc", "home", "state", "empty", "git"] {
            let path = stage.path(name);
            fs::create_dir(&path)?;
            if !matches!(name, "bin" | "etc") {
                chown(&path, user, user)?;
            }
        }
        stage.copy_programs()?;
        for (name, text) in [
            ("passwd", "sandbox:x:1000:1000::/home/sandbox:/bin/sh\n"),
            ("group", "sandbox:x:1000:\n"),
            ("hosts", "127.0.0.1 localhost sandbox\n"),
        ] {
            fs::write(stage.path("etc").join(name), text)?;
        }
        fs::write(stage.path("etc/nothing"), "")?;
        fs::write(stage.filter(), filter()?)?;
        stage.make_repository()?;
        Ok(stage)
    }

    /// Our own seccomp filter, as bwrap reads one.
    pub(crate) fn filter(&self) -> PathBuf {
        self.path("etc/filter")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// What was built beside this program.
    fn copy_programs(&self) -> Result<()> {
        let built = std::env::current_exe()?;
        let built = built.parent().unwrap_or(Path::new("."));
        for name in ["bench", "floor", "ringfence"] {
            let from = built.join(name);
            let to = self.path("bin").join(name);
            fs::copy(&from, &to).with_context(|| {
                format!("cannot copy {}: start this with bench/run, which builds it", from.display())
            })?;
            // Pages of a file that is not yet on disk would count as dirty memory of whoever runs it.
            fs::File::open(&to)?.sync_all()?;
        }
        Ok(())
    }

    fn make_repository(&self) -> Result<()> {
        let at = self.path("git");
        let script = "git init -q . && echo text > file && git add file && \
                      git -c user.name=bench -c user.email=bench@localhost commit -q -m first";
        let status = as_user(self.user, &["/bin/sh".into(), "-c".into(), script.into()])
            .current_dir(&at)
            .env("HOME", self.path("home"))
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("git could not make a repository in {}: install git", at.display());
        }
        Ok(())
    }
}

/// Closed calls fail, unreported: bwrap has nobody who listens.
fn filter() -> Result<Vec<u8>> {
    let rules = Rules { closed: ClosedAction::Errno, ..Rules::default() };
    let program = compile(Arch::NATIVE, &rules)?;
    let bytes = program.instructions().iter().flat_map(|insn| {
        let [code_low, code_high] = insn.code.to_ne_bytes();
        let [a, b, c, d] = insn.k.to_ne_bytes();
        [code_low, code_high, insn.jt, insn.jf, a, b, c, d]
    });
    Ok(bytes.collect())
}
