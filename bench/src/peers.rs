//! Tools of others that are measured beside ours: whether they are here, and a daemon of Docker's own to the bench.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// A daemon has so long to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).exists())
}

/// Its last words are why.
pub fn succeeds(command: &mut Command) -> Result<()> {
    // Not pipes: a container that is detached would hold them.
    let log = tempfile::NamedTempFile::new()?;
    let status = command.stdout(log.reopen()?).stderr(log.reopen()?).status().context("not installed")?;
    let said = fs::read_to_string(log.path()).unwrap_or_default();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    ensure!(status.success(), "{}", last.trim().chars().take(160).collect::<String>());
    Ok(())
}

/// Docker's daemon, without a network, with all that it keeps in one directory.
#[derive(Debug)]
pub struct Daemon {
    process: Child,
    socket: String,
}

impl Daemon {
    /// It answers when this returns.
    pub fn start(place: &Path) -> Result<Self> {
        ensure!(is_in_path("docker") && is_in_path("dockerd"), "not installed");
        fs::create_dir_all(place)?;
        let at = |name: &str| place.join(name).display().to_string();
        let socket = format!("unix://{}", at("socket"));
        let mut daemon = Command::new("setpriv");
        daemon.args([
            "--pdeathsig",
            "TERM",
            "dockerd",
            "--iptables=false",
            "--ip6tables=false",
            "--bridge=none",
        ]);
        daemon.args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")]);
        daemon.args(["--host", &socket]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = Self { process: daemon.spawn()?, socket };
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = succeeds(daemon.client().arg("version").stdin(Stdio::null())) {
            if Instant::now() > deadline {
                bail!("its daemon does not start: {error:#}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// `unix:///…`
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Its client, before any verb.
    pub fn client(&self) -> Command {
        let mut client = Command::new("docker");
        client.args(["--host", &self.socket]);
        client
    }

    /// Make an image of a directory.
    pub fn import(&self, root: &Path, name: &str) -> Result<()> {
        let archive = tempfile::NamedTempFile::new()?;
        succeeds(Command::new("tar").arg("-C").arg(root).arg("-cf").arg(archive.path()).arg("."))?;
        succeeds(self.client().arg("import").arg(archive.path()).arg(name))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It ends its own helpers when it is told to, and not when it is killed.
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.process.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
