//! The tool that a provider drives, driven by hand: the host's programs read-only, `/tmp` of its own, no network, no capability. It has
//! none of our limits, no Landlock, no reports: what is compared is what our part adds.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use ringfence_bench::{is_in_path, succeeds};
use serde_json::{Value, json};

use crate::place::{IMAGE, Place};
use crate::{Kind, TASKS, Tool};

const NAME: &str = "ringfence-bench-hand";
const SLEEP: [&str; 2] = ["/bin/sleep", "100000"];

pub(crate) struct Hand<'a> {
    place: &'a Place,
    tool: Tool,
    /// A container stays, in which commands can be run.
    stays: bool,
}

impl<'a> Hand<'a> {
    pub(crate) fn start(place: &'a Place, tool: Tool) -> Result<Self> {
        let mut hand = Self { place, tool, stays: false };
        match tool {
            Tool::Native => {}
            Tool::Bwrap => ensure!(is_in_path("bwrap"), "not installed"),
            Tool::Crun | Tool::Runc | Tool::Runsc => {
                ensure!(is_in_path(tool.name()), "not installed");
                for (task, (_, words)) in TASKS.iter().enumerate() {
                    hand.write_bundle(&task.to_string(), words)?;
                }
                hand.write_bundle("stays", &SLEEP)?;
                succeeds(hand.run("stays", NAME, true).stdin(Stdio::null()))?;
                hand.stays = true;
            }
            Tool::Docker => {
                let mut run = hand.docker_run(&["--detach", "--name", NAME])?;
                succeeds(run.args(SLEEP).stdin(Stdio::null()))?;
                hand.stays = true;
            }
        }
        Ok(hand)
    }

    /// Native drives nothing, and bubblewrap has no sandbox that stays.
    pub(crate) fn can(&self, kind: Kind) -> bool {
        match self.tool {
            Tool::Native => false,
            Tool::Bwrap => kind != Kind::Staying,
            _ => true,
        }
    }

    pub(crate) fn command(&self, kind: Kind) -> Command {
        match (self.tool, kind) {
            (Tool::Native | Tool::Bwrap, Kind::Fresh(task)) => bwrap(TASKS[task].1),
            (Tool::Native | Tool::Bwrap, Kind::Staying) => bwrap(TASKS[0].1),
            (Tool::Docker, Kind::Fresh(task)) => {
                let mut run = self.docker_run(&["--rm"]).unwrap_or_else(|_| Command::new("false"));
                run.args(TASKS[task].1);
                run
            }
            (Tool::Docker, Kind::Staying) => {
                let mut client =
                    self.place.docker().map_or_else(|| Command::new("docker"), |docker| docker.client());
                client.args(["exec", NAME]).args(TASKS[0].1);
                client
            }
            (_, Kind::Fresh(task)) => self.run(&task.to_string(), &format!("{NAME}-{task}"), false),
            (_, Kind::Staying) => {
                let mut exec = self.runtime();
                exec.args(["exec", NAME]).args(TASKS[0].1);
                exec
            }
        }
    }

    /// Docker's client, told to run a command that is yet to be added.
    fn docker_run(&self, how: &[&str]) -> Result<Command> {
        let docker = self.place.docker().context("docker is not installed, or its daemon does not start")?;
        let mut run = docker.client();
        run.arg("run").args(how).args(["--network=none", "--cap-drop=all", "--read-only", "--tmpfs=/tmp"]);
        run.args(["--volume=/usr:/usr:ro", "--volume=/etc:/etc:ro", IMAGE]);
        Ok(run)
    }

    /// With the flags that come before its verb.
    fn runtime(&self) -> Command {
        let mut command = Command::new(self.tool.name());
        command.arg("--root").arg(self.place.path().join(format!("runtime-{}", self.tool.name())));
        match self.tool {
            Tool::Crun => drop(command.arg("--cgroup-manager=disabled")),
            Tool::Runsc => drop(command.args(["--network=none", "--ignore-cgroups"])),
            _ => {}
        }
        command
    }

    fn run(&self, bundle: &str, name: &str, detach: bool) -> Command {
        let mut command = self.runtime();
        command.arg("run");
        if detach {
            command.arg("--detach");
        }
        command.arg("--bundle").arg(self.bundle(bundle)).arg(name);
        command
    }

    fn bundle(&self, name: &str) -> PathBuf {
        self.place.path().join(format!("bundle-{}-{name}", self.tool.name()))
    }

    /// The runtime's own proposal, with the host's programs in it.
    fn write_bundle(&self, name: &str, words: &[&str]) -> Result<()> {
        let bundle = self.bundle(name);
        fs::create_dir_all(&bundle)?;
        succeeds(Command::new(self.tool.name()).arg("spec").current_dir(&bundle))?;
        let path = bundle.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
        config["root"] = json!({ "path": self.place.path().join("root"), "readonly": true });
        config["process"]["terminal"] = false.into();
        config["process"]["args"] = json!(words);
        let mounts = config["mounts"].as_array_mut().context("it proposes no mounts")?;
        // A host that has both versions has no cgroup that could be shown.
        mounts.retain(|mount| mount["type"] != "cgroup");
        for shown in ["/usr", "/etc"] {
            mounts.push(
                json!({ "destination": shown, "type": "bind", "source": shown, "options": ["rbind", "ro"] }),
            );
        }
        mounts.push(json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"] }));
        fs::write(&path, serde_json::to_vec(&config)?)?;
        Ok(())
    }
}

fn bwrap(words: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    command.args(["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--tmpfs", "/tmp"]);
    for name in ["/bin", "/sbin", "/lib", "/lib64"] {
        match fs::read_link(name) {
            Ok(target) => drop(command.arg("--symlink").arg(target).arg(name)),
            Err(_) => drop(command.args(["--ro-bind-try", name, name])),
        }
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--"]).args(words);
    command
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        if !self.stays {
            return;
        }
        let mut command = match (self.tool, self.place.docker()) {
            (Tool::Docker, Some(docker)) => {
                let mut client = docker.client();
                client.args(["rm", "--force", NAME]);
                client
            }
            _ => {
                let mut runtime = self.runtime();
                runtime.args(["delete", "--force", NAME]);
                runtime
            }
        };
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
