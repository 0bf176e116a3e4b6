//! The receipt's claims, checked from inside: under each profile the probe reads its own capabilities, filters,
//! mounts, namespaces and limits, and every clause that the receipt calls enforced must agree with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use ringfence_policy::ByteSize;
use ringfence_testing::{Identity, Outcome, Scene, Stage, Test, processes_with_marker};
use serde_json::Value;

#[test]
fn every_enforced_clause_agrees_with_what_the_probe_sees() {
    let mut failures = Vec::new();
    for identity in Identity::all() {
        for profile in ["restrictive", "moderate", "permissive"] {
            let scene = repository(identity);
            let sight = Sight::of(&scene, facts_of_run(&scene, profile, &[]));
            for line in sight.outcome.receipt_clauses().iter().filter(|line| line["status"] == "enforced") {
                if let Err(why) = sight.check(line) {
                    failures.push(format!("{identity:?}, {profile}, {}: {why}", line["clause"]));
                }
            }
        }
    }
    assert!(failures.is_empty(), "the receipt and the facts differ:\n  {}", failures.join("\n  "));
}

#[test]
fn every_isolation_clause_is_in_the_receipt() {
    for identity in Identity::all() {
        let scene = repository(identity);
        let outside = text(&scene.outside());
        let network = ["--allow-host", "api.example.com", "--connections", "9", "--bandwidth", "1M"];
        let flags: Vec<&str> = ["--write", &outside].into_iter().chain(network).collect();
        let outcome = facts_of_run(&scene, "restrictive", &flags);
        let clauses = outcome.receipt_clauses();
        let listed: BTreeSet<&str> = clauses.iter().filter_map(|line| line["clause"].as_str()).collect();
        let expected = ringfence_policy::Clause::ALL.iter().map(|clause| clause.as_str());
        // Restrictive shows no toolchains, and no skill is attached.
        let absent = ["filesystem.toolchains", "filesystem.attached"];
        let missing: Vec<&str> =
            expected.filter(|name| !absent.contains(name) && !listed.contains(name)).collect();
        assert!(missing.is_empty(), "not in the receipt: {missing:?}");
    }
}

#[test]
fn a_waived_clause_is_called_waived_and_is() {
    for identity in Identity::all() {
        let waived = |clause: &str| {
            let scene = repository(identity);
            let outcome = facts_of_run(&scene, "restrictive", &["--waive", clause]);
            outcome.clause(clause, "waived");
            (Sight::of(&scene, outcome), scene)
        };
        let (sight, _scene) = waived("syscalls");
        assert_eq!(sight.facts["status"]["Seccomp"], "0", "the filter is there although it was waived");
        let (sight, _scene) = waived("network");
        assert_eq!(sight.facts["namespaces"]["net"], sight.host["namespaces"]["net"]);
        let (sight, _scene) = waived("filesystem.landlock");
        assert_eq!(sight.facts["landlock_layers"], sight.host["landlock_layers"]);
        let (sight, _scene) = waived("limits.open_files");
        assert_eq!(sight.facts["limits"]["Max open files"][1], sight.host["limits"]["Max open files"][1]);
        let (sight, _scene) = waived("filesystem.protected");
        assert!(sight.mount("/workspace/.git/config").is_none(), "a protected file is mounted over");
    }
}

#[test]
fn what_only_the_host_can_see_agrees_too() {
    for identity in Identity::all() {
        let scene = repository(identity);
        let test = Test::in_scene(&scene).profile("restrictive").with_probe().args(["--timeout", "60s"]);
        let probe = text(&Stage::get().probe);
        let running = test.spawn([probe, "linger".to_owned(), scene.token.clone()]);
        let seen = Seen::of(&lingering(&scene, running.pid()));
        running.signal(rustix::process::Signal::TERM);
        let outcome = running.wait();
        assert!(!seen.is_root, "the command is root on the host");
        assert!(
            seen.mapped.iter().all(|id| *id != 0),
            "ids of the host that are mapped in: {:?}",
            seen.mapped
        );
        for line in outcome.receipt_clauses().iter().filter(|line| line["status"] == "enforced") {
            let value = line["value"].as_str().unwrap_or_default();
            if !line["mechanism"].as_str().unwrap_or_default().contains("cgroup v") {
                continue;
            }
            match line["clause"].as_str().unwrap_or_default() {
                "limits.memory" => assert_eq!(seen.memory, Some(bytes(value)), "memory"),
                "limits.processes" => {
                    // guard is one of the processes that the group counts.
                    let most: u64 = value.parse().expect("a number of processes");
                    assert_eq!(seen.processes, Some(most + 1), "processes");
                }
                "limits.cpus" => {
                    let wanted: f64 = value.parse().expect("a number of CPUs");
                    let found = seen.cpus.expect("a CPU quota");
                    assert!((wanted - found).abs() < 0.01, "{found} CPUs instead of {wanted}");
                }
                _ => {}
            }
        }
    }
}

