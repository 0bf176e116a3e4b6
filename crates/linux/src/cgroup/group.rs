//! One control group: made with its limits, entered by a sandbox's first process, read, and removed.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::find::{Controller, Hierarchy};
use crate::process::{pid_namespace, read_kernel_file, start_time};

pub(super) const PREFIX: &str = "ringfence-";
const CPU_PERIOD_MICROS: u64 = 100_000;

/// The limits of a group; `None` is no limit, and a controller with none is not used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CgroupLimits {
    pub cpus: Option<f64>,
    pub memory: Option<u64>,
    pub processes: Option<u32>,
}

impl CgroupLimits {
    fn controllers(&self) -> impl Iterator<Item = Controller> + '_ {
        Controller::ALL.into_iter().filter(|controller| match controller {
            Controller::Cpu => self.cpus.is_some(),
            Controller::Memory => self.memory.is_some(),
            Controller::Pids => self.processes.is_some(),
        })
    }
}

/// A step on a control group that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct CgroupError {
    pub action: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_path_buf();
    move |source| CgroupError { action, path, source }
}

/// A group that exists; dropping it removes it, and by then all its processes must have ended.
#[derive(Debug)]
pub struct Cgroup {
    directories: Vec<(Option<Controller>, PathBuf)>,
    v2: bool,
}

const FORKS_FILE: &str = "pids.events";

/// Counters of a group, open as long as this lives: to open one costs more than to read it.
#[derive(Debug, Default)]
pub struct CgroupCounts {
    oom_kills: Option<File>,
    refused_forks: Option<File>,
}

impl CgroupCounts {
    /// How many processes the kernel killed for want of memory.
    pub fn oom_kills(&self) -> u64 {
        field(self.oom_kills.as_ref(), "oom_kill")
    }

    /// How often a fork was refused.
    pub fn refused_forks(&self) -> u64 {
        field(self.refused_forks.as_ref(), "max")
    }
}

/// 0 if there is none.
fn field(file: Option<&File>, key: &str) -> u64 {
    let mut buffer = [0; 4096];
    let length = file.and_then(|file| file.read_at(&mut buffer, 0).ok()).unwrap_or(0);
    let text = String::from_utf8_lossy(&buffer[..length]);
    let line = text.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == key));
    line.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

impl Cgroup {
    /// Make a group named after this process, with `limits`. What was made is removed if a later step fails.
    pub fn create(hierarchy: &Hierarchy, limits: &CgroupLimits) -> Result<Self, CgroupError> {
        let name = own_name();
        let mut group = Self { directories: Vec::new(), v2: matches!(hierarchy, Hierarchy::V2 { .. }) };
        match hierarchy {
            Hierarchy::V1(bases) => {
                for controller in limits.controllers() {
                    let Some((_, base)) = bases.iter().find(|(has, _)| *has == controller) else { continue };
                    group.make(Some(controller), base.join(&name))?;
                }
            }
            Hierarchy::V2 { base, .. } => group.make(None, base.join(&name))?,
            Hierarchy::Absent { .. } => {}
        }
        group.set_limits(limits)?;
        Ok(group)
    }

    fn make(&mut self, controller: Option<Controller>, path: PathBuf) -> Result<(), CgroupError> {
        fs::create_dir(&path).map_err(failed("make", &path))?;
        self.directories.push((controller, path));
        Ok(())
    }

    fn directory(&self, controller: Controller) -> Option<&Path> {
        self.directories
            .iter()
            .find(|(has, _)| has.is_none_or(|has| has == controller))
            .map(|(_, path)| path.as_path())
    }

    fn write(&self, controller: Controller, file: &str, value: &str) -> Result<(), CgroupError> {
        let Some(directory) = self.directory(controller) else { return Ok(()) };
        let path = directory.join(file);
        fs::write(&path, value).map_err(failed("write", &path))
    }

