//! Containers of other tools that are installed here, one of each, to run commands in. All of it, an own daemon of Docker
//! too, is in the bench's directory and ends with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use ringfence_bench::{Daemon, is_in_path, succeeds};
use serde_json::json;

use crate::contenders::Way;
use crate::stage::Stage;

const NAME: &str = "ringfence-bench";
const SLEEP: &str = "/bin/sleep";
/// All that is run in a container.
const PROGRAMS: [&str; 2] = ["/bin/true", SLEEP];

pub(crate) struct Container {
    pub(crate) way: Way,
    /// The tool with the flags that come before its verb.
    tool: Vec<String>,
    /// Ended after its container.
    _daemon: Option<Daemon>,
}

pub(crate) struct Containers {
    pub(crate) running: Vec<Container>,
    /// What is not there, or can't be used, and why.
    pub(crate) absent: Vec<String>,
}

impl Container {
    fn call(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.tool[0]);
        command.args(&self.tool[1..]).args(words).stdin(Stdio::null());
        command
    }

    pub(crate) fn exec(&self, program: &str) -> Command {
        self.call(&["exec", NAME, program])
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let words: &[&str] = match self.way {
            Way::Docker => &["rm", "--force", NAME],
            _ => &["delete", "--force", NAME],
        };
        let _ = self.call(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Start a container with each runtime that is here.
pub(crate) fn start(stage: &Stage) -> Containers {
    let mut containers = Containers { running: Vec::new(), absent: Vec::new() };
    let root = match make_root(stage.path()) {
        Ok(root) => root,
        Err(error) => {
            containers.absent.push(format!("containers ({error:#})"));
            return containers;
        }
    };
    let runtimes: [(Way, &str, &[&str]); 3] = [
        (Way::Crun, "crun", &["--cgroup-manager=disabled"]),
        (Way::Runc, "runc", &[]),
        (Way::Runsc, "runsc", &["--network=none", "--ignore-cgroups"]),
    ];
    for (way, name, flags) in runtimes {
        let state = stage.path().join(format!("runtime-{name}")).display().to_string();
        let tool = [name, "--root", &state].into_iter().chain(flags.iter().copied());
        let tool = tool.map(str::to_owned).collect();
        keep(&mut containers, name, run(stage, &root, Container { way, tool, _daemon: None }));
    }
    keep(&mut containers, "docker", docker(stage, &root));
    containers
}

fn keep(containers: &mut Containers, name: &str, started: Result<Container>) {
    match started {
        Ok(container) => containers.running.push(container),
        Err(error) => containers.absent.push(format!("{name} ({error:#})")),
    }
}

/// A root directory with two programs and what they are linked to.
fn make_root(stage: &Path) -> Result<PathBuf> {
    let root = stage.join("root");
    for directory in ["proc", "dev", "sys", "tmp", "etc"] {
        fs::create_dir_all(root.join(directory))?;
    }
    for program in PROGRAMS {
        let linked = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
        let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
        let libraries = linked.split_whitespace().filter(|word| word.starts_with('/'));
        for file in libraries.chain([program]) {
            let to = root.join(file.trim_start_matches('/'));
            fs::create_dir_all(to.parent().context("a file has a directory")?)?;
            fs::copy(file, &to).with_context(|| format!("cannot copy {file}"))?;
        }
    }
    Ok(root)
}

fn run(stage: &Stage, root: &Path, container: Container) -> Result<Container> {
    let name = container.tool[0].clone();
    ensure!(is_in_path(&name), "not installed");
    let bundle: PathBuf = stage.path().join(format!("bundle-{name}"));
    fs::create_dir_all(&bundle)?;
    succeeds(Command::new(&name).arg("spec").current_dir(&bundle))?;
    let path = bundle.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    config["root"] = json!({ "path": root, "readonly": true });
    config["process"]["terminal"] = false.into();
    config["process"]["args"] = json!([SLEEP, "100000"]);
    // A host that has both versions has no cgroup that could be shown.
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.retain(|mount| mount["type"] != "cgroup");
    }
    fs::write(&path, serde_json::to_vec(&config)?)?;
    let bundle = bundle.display().to_string();
    let words = ["run", "--detach", "--bundle", &bundle, NAME];
    if let Err(plain) = succeeds(&mut container.call(&words)) {
        // crun refuses a host with both versions; it looks where the second one is mounted.
        let script = "umount /sys/fs/cgroup/unified && exec \"$@\"";
        let mut elsewhere = Command::new("unshare");
        elsewhere.args(["--mount", "sh", "-c", script, "sh"]).args(&container.tool).args(words);
        let is_crun = container.way == Way::Crun;
        ensure!(is_crun && succeeds(elsewhere.stdin(Stdio::null())).is_ok(), plain);
    }
    Ok(container)
}

fn docker(stage: &Stage, root: &Path) -> Result<Container> {
    let daemon = Daemon::start(&stage.path().join("docker"))?;
    let tool = ["docker", "--host", daemon.socket()].map(str::to_owned).to_vec();
    daemon.import(root, NAME)?;
    let container = Container { way: Way::Docker, tool, _daemon: Some(daemon) };
    let words = ["run", "--detach", "--network=none", "--name", NAME, NAME, SLEEP, "100000"];
    succeeds(&mut container.call(&words))?;
    Ok(container)
}