/// A scene whose workspace is a repository.
fn repository(identity: Identity) -> Scene {
    let scene = Scene::new(identity);
    scene.write("ws/.git/config", "[core]\n");
    scene.mkdir("ws/.git/hooks");
    scene
}

fn facts_of_run(scene: &Scene, profile: &str, flags: &[&str]) -> Outcome {
    let test = Test::in_scene(scene).profile(profile).with_probe().workspace(scene.workspace());
    let outcome = test
        .env("API_TOKEN", "secret")
        .args(["--hide".to_owned(), text(&scene.path("ws/.git/hooks"))])
        .args(flags.iter().copied())
        .run([text(&Stage::get().probe), "facts".to_owned()]);
    outcome.code(0);
    outcome
}

/// The process with the scene's token that isn't `ringfence` itself.
fn lingering(scene: &Scene, ringfence: u32) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = processes_with_marker(&scene.token);
        if let Some(process) =
            found.iter().find(|p| p.pid != ringfence && p.name.starts_with("ringfence-prob"))
        {
            return process.pid.to_string();
        }
        assert!(Instant::now() < deadline, "the command did not start: {found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the probe saw inside, and what it sees on the host as the same user.
struct Sight {
    outcome: Outcome,
    facts: Value,
    host: Value,
}

impl Sight {
    fn of(scene: &Scene, outcome: Outcome) -> Self {
        let mut command = std::process::Command::new(&Stage::get().probe);
        command.arg("facts").current_dir("/");
        scene.identity.apply(&mut command);
        let output = command.output().expect("run the probe on the host");
        let host = serde_json::from_slice(&output.stdout).expect("facts of the host");
        let facts = serde_json::from_str(&outcome.output).expect("facts of the sandbox");
        Self { outcome, facts, host }
    }

    /// Whether the facts bear one line of the receipt out.
    fn check(&self, line: &Value) -> Result<(), String> {
        let value = line["value"].as_str().unwrap_or_default();
        match line["clause"].as_str().unwrap_or_default() {
            "filesystem.host" => self.check_host_files(),
            "filesystem.toolchains" => self.none_writable_below("/usr"),
            "filesystem.workspace" => {
                expect(self.facts["writable"]["/workspace"] == true, "it can't be written")
            }
            "filesystem.read" => self.is_read_only(&text(Stage::get().probe_dir())),
            "filesystem.write" => Ok(()),
            "filesystem.hide" => self.is_read_only("/workspace/.git/hooks"),
            "filesystem.tmp" => self.has_size("/tmp", value).and_then(|()| self.has_size("/dev/shm", value)),
            "filesystem.protected" => self.is_read_only("/workspace/.git/config"),
            "filesystem.landlock" => expect(
                self.facts["landlock_layers"].as_i64() > self.host["landlock_layers"].as_i64(),
                format!(
                    "{} layers inside, {} on the host",
                    self.facts["landlock_layers"], self.host["landlock_layers"]
                ),
            ),
            "network" => {
                self.own_namespace("net")?;
                expect(
                    self.facts["interfaces"] == serde_json::json!(["lo"]),
                    self.facts["interfaces"].to_string(),
                )?;
                expect(self.facts["loopback_up"] == true, "loopback is down")
            }
            "processes" => {
                self.own_namespace("pid")?;
                expect(
                    self.facts["processes"].as_u64() <= Some(4),
                    format!("{} processes", self.facts["processes"]),
                )
            }
            "ipc" => self.own_namespace("ipc"),
            "cgroups" => self.own_namespace("cgroup"),
            "hostname" => {
                self.own_namespace("uts")?;
                expect(self.facts["hostname"] == value, self.facts["hostname"].to_string())
            }
            "devices" => self.check_devices(),
            "proc" => self.check_proc(),
            "capabilities" => ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].iter().try_for_each(|set| {
                let found = self.facts["status"][set].as_str().unwrap_or("missing");
                expect(found.bytes().all(|byte| byte == b'0'), format!("{set} is {found}"))
            }),
            "no_new_privs" => expect(self.facts["status"]["NoNewPrivs"] == "1", "it is off"),
            "identity" => self.check_identity(value),
            "environment" => self.check_environment(),
            "syscalls" => expect(self.facts["status"]["Seccomp"] == "2", "there is no filter"),
            "limits.open_files" => {
                let limit = &self.facts["limits"]["Max open files"][1];
                expect(*limit == value, format!("the hard limit is {limit}"))
            }
            "limits.processes" => self.check_processes(value, line["mechanism"].as_str().unwrap_or_default()),
            "limits.disk" => {
                let home = self.facts["sizes"].as_object().into_iter().flatten();
                let mut homes =
                    home.filter(|(path, _)| !["/tmp", "/dev/shm", "/workspace"].contains(&path.as_str()));
                let Some((_, size)) = homes.next() else { return Err("there is no home".into()) };
                expect(size["bytes"].as_u64() <= Some(bytes(value)), format!("the home has {size}"))
            }
            // Shown elsewhere: by the cgroup's own files, and by commands that reach the limit.
            "limits.memory" | "limits.cpus" | "limits.output" | "limits.wall_time" => Ok(()),
            other => Err(format!("no check is written for {other}")),
        }
    }

    fn check_host_files(&self) -> Result<(), String> {
        self.own_namespace("mnt")?;
        for dir in ["/", "/usr", "/etc", "/bin"] {
            expect(self.facts["writable"][dir] == false, format!("{dir} can be written"))?;
        }
        self.none_writable_below("/usr")?;
        let suid = self.mounts().find(|mount| !has_flag(mount, "nosuid"));
        expect(suid.is_none(), format!("a mount without nosuid: {suid:?}"))
    }

    fn none_writable_below(&self, dir: &str) -> Result<(), String> {
        let open = self.mounts().find(|mount| {
            mount["path"].as_str().is_some_and(|path| Path::new(path).starts_with(dir))
                && !has_flag(mount, "ro")
        });
        expect(open.is_none(), format!("a writable mount: {open:?}"))
    }

    fn check_devices(&self) -> Result<(), String> {
        const EXPECTED: &[&str] = &[
            "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin",
            "stdout", "stderr", "mqueue", "console",
        ];
        let devices = self.facts["devices"].as_array().cloned().unwrap_or_default();
        let extra: Vec<&Value> =
            devices.iter().filter(|d| !EXPECTED.contains(&d.as_str().unwrap_or_default())).collect();
        expect(extra.is_empty(), format!("more devices: {extra:?}"))?;
        expect(self.facts["writable"]["/dev"] == false, "/dev can be written")
    }

    fn check_proc(&self) -> Result<(), String> {
        let own = self.mount("/proc").is_some_and(|mount| mount["type"] == "proc");
        expect(own, "/proc is no proc mount")?;
        self.is_read_only("/proc/sys")?;
        for fact in ["masked_but_readable", "fixed_but_writable"] {
            expect(
                self.facts[fact].as_array().is_some_and(Vec::is_empty),
                format!("{fact}: {}", self.facts[fact]),
            )?;
        }
        Ok(())
    }

    fn check_identity(&self, value: &str) -> Result<(), String> {
        self.own_namespace("user")?;
        let ids = format!("{}:{}", self.facts["uid"], self.facts["gid"]);
        expect(ids == value, format!("it is {ids}"))
    }

    fn check_environment(&self) -> Result<(), String> {
        const EXPECTED: &[&str] = &[
            "PATH",
            "HOME",
            "LANG",
            "USER",
            "LOGNAME",
            "SHELL",
            "TERM",
            "TMPDIR",
            "PWD",
            "RINGFENCE",
            "HOSTNAME",
            "XDG_CACHE_HOME",
            "XDG_RUNTIME_DIR",
        ];
        const WITH_NETWORK: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
        let clauses = self.outcome.receipt_clauses();
        let networked = clauses.iter().any(|line| line["clause"] == "network" && line["value"] != "off");
        let known = |name: &str| {
            EXPECTED.contains(&name) || networked && WITH_NETWORK.contains(&name.to_uppercase().as_str())
        };
        let names = self.facts["environment"].as_array().cloned().unwrap_or_default();
        let extra: Vec<&Value> =
            names.iter().filter(|name| !known(name.as_str().unwrap_or_default())).collect();
        expect(extra.is_empty(), format!("more variables: {extra:?}"))
    }

    fn check_processes(&self, value: &str, mechanism: &str) -> Result<(), String> {
        if !mechanism.contains("RLIMIT_NPROC") {
            return Ok(());
        }
        let most: u64 = value.parse().map_err(|_| format!("{value} is no number"))?;
        let limit =
            self.facts["limits"]["Max processes"][1].as_str().and_then(|limit| limit.parse::<u64>().ok());
        // guard may be counted in.
        expect(limit.is_some_and(|limit| limit <= most + 1), format!("RLIMIT_NPROC is {limit:?}"))
    }

    fn own_namespace(&self, name: &str) -> Result<(), String> {
        let (inside, host) = (&self.facts["namespaces"][name], &self.host["namespaces"][name]);
        expect(inside.is_string() && inside != host, format!("{inside} inside, {host} on the host"))
    }

    fn has_size(&self, path: &str, value: &str) -> Result<(), String> {
        let size = &self.facts["sizes"][path];
        expect(size["bytes"].as_u64() <= Some(bytes(value)), format!("{path} has {size}"))?;
        expect(size["inodes"].as_u64() > Some(0), format!("{path} has no bound on inodes"))
    }

    fn is_read_only(&self, path: &str) -> Result<(), String> {
        let mount = self.mount(path).ok_or_else(|| format!("{path} is no mount"))?;
        expect(has_flag(mount, "ro"), format!("{path} is writable: {mount}"))
    }

    /// The topmost mount at a path.
    fn mount(&self, path: &str) -> Option<&Value> {
        self.mounts().filter(|mount| mount["path"] == path).last()
    }

    fn mounts(&self) -> impl Iterator<Item = &Value> {
        self.facts["mounts"].as_array().into_iter().flatten()
    }
}

