//! A provider: `ringfence run` for a fresh sandbox, a session for one that stays.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::place::Place;
use crate::{Kind, TASKS, Tool};

/// What a killed bench leaves ends by itself.
const LIFE: &str = "1h";

pub(crate) struct Ours<'a> {
    place: &'a Place,
    tool: Tool,
}

impl<'a> Ours<'a> {
    pub(crate) fn start(place: &'a Place, tool: Tool) -> Result<Self> {
        let ours = Self { place, tool };
        let made = ours
            .place
            .ringfence()
            .args(["session", "create", "--name", tool.name(), "--ttl", LIFE])
            .args(ours.policy())
            .output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr).trim());
        Ok(ours)
    }

    fn policy(&self) -> Vec<&'static str> {
        let mut words = vec!["--profile", "restrictive", "--provider"];
        words.extend_from_slice(match self.tool {
            Tool::Native => &["native"],
            Tool::Bwrap => &["bwrap"],
            Tool::Crun => &["oci", "--runtime", "crun"],
            Tool::Runc => &["oci", "--runtime", "runc"],
            Tool::Runsc => &["gvisor"],
            Tool::Docker => &["docker"],
        });
        words
    }

    pub(crate) fn command(&self, kind: Kind) -> Command {
        let mut command = self.place.ringfence();
        match kind {
            Kind::Fresh(task) => {
                command.arg("run").args(self.policy()).arg("--").args(TASKS[task].1);
            }
            Kind::Staying => {
                command.args(["session", "exec", self.tool.name(), "--"]).args(TASKS[0].1);
            }
        }
        command
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        let _ = self.place.ringfence().args(["session", "rm", self.tool.name()]).output();
    }
}
