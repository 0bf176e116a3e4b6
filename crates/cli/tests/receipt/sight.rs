//! What the probe sees of its own confinement, held against a line of the receipt.

use std::path::Path;
use std::str::FromStr;

use ringfence_policy::ByteSize;
use ringfence_testing::{Identity, Outcome, Stage};
use serde_json::Value;

use crate::text;

/// What the probe saw inside, and what it sees on the host as the same user.
pub(crate) struct Sight {
    pub(crate) outcome: Outcome,
    pub(crate) facts: Value,
    pub(crate) host: Value,
    /// Variables that the policy brings in beyond those of every sandbox.
    pub(crate) variables: Vec<&'static str>,
}

impl Sight {
    pub(crate) fn of(identity: Identity, outcome: Outcome) -> Self {
        Self::with_host(outcome, facts_of_host(identity))
    }

    pub(crate) fn with_host(outcome: Outcome, host: Value) -> Self {
        let facts = serde_json::from_str(&outcome.output).expect("facts of the sandbox");
        Self { outcome, facts, host, variables: Vec::new() }
    }

    /// Whether the facts bear one line of the receipt out.
    pub(crate) fn check(&self, line: &Value) -> Result<(), String> {
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
            "limits.memory" | "limits.cpus" | "limits.output" | "limits.wall_time" | "limits.connections"
            | "limits.bandwidth" => Ok(()),
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
            EXPECTED.contains(&name)
                || self.variables.contains(&name)
                || networked && WITH_NETWORK.contains(&name.to_uppercase().as_str())
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
    pub(crate) fn mount(&self, path: &str) -> Option<&Value> {
        self.mounts().filter(|mount| mount["path"] == path).last()
    }

    fn mounts(&self) -> impl Iterator<Item = &Value> {
        self.facts["mounts"].as_array().into_iter().flatten()
    }
}

/// What the probe sees as this user without a sandbox.
pub(crate) fn facts_of_host(identity: Identity) -> Value {
    let mut command = std::process::Command::new(&Stage::get().probe);
    command.arg("facts").current_dir("/");
    identity.apply(&mut command);
    let output = command.output().expect("run the probe on the host");
    serde_json::from_slice(&output.stdout).expect("facts of the host")
}

fn has_flag(mount: &Value, flag: &str) -> bool {
    mount["flags"].as_array().into_iter().flatten().any(|found| found == flag)
}

pub(crate) fn bytes(value: &str) -> u64 {
    ByteSize::from_str(value).expect("a size in the receipt").bytes()
}

fn expect(holds: bool, why: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.into()) }
}
