//! What the host sees of a process in a sandbox: its ids and the limits of its control groups.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sight::bytes;

/// A process in a sandbox, seen from the host while it runs.
pub(crate) struct Seen {
    pub(crate) is_root: bool,
    /// Ids of the host that its user namespace maps.
    pub(crate) mapped: Vec<u64>,
    memory: Option<u64>,
    processes: Option<u64>,
    cpus: Option<f64>,
}

impl Seen {
    pub(crate) fn of(pid: &str) -> Self {
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

    /// Whether the control groups bear one line of the receipt out; another mechanism is somebody else's to check.
    pub(crate) fn check(&self, line: &Value) -> Result<(), String> {
        let (value, mechanism) = (line["value"].as_str(), line["mechanism"].as_str());
        if line["status"] != "enforced" || !mechanism.unwrap_or_default().contains("cgroup v") {
            return Ok(());
        }
        let value = value.unwrap_or_default();
        let differs = |found: String| Err(format!("{} is {found} instead of {value}", line["clause"]));
        match line["clause"].as_str().unwrap_or_default() {
            "limits.memory" if self.memory != Some(bytes(value)) => differs(format!("{:?}", self.memory)),
            // guard is one of the processes that the group counts.
            "limits.processes" if self.processes.map(|most| most - 1) != value.parse().ok() => {
                differs(format!("{:?}", self.processes))
            }
            "limits.cpus" => match (self.cpus, value.parse::<f64>()) {
                (Some(found), Ok(wanted)) if (wanted - found).abs() < 0.01 => Ok(()),
                (found, _) => differs(format!("{found:?}")),
            },
            _ => Ok(()),
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
