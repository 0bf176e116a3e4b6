//! What a run leaves on the host: mounts, cgroups, processes, files and fds that were not there before.
//!
//! Other tests run at the same time and have such things too, but only for a while, or, in a session, with an owner that
//! lives. What counts as left over is what is new, does not go away within a generous time, *and* is nobody's or the
//! test's own: what descends from it, knows a token of its scenes, or is a session of their state directories.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::docker::left_in_daemons;
use crate::processes::{self, Process};
use crate::scene::{Kept, own_sessions, own_states, own_tokens};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The state of the host before a run.
#[derive(Debug)]
pub struct Leftovers {
    watched: Vec<PathBuf>,
    count_fds: bool,
    markers: Vec<String>,
    before: BTreeSet<String>,
}

impl Leftovers {
    /// Count what there is now.
    #[must_use]
    pub fn before() -> Self {
        let mut this = Self {
            watched: Vec::new(),
            count_fds: true,
            markers: vec![own_tokens()],
            before: BTreeSet::new(),
        };
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
        self.markers.push(marker.to_owned());
        self.before = self.count();
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
        let own = self.own_processes(&mut found);
        cgroups(&own, &mut found);
        if self.count_fds {
            fds(&mut found);
        }
        named_temp_entries(&mut found);
        found.extend(left_in_daemons(&own_states()));
        for dir in &self.watched {
            below(dir, &mut |path| {
                found.insert(format!("entry {}", path.display()));
            });
        }
        found
    }
}

impl Leftovers {
    /// What descends from this test, carries a marker or is in a session of a scene, and what is nobody's; written down.
    fn own_processes(&self, found: &mut BTreeSet<String>) -> Vec<Process> {
        let mut own = processes::descendants_and_orphans(std::process::id());
        for process in &own {
            found.insert(format!("process {} ({}, started {})", process.pid, process.name, process.start));
        }
        for marker in &self.markers {
            for process in processes::processes_with_marker(marker) {
                found.insert(format!("marked process {} ({})", process.pid, process.name));
                own.push(process);
            }
        }
        for Kept { name, keeper, .. } in own_sessions() {
            found.insert(format!("session {name} (keeper {keeper})"));
            let kept = processes::below(keeper);
            for process in &kept {
                found.insert(format!("process {} ({}) of session {name}", process.pid, process.name));
            }
            own.extend(kept);
        }
        own
    }
}

fn mounts(found: &mut BTreeSet<String>) {
    for line in fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let (Some(id), Some(point)) = (fields.first(), fields.get(4)) {
            found.insert(format!("mount {id} on {point}"));
        }
    }
}

/// Directories below any cgroup directory with our name in it, in each hierarchy, but those of others who live.
fn cgroups(own: &[Process], found: &mut BTreeSet<String>) {
    let is_others =
        |name: &OsStr| has_living_owner(name).is_some_and(|pid| own.iter().all(|own| own.pid != pid));
    walk_directories(Path::new("/sys/fs/cgroup"), &mut |path| {
        if path.to_string_lossy().contains("ringfence") && !path.iter().any(is_others) {
            found.insert(format!("cgroup {}", path.display()));
        }
    });
}

/// A group is named `ringfence-PID-START-NUMBER-NAMESPACE` after the process that made it.
fn has_living_owner(name: &OsStr) -> Option<u32> {
    let mut parts = name.to_str().into_iter().flat_map(|name| name.split('-').skip(1));
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (pid, start) = (number()?, number()?);
    u32::try_from(pid).ok().filter(|pid| processes::is_alive(*pid, start))
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