/// A process in a sandbox, seen from the host while it runs.
struct Seen {
    is_root: bool,
    /// Ids of the host that its user namespace maps.
    mapped: Vec<u64>,
    memory: Option<u64>,
    processes: Option<u64>,
    cpus: Option<f64>,
}

impl Seen {
    fn of(pid: &str) -> Self {
        use std::os::unix::fs::MetadataExt;
        let read =
            |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("its proc files");
        let maps = [read("uid_map"), read("gid_map")].concat();
        let cgroups = Cgroups::parse(&read("cgroup"));
        Self {
            is_root: std::fs::metadata(format!("/proc/{pid}")).expect("the process").uid() == 0,
            mapped: maps.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect(),
            memory: cgroups.memory(),
            processes: cgroups.processes(),
            cpus: cgroups.cpus(),
        }
    }
}

/// The cgroup directories of a process.
struct Cgroups {
    lines: Vec<(String, PathBuf)>,
}

impl Cgroups {
    fn parse(table: &str) -> Self {
        let lines = table.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?.to_owned(), PathBuf::from(fields.next()?.trim_start_matches('/'))))
        });
        Self { lines: lines.collect() }
    }

    /// A file of the controller's directory: its own hierarchy (v1), or the one for all (v2).
    fn read(&self, controller: &str, v1: &str, v2: &str) -> Option<String> {
        let root = Path::new("/sys/fs/cgroup");
        let own = self.lines.iter().find(|(names, _)| names.split(',').any(|name| name == controller));
        let file = match own {
            Some((_, path)) => root.join(controller).join(path).join(v1),
            None => root.join(&self.lines.iter().find(|(names, _)| names.is_empty())?.1).join(v2),
        };
        Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
    }

    fn memory(&self) -> Option<u64> {
        self.read("memory", "memory.limit_in_bytes", "memory.max")?.parse().ok()
    }

    fn processes(&self) -> Option<u64> {
        self.read("pids", "pids.max", "pids.max")?.parse().ok()
    }

    fn cpus(&self) -> Option<f64> {
        let quota = self.read("cpu", "cpu.cfs_quota_us", "cpu.max")?;
        let mut fields = quota.split(' ');
        let quota: f64 = fields.next()?.parse().ok()?;
        let period = match fields.next() {
            Some(period) => period.to_owned(),
            None => self.read("cpu", "cpu.cfs_period_us", "cpu.max")?,
        };
        Some(quota / period.parse::<f64>().ok()?)
    }
}

fn has_flag(mount: &Value, flag: &str) -> bool {
    mount["flags"].as_array().into_iter().flatten().any(|found| found == flag)
}

fn bytes(value: &str) -> u64 {
    ByteSize::from_str(value).expect("a size in the receipt").bytes()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn expect(holds: bool, why: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.into()) }
}
