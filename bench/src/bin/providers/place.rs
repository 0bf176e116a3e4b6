//! Where it happens: a directory of its own, a small root for containers that shows the host's programs, and one daemon of Docker.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use ringfence_bench::Daemon;
use ringfence_linux::unshare_mounts;
use tempfile::TempDir;

/// An image of the same root.
pub(crate) const IMAGE: &str = "ringfence-bench";
/// Where a host has both versions of cgroups. crun refuses such a host.
const SECOND_VERSION: &str = "/sys/fs/cgroup/unified";

pub(crate) struct Place {
    directory: TempDir,
    ringfence: PathBuf,
    docker: Option<Daemon>,
}

impl Place {
    pub(crate) fn new() -> Result<Self> {
        if Path::new(SECOND_VERSION).join("cgroup.controllers").exists() {
            unshare_mounts().context("cannot make a mount namespace")?;
            let gone = Command::new("umount").arg(SECOND_VERSION).status()?;
            ensure!(gone.success(), "cannot take {SECOND_VERSION} out of this bench's own mounts");
        }
        let directory = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
        let ringfence = std::env::current_exe()?.with_file_name("ringfence");
        ensure!(ringfence.exists(), "the ringfence program is not built: cargo build --release");
        make_root(&directory.path().join("root"))?;
        let docker = Daemon::start(&directory.path().join("docker")).ok();
        if let Some(docker) = &docker {
            docker.import(&directory.path().join("root"), IMAGE)?;
        }
        Ok(Self { directory, ringfence, docker })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn docker(&self) -> Option<&Daemon> {
        self.docker.as_ref()
    }

    /// The ringfence that is measured, before any verb.
    pub(crate) fn ringfence(&self) -> Command {
        let mut command = Command::new(&self.ringfence);
        command.env("RINGFENCE_STATE_DIR", self.path().join("state")).current_dir(self.path());
        if let Some(docker) = &self.docker {
            command.env("DOCKER_HOST", docker.socket());
        }
        command
    }
}

/// Empty places for what is mounted, and the links that a merged system has.
fn make_root(root: &Path) -> Result<()> {
    for directory in ["proc", "dev", "sys", "tmp", "etc", "usr"] {
        fs::create_dir_all(root.join(directory))?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        let host = Path::new("/").join(name);
        match fs::read_link(&host) {
            Ok(target) => symlink(target, root.join(name))?,
            Err(_) => fs::create_dir_all(root.join(name))?,
        }
    }
    Ok(())
}
