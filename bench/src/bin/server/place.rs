//! A real server in a scratch state directory, and what it holds of the machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    program: PathBuf,
    root: tempfile::TempDir,
    child: Child,
}

impl Place {
    /// Its quotas let in as many commands as there are connections, and any number of requests: what is measured is the
    /// server, not its brake.
    pub(crate) fn start(connections: usize) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let program = own.with_file_name("ringfence");
        ensure!(program.exists(), "{} is not built: use ./bench/run server", program.display());
        let root = tempfile::Builder::new().prefix("rf-bench-server.").tempdir()?;
        let config = root.path().join("server.toml");
        let commands = connections * 2;
        fs::write(
            &config,
            format!(
                "[roles.operator.quotas]\ncommands = {commands}\nrequests_per_minute = 0\n[server]\ncommands = {commands}\n"
            ),
        )?;
        let at = |name: &str| root.path().join(name);
        let prepared = |command: &mut Command| {
            command
                .env("RINGFENCE_STATE_DIR", at("state"))
                .env("HOME", root.path())
                .env("RINGFENCE_LOG", "error");
        };
        let mut command = Command::new(&program);
        prepared(&mut command);
        let child = command
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut place =
            Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), key: String::new(), program, root, child };
        let mut line = String::new();
        let out = place.child.stdout.take().context("no stdout")?;
        BufReader::new(out).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line).context("the server did not start")?;
        let url = told["addresses"][0].as_str().and_then(|url| url.strip_prefix("http://"));
        place.address = url.context("no address")?.parse()?;
        let made = place.command().args(["key", "create", "--user", "ada", "--role", "operator"]).output()?;
        ensure!(made.status.success(), "no key: {}", String::from_utf8_lossy(&made.stderr));
        place.key = String::from_utf8(made.stdout)?.trim().to_owned();
        Ok(place)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("RINGFENCE_STATE_DIR", self.state())
            .env("HOME", self.root.path())
            .current_dir(self.root.path());
        command
    }

    /// The same command without a server, with the policy that the server gives it.
    pub(crate) fn direct(&self) -> Command {
        let mut command = self.command();
        command.args(["run", "--workspace", "private", "--", "/bin/true"]).stdout(Stdio::null());
        command
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the server holds once it holds no more than before so many requests, or at the end of patience.
    pub(crate) fn settled(&self, before: &Held, requests: usize) -> Result<Held> {
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            let held = Held::of(self)?;
            if held.more_than(before, requests).is_empty() || Instant::now() > patience {
                return Ok(held);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What can leak.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) fds: usize,
    /// Private dirty, kilobytes, of the server.
    pub(crate) memory: u64,
    /// The server's descendants: its helper, workers, guards.
    pub(crate) processes: usize,
    /// In any hierarchy, of one of those or of a run that is over.
    pub(crate) cgroups: usize,
    /// Directories of sandboxes that stay.
    pub(crate) sandboxes: usize,
    /// Files and directories in the state directory, those too.
    pub(crate) entries: usize,
}

/// Bytes that an allocator may keep of what it was given, however many requests there were, and for each of them. A leak of one
/// kilobyte a request is four times the latter, and above both from 8,192 requests on: a minute has more than twice as many.
const KEPT: u64 = 6 << 20;
const KEPT_A_REQUEST: u64 = 256;

impl Held {
    pub(crate) fn of(place: &Place) -> Result<Self> {
        let pid = place.pid();
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).context("the server is gone")?.count();
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let memory = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
        let memory = memory.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
        let Some(memory) = memory else { bail!("no memory figures in {rollup}") };
        let family = descendants(pid);
        // A group of somebody else's run, whose owner lives, is not ours to count.
        let owner_lives = |owner: &u32| Path::new(&format!("/proc/{owner}")).exists();
        let cgroups =
            cgroup_owners().iter().filter(|owner| family.contains(owner) || !owner_lives(owner)).count();
        let sandboxes = fs::read_dir(place.state().join("sessions")).into_iter().flatten().count();
        let entries = entries(&place.state());
        Ok(Self { fds, memory, processes: family.len(), cgroups, sandboxes, entries })
    }

    /// What is more than before so many requests.
    pub(crate) fn more_than(&self, before: &Self, requests: usize) -> Vec<String> {
        let mut more = Vec::new();
        let mut compare = |what: &str, before: u64, now: u64, slack: u64| {
            if now > before + slack {
                more.push(format!("{what}: {before} before, {now} after"));
            }
        };
        // Connections of clients that have gone are closed by then; some descriptors of the runtime come later.
        compare("descriptors", before.fds as u64, self.fds as u64, 4);
        let slack = (KEPT + KEPT_A_REQUEST * requests as u64) >> 10;
        compare("kilobytes", before.memory, self.memory, slack);
        compare("processes", before.processes as u64, self.processes as u64, 0);
        compare("cgroups", before.cgroups as u64, self.cgroups as u64, 0);
        compare("sandboxes' directories", before.sandboxes as u64, self.sandboxes as u64, 0);
        compare("entries of the state directory", before.entries as u64, self.entries as u64, 0);
        more
    }
}

/// All that is below a directory. One that is gone meanwhile is none.
fn entries(directory: &Path) -> usize {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    found
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => 1 + entries(&entry.path()),
            _ => 1,
        })
        .sum()
}

fn descendants(of: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![of];
    let mut index = 0;
    while index < found.len() {
        let next: Vec<u32> =
            parents.iter().filter(|(_, parent)| *parent == found[index]).map(|(pid, _)| *pid).collect();
        found.extend(next);
        index += 1;
    }
    found
}

/// Groups are named `ringfence-PID-…` after the process that made them.
fn cgroup_owners() -> Vec<u32> {
    let mut owners = Vec::new();
    let mut rest: Vec<PathBuf> = vec!["/sys/fs/cgroup".into()];
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name();
                let owner = name.to_str().and_then(|name| name.strip_prefix("ringfence-")?.split('-').next());
                owners.extend(owner.and_then(|pid| pid.parse::<u32>().ok()));
                rest.push(entry.path());
            }
        }
    }
    owners
}
