//! Processes on this machine, seen through `/proc`: which carry a test's marker, which descend from us, and which
//! live in a PID namespace that is not ours and has lost its owner.

use std::fs;

/// One process, told apart from a later one with the same pid by its start time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: u32,
    pub start: u64,
    /// Its process group.
    pub group: u32,
    pub name: String,
}

/// The processes (but ourselves) whose arguments or environment hold `marker`.
#[must_use]
pub fn processes_with_marker(marker: &str) -> Vec<Process> {
    let me = std::process::id();
    let holds = |path: String| fs::read(path).is_ok_and(|bytes| contains(&bytes, marker.as_bytes()));
    pids()
        .filter(|&pid| pid != me)
        .filter(|pid| holds(format!("/proc/{pid}/cmdline")) || holds(format!("/proc/{pid}/environ")))
        .filter_map(living)
        .collect()
}

/// The processes below `ancestor`, and those in another PID namespace than ours that nobody owns any more. One with an owner
/// is a sandbox in use: a session that another test has is there for long.
pub(crate) fn descendants_and_orphans(ancestor: u32) -> Vec<Process> {
    pids().filter(|pid| descends(*pid, ancestor) || is_orphan(*pid)).filter_map(living).collect()
}

/// A process and all below it.
pub(crate) fn below(ancestor: u32) -> Vec<Process> {
    pids().filter(|pid| *pid == ancestor || descends(*pid, ancestor)).filter_map(living).collect()
}

/// Whether it lives in another PID namespace, whose first process is a child of the machine's own.
fn is_orphan(pid: u32) -> bool {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let ours = namespace("self");
    let is_stranger = |pid: u32| namespace(&pid.to_string()).is_some_and(|theirs| Some(theirs) != ours);
    let mut current = pid;
    while is_stranger(current) {
        match Stat::of(current) {
            Some(stat) if stat.parent <= 1 => return true,
            Some(stat) => current = stat.parent,
            None => return false,
        }
    }
    false
}

/// Whether the process with this pid is the one that was started then.
pub(crate) fn is_alive(pid: u32, start: u64) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.start == start && stat.state != 'Z')
}

/// The children of a process.
#[must_use]
pub fn children(parent: u32) -> Vec<u32> {
    pids().filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.parent == parent)).collect()
}

/// Whether it is PID 1 of a namespace.
pub(crate) fn is_first(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().count() > 1 && numbers.trim_end().ends_with("\t1")
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
}

fn descends(pid: u32, ancestor: u32) -> bool {
    let mut current = pid;
    while let Some(stat) = Stat::of(current) {
        if stat.parent == ancestor {
            return true;
        }
        if stat.parent <= 1 {
            return false;
        }
        current = stat.parent;
    }
    false
}

/// A process that isn't a zombie: a zombie holds nothing and is its parent's to reap.
fn living(pid: u32) -> Option<Process> {
    let stat = Stat::of(pid)?;
    (stat.state != 'Z' && stat.state != 'X').then_some(Process {
        pid,
        start: stat.start,
        group: stat.group,
        name: stat.name,
    })
}

struct Stat {
    name: String,
    state: char,
    parent: u32,
    group: u32,
    start: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold spaces and brackets, so the fields start after the last bracket.
        let (head, fields) = text.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Self {
            name,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
