//! A state directory of its own with sessions in it, and the command that makes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use ringfence_sandbox::Sandbox;
use tempfile::TempDir;

/// What a killed bench leaves ends by itself.
pub(crate) const LIFE: &str = "1h";

pub(crate) struct Stage {
    place: TempDir,
    ringfence: PathBuf,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let place = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
        let ringfence = std::env::current_exe()?.with_file_name("ringfence");
        ensure!(ringfence.exists(), "the ringfence program is not built: cargo build --release");
        Ok(Self { place, ringfence })
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// One call of the command, ready to be started.
    pub(crate) fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.ringfence);
        command
            .args(words)
            .env("RINGFENCE_STATE_DIR", self.place.path().join("state"))
            .current_dir(self.place.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn call<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<String> {
        let output = self.command(words).output().context("cannot start ringfence")?;
        ensure!(output.status.success(), "ringfence failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    pub(crate) fn create(&self, name: &str) -> Result<Sandbox> {
        self.call(["session", "create", "--name", name, "--profile", "restrictive", "--ttl", LIFE])?;
        Ok(Sandbox::open(&self.place.path().join("state/sessions"), name)?)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.call(["session", "rm", "--all"]);
    }
}
