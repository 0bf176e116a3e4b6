//! Processes by descent: what a command of a session started, wherever it went since.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_linux::{kill_process, read_kernel_file};

const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;

/// So often is it looked again for what was started meanwhile. Whatever is stopped starts nothing more, so that each look
/// finds less; only an endless supply of processes would need more, and limits are there.
const LOOKS: u32 = 1_000;

/// Parents of all processes of this pid namespace.
fn parents() -> BTreeMap<i32, i32> {
    let mut parents = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return parents };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // The name in brackets may hold anything; state and parent come after it.
        let parent = read_kernel_file(entry.path().join("stat"))
            .ok()
            .and_then(|stat| stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok());
        if let Some(parent) = parent {
            parents.insert(pid, parent);
        }
    }
    parents
}

/// All below `root`, without it.
fn descendants(root: i32) -> BTreeSet<i32> {
    let parents = parents();
    let mut found = BTreeSet::new();
    loop {
        let more: Vec<i32> = parents
            .iter()
            .filter(|(pid, parent)| !found.contains(*pid) && (**parent == root || found.contains(*parent)))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Kill all below `root`. Stopped first, so that none starts another while its parent dies. What is never the same process
/// for long may be missed: see `kill_frozen`.
pub(crate) fn kill_below(root: i32) {
    let mut stopped = BTreeSet::new();
    for _ in 0..LOOKS {
        let new: Vec<i32> = descendants(root).difference(&stopped).copied().collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            // One that has ended since is gone, as it should be.
            let _ = kill_process(pid, SIGSTOP);
            stopped.insert(pid);
        }
    }
    for pid in stopped {
        let _ = kill_process(pid, SIGKILL);
    }
}

/// Kill these and all below them. Only while everybody is stopped: then one look shows all that there are.
pub(crate) fn kill_frozen(roots: impl IntoIterator<Item = i32>) {
    for root in roots {
        for pid in descendants(root).into_iter().chain([root]) {
            let _ = kill_process(pid, SIGKILL);
        }
    }
}

/// What has become a child of guard but is none of its own: what a killed shim left.
pub(crate) fn strays(own: &BTreeSet<i32>) -> Vec<i32> {
    const GUARD: i32 = 1;
    parents()
        .into_iter()
        .filter(|(pid, parent)| *parent == GUARD && !own.contains(pid))
        .map(|(pid, _)| pid)
        .collect()
}
