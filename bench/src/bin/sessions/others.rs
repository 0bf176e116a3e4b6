//! Containers of other tools that are installed here, one of each, to run commands in.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::contenders::Way;
use crate::stage::Stage;

const NAME: &str = "ringfence-bench";

pub(crate) struct Container {
    pub(crate) way: Way,
    /// The tool with the flags that come before its verb.
    tool: Vec<String>,
}

pub(crate) struct Containers {
    pub(crate) running: Vec<Container>,
    pub(crate) absent: Vec<&'static str>,
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

/// Start a container with each OCI runtime that is here. Docker only where its daemon runs and has an image.
pub(crate) fn start(stage: &Stage) -> Containers {
    let root = stage.path().join("runtimes").display().to_string();
    let candidates = [
        (
            Way::Crun,
            "crun",
            vec!["crun".into(), "--root".into(), root.clone(), "--cgroup-manager=disabled".into()],
        ),
        (
            Way::Runsc,
            "runsc",
            vec!["runsc".into(), "--root".into(), root, "--network=none".into(), "--ignore-cgroups".into()],
        ),
    ];
    let mut containers = Containers { running: Vec::new(), absent: Vec::new() };
    for (way, name, tool) in candidates {
        match run(stage, Container { way, tool }) {
            Ok(container) => containers.running.push(container),
            Err(_) => containers.absent.push(name),
        }
    }
    match docker() {
        Ok(container) => containers.running.push(container),
        Err(_) => containers.absent.push("docker"),
    }
    containers
}

fn run(stage: &Stage, container: Container) -> Result<Container> {
    let bundle: PathBuf = stage.path().join(format!("bundle-{:?}", container.way));
    fs::create_dir_all(&bundle)?;
    let made =
        Command::new(&container.tool[0]).arg("spec").current_dir(&bundle).stdout(Stdio::null()).status()?;
    ensure!(made.success(), "no bundle");
    let path = bundle.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    config["root"] = serde_json::json!({ "path": "/", "readonly": true });
    config["process"]["terminal"] = false.into();
    config["process"]["args"] = serde_json::json!(["/bin/sleep", "100000"]);
    fs::write(&path, serde_json::to_vec(&config)?)?;
    let bundle = bundle.display().to_string();
    let started = container
        .call(&["run", "--detach", "--bundle", &bundle, NAME])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(started.success(), "not started");
    Ok(container)
}

fn docker() -> Result<Container> {
    let container = Container { way: Way::Docker, tool: vec!["docker".into()] };
    let images = container.call(&["images", "--quiet"]).stderr(Stdio::null()).output()?;
    let images = String::from_utf8_lossy(&images.stdout).into_owned();
    let Some(image) = images.lines().next() else { anyhow::bail!("no image") };
    let started = container
        .call(&["run", "--detach", "--network=none", "--name", NAME, image, "/bin/sleep", "100000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(started.success(), "not started");
    Ok(container)
}
