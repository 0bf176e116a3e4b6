//! What a run leaves on the host: mounts, cgroups, processes, files and fds that were not there before.
//!
//! Other tests run at the same time and have such things too, but only for a while, or, in a session, with an owner that
//! lives: what counts as left over is what is new, is nobody's, *and* does not go away within a generous time.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::processes;

const PATIENCE: Duration = Duration::from_secs(20);

/// The state of the host before a run.
#[derive(Debug)]
pub struct Leftovers {
    watched: Vec<PathBuf>,
    count_fds: bool,
    marker: Option<String>,
    before: BTreeSet<String>,
}

impl Leftovers {
    /// Count what there is now.
    #[must_use]
    pub fn before() -> Self {
        let mut this = Self { watched: Vec::new(), count_fds: true, marker: None, before: BTreeSet::new() };
        this.before = this.count();
        this
    }

    /// Watch every entry below `dir` too (a state directory, a workspace).
    #[must_use]
    pub fn watch(mut self, dir: impl Into<PathBuf>) -> Self {
        self.watched.push(dir.into());
        self.before = self.count();
        self
    }

    /// Leave this process's own fds out: for tests that keep sockets open by themselves.
    #[must_use]
    pub fn without_fds(mut self) -> Self {
        self.count_fds = false;
        self.before = self.count();
        self
    }

    /// Look for processes with this marker in arguments or environment too.
    #[must_use]
    pub fn marker(mut self, marker: &str) -> Self {
        self.marker = Some(marker.to_owned());
        self
    }

    /// What is new and stays, one line each.
    #[must_use]
    pub fn since(&self) -> Vec<String> {
        self.since_within(PATIENCE)
    }

    /// What is new and doesn't go away within this time.
    #[must_use]
    pub fn since_within(&self, patience: Duration) -> Vec<String> {
        let mut new: BTreeSet<String> = self.count().difference(&self.before).cloned().collect();
        let deadline = Instant::now() + patience;
        while !new.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.count();
            new.retain(|item| now.contains(item));
        }
        new.into_iter().collect()
    }

    /// # Panics
    /// If something new stays.
    pub fn assert_none_since(&self) {
        let left = self.since();
        assert!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
    }

    fn count(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        mounts(&mut found);
        cgroups(&mut found);
        if self.count_fds {
            fds(&mut found);
        }
        named_temp_entries(&mut found);
        for process in processes::descendants_and_orphans(std::process::id()) {
            found.insert(format!("process {} ({}, started {})", process.pid, process.name, process.start));
        }
        if let Some(marker) = &self.marker {
            for process in processes::processes_with_marker(marker) {
                found.insert(format!("marked process {} ({})", process.pid, process.name));
            }
        }
        for dir in &self.watched {
            below(dir, &mut |path| {
                found.insert(format!("entry {}", path.display()));
            });
        }
        found
    }
}

fn mounts(found: &mut BTreeSet<String>) {
    for line in fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let (Some(id), Some(point)) = (fields.first(), fields.get(4)) {
            found.insert(format!("mount {id} on {point}"));
        }
    }
}

/// Directories below any cgroup directory with our name in it, in each hierarchy, but those whose owner lives.
fn cgroups(found: &mut BTreeSet<String>) {
    walk_directories(Path::new("/sys/fs/cgroup"), &mut |path| {
        if path.to_string_lossy().contains("ringfence") && !path.iter().any(has_living_owner) {
            found.insert(format!("cgroup {}", path.display()));
        }
    });
}

/// A group is named `ringfence-PID-START-NUMBER` after the process that made it.
fn has_living_owner(name: &OsStr) -> bool {
    let mut parts = name.to_str().into_iter().flat_map(|name| name.split('-').skip(1));
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (Some(pid), Some(start)) = (number(), number()) else { return false };
    u32::try_from(pid).is_ok_and(|pid| processes::is_alive(pid, start))
}

fn fds(found: &mut BTreeSet<String>) {
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        if let Ok(target) = fs::read_link(entry.path()) {
            // The directory handle that lists the fds is one of them.
            if !target.starts_with("/proc") {
                found.insert(format!("fd {} -> {}", entry.file_name().display(), target.display()));
            }
        }
    }
}

fn named_temp_entries(found: &mut BTreeSet<String>) {
    for dir in [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/run".into(), "/dev/shm".into()] {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // The benchmark, which may run meanwhile, has a directory of its own for as long as it runs.
            if name.contains("ringfence") && !name.starts_with("ringfence-bench") {
                found.insert(format!("entry {}", entry.path().display()));
            }
        }
    }
}

fn walk_directories(dir: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(&entry.path());
            walk_directories(&entry.path(), visit);
        }
    }
}

fn below(dir: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        visit(&entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&entry.path(), visit);
        }
    }
}