    fn write_if_there(&self, controller: Controller, file: &str, value: &str) -> Result<(), CgroupError> {
        match self.write(controller, file, value) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
            // Without CONFIG_MEMCG_SWAP the file is there and does nothing.
            Err(error) if error.source.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            result => result,
        }
    }

    fn set_limits(&self, limits: &CgroupLimits) -> Result<(), CgroupError> {
        if let Some(bytes) = limits.memory {
            let bytes = bytes.to_string();
            if self.v2 {
                self.write(Controller::Memory, "memory.max", &bytes)?;
                self.write_if_there(Controller::Memory, "memory.swap.max", "0")?;
            } else {
                self.write(Controller::Memory, "memory.limit_in_bytes", &bytes)?;
                self.write_if_there(Controller::Memory, "memory.memsw.limit_in_bytes", &bytes)?;
            }
        }
        if let Some(cpus) = limits.cpus {
            let quota = ((cpus * CPU_PERIOD_MICROS as f64) as u64).max(1_000);
            if self.v2 {
                self.write(Controller::Cpu, "cpu.max", &format!("{quota} {CPU_PERIOD_MICROS}"))?;
            } else {
                self.write(Controller::Cpu, "cpu.cfs_quota_us", &quota.to_string())?;
            }
        }
        if let Some(processes) = limits.processes {
            self.set_processes(processes)?;
        }
        Ok(())
    }

    /// How many processes there may be from now on; more that are there already stay.
    pub fn set_processes(&self, processes: u32) -> Result<(), CgroupError> {
        self.write(Controller::Pids, "pids.max", &processes.to_string())
    }

    /// For clone3's CLONE_INTO_CGROUP.
    pub fn v2_directory(&self) -> Result<Option<OwnedFd>, CgroupError> {
        match self.directories.first() {
            Some((None, path)) => Ok(Some(File::open(path).map_err(failed("open", path))?.into())),
            _ => Ok(None),
        }
    }

    /// v2: take a process in that was started elsewhere. On v1 it enters by itself, by [`Self::v1_entrances`].
    pub fn take_in(&self, pid: i32) -> Result<(), CgroupError> {
        let Some((None, path)) = self.directories.first() else { return Ok(()) };
        let path = path.join("cgroup.procs");
        fs::write(&path, pid.to_string()).map_err(failed("write", &path))
    }

    /// v1: the files to which a single-threaded process writes `0` to enter. `cgroup.procs` would wait for an RCU
    /// grace period, milliseconds on a quiet machine.
    pub fn v1_entrances(&self) -> Result<Vec<OwnedFd>, CgroupError> {
        let mut entrances = Vec::new();
        for (controller, path) in &self.directories {
            if controller.is_some() {
                let path = path.join("tasks");
                let file = File::options().write(true).open(&path).map_err(failed("open", &path))?;
                entrances.push(file.into());
            }
        }
        Ok(entrances)
    }

    fn read(&self, controller: Controller, file: &str) -> Option<String> {
        read_kernel_file(self.directory(controller)?.join(file)).ok()
    }

    /// What it counts, to be looked at often.
    pub fn counts(&self) -> CgroupCounts {
        let open = |controller, file| File::open(self.directory(controller)?.join(file)).ok();
        CgroupCounts {
            oom_kills: open(Controller::Memory, self.oom_file()),
            refused_forks: open(Controller::Pids, FORKS_FILE),
        }
    }

    fn oom_file(&self) -> &'static str {
        if self.v2 { "memory.events" } else { "memory.oom_control" }
    }

    /// How many processes there are.
    pub fn processes(&self) -> Option<u64> {
        self.read(Controller::Pids, "pids.current")?.trim().parse().ok()
    }

    /// What is used now.
    pub fn memory(&self) -> Option<u64> {
        let file = if self.v2 { "memory.current" } else { "memory.usage_in_bytes" };
        self.read(Controller::Memory, file)?.trim().parse().ok()
    }

    pub fn peak_memory(&self) -> Option<u64> {
        let file = if self.v2 { "memory.peak" } else { "memory.max_usage_in_bytes" };
        self.read(Controller::Memory, file)?.trim().parse().ok()
    }

    pub fn peak_processes(&self) -> Option<u64> {
        self.read(Controller::Pids, "pids.peak")?.trim().parse().ok()
    }

    /// Remove the group. A task that has just been reaped may hold it for a moment longer.
    pub fn remove(&mut self) -> Result<(), CgroupError> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Some((_, path)) = self.directories.last() {
            match fs::remove_dir(path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Err(error) => {
                    let problem = failed("remove", path)(error);
                    self.directories.pop();
                    return Err(problem);
                }
            }
            self.directories.pop();
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

/// Carries the owner's pid and start time, a number that differs between two groups of one owner, and the pid namespace in
/// which that pid is the owner's.
fn own_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{pid}-{}-{number}-{}", start_time(pid).unwrap_or(0), pid_namespace())
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
