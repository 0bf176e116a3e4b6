//! Where the measured programs run: copies that a sandbox can be shown, and directories of their own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::place::NAME;
use crate::server::SECRET;

/// The variable with the secret.
pub(crate) const TOKEN: &str = "BENCH_TOKEN";

#[derive(Debug)]
pub(crate) struct Stage {
    directory: TempDir,
}

/// The sandbox runtime that is compared with.
#[derive(Debug)]
pub(crate) struct Srt {
    pub(crate) version: String,
}

impl Stage {
    pub(crate) fn make(certificates: &Certificates) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ringfence-network-").tempdir()?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        let stage = Self { directory };
        for name in ["bin", "home", "state", "empty", "shown"] {
            fs::create_dir(stage.path(name))?;
        }
        fs::write(stage.authority(), &certificates.authority)?;
        // Nothing but what a command line needs to start: the rest is as srt has it.
        let settings = serde_json::json!({
            "network": { "allowedDomains": [NAME], "deniedDomains": [] },
            "filesystem": { "denyRead": [], "allowWrite": [], "denyWrite": [] },
        });
        fs::write(stage.srt_settings(), settings.to_string())?;
        let built = std::env::current_exe()?;
        for (name, to) in [("ringfence", "bin/ringfence"), ("network", "shown/network")] {
            let from = built.parent().unwrap_or(Path::new(".")).join(name);
            fs::copy(&from, stage.path(to)).with_context(|| {
                format!("cannot copy {}: start this with bench/run, which builds it", from.display())
            })?;
        }
        Ok(stage)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The server's, which nobody else trusts.
    pub(crate) fn authority(&self) -> PathBuf {
        self.path("shown/authority.pem")
    }

    pub(crate) fn client(&self) -> PathBuf {
        self.path("shown/network")
    }

    pub(crate) fn ringfence(&self) -> PathBuf {
        self.path("bin/ringfence")
    }

    pub(crate) fn srt_settings(&self) -> PathBuf {
        self.path("srt.json")
    }

    /// `None` where it is not installed.
    pub(crate) fn find_srt(&self) -> Option<Srt> {
        let output = self.command(Path::new("srt")).arg("--version").stderr(Stdio::null()).output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(Srt { version })
    }

    /// With surroundings that are the same for all.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("LANG", "C.UTF-8")
            .env("RINGFENCE_STATE_DIR", self.path("state"))
            .env("SSL_CERT_FILE", self.authority())
            .env(TOKEN, SECRET)
            .current_dir(self.path("empty"))
            .stdin(Stdio::null());
        command
    }
}
