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
    let mut found = and_below([root], &parents());
    found.remove(&root);
    found
}

/// These, and all below them. In time that grows with the number of processes, and no faster: a command may leave thousands,
/// one below the other.
fn and_below(roots: impl IntoIterator<Item = i32>, parents: &BTreeMap<i32, i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, parent) in parents {
        children.entry(*parent).or_default().push(*pid);
    }
    let mut found = BTreeSet::new();
    let mut next: Vec<i32> = roots.into_iter().collect();
    while let Some(pid) = next.pop() {
        if found.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
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
    for pid in and_below(roots, &parents()) {
        let _ = kill_process(pid, SIGKILL);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_below_several_are_found_in_one_look() {
        // 1 is guard; 2 and 3 are shims; 4 is below 2, 5 below 4, 6 below 3; 7 is a stray with 8 below it.
        let parents: BTreeMap<i32, i32> =
            [(1, 0), (2, 1), (3, 1), (4, 2), (5, 4), (6, 3), (7, 1), (8, 7)].into();
        assert_eq!(and_below([2], &parents), [2, 4, 5].into());
        assert_eq!(and_below([2, 7], &parents), [2, 4, 5, 7, 8].into());
        assert_eq!(and_below([9], &parents), [9].into());
        assert_eq!(and_below([], &parents), BTreeSet::new());
    }

    /// What a bomb leaves: one below the other, and all side by side.
    #[test]
    fn a_hundred_thousand_are_found_without_looking_at_each_for_each() {
        const MANY: i32 = 100_000;
        let chain: BTreeMap<i32, i32> = (2..=MANY).map(|pid| (pid, pid - 1)).collect();
        assert_eq!(and_below([2], &chain).len() as i32, MANY - 1);
        let beside: BTreeMap<i32, i32> = (2..=MANY).map(|pid| (pid, 1)).collect();
        assert_eq!(and_below(2..=MANY, &beside).len() as i32, MANY - 1);
        // Two reads of /proc that fell into a time when numbers were given anew.
        assert_eq!(and_below([2], &[(2, 3), (3, 2)].into()), [2, 3].into());
    }
}
