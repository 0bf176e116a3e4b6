//! Takes away the groups of owners that were killed before they could.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

use super::find::Hierarchy;
use super::group::PREFIX;
use crate::process::start_time;

/// Whoever has made a group, by pid and start time: as groups are named.
type Owner = (u32, u64);

/// Of so many living processes at most is it looked whether they are those that made a group, or later ones with the same
/// pid: it costs more than all the rest. Where there are more groups, each sweep looks at others.
const LOOKS: usize = 32;

/// A group with processes stays: rmdir refuses.
pub fn sweep(hierarchy: &Hierarchy) {
    let bases: Vec<&Path> = match hierarchy {
        Hierarchy::V1(found) => found.iter().map(|(_, base)| base.as_path()).collect(),
        Hierarchy::V2 { base, .. } => vec![base],
        Hierarchy::Absent { .. } => return,
    };
    let entries = bases.into_iter().flat_map(fs::read_dir).flatten().flatten();
    let groups: Vec<(Owner, PathBuf)> =
        entries.filter_map(|entry| Some((owner(entry.file_name().to_str()?)?, entry.path()))).collect();
    let gone = gone(&groups.iter().map(|(owner, _)| *owner).collect());
    for (owner, group) in groups {
        if gone.contains(&owner) {
            let _ = fs::remove_dir(group);
        }
    }
}

/// `None`: not one of our names.
fn owner(name: &str) -> Option<Owner> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn gone(owners: &BTreeSet<Owner>) -> BTreeSet<Owner> {
    let is_there = |pid: u32| {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    };
    let (there, mut gone): (BTreeSet<Owner>, BTreeSet<Owner>) =
        owners.iter().partition(|(pid, _)| is_there(*pid));
    let first = std::process::id() as usize % there.len().max(1);
    let looked = there.iter().cycle().skip(first).take(there.len().min(LOOKS));
    gone.extend(looked.filter(|(pid, started)| start_time(*pid) != Some(*started)));
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Controller;

    fn base(name: &str) -> (PathBuf, Hierarchy) {
        let base = std::env::temp_dir().join(format!("ringfence-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(&base).unwrap();
        (base.clone(), Hierarchy::V2 { base, controllers: BTreeSet::from(Controller::ALL) })
    }

    #[test]
    fn only_groups_of_dead_owners_go() {
        let (base, hierarchy) = base("sweep");
        let own = start_time(std::process::id()).unwrap();
        let dead = base.join(format!("{PREFIX}{}-1-0", u32::MAX));
        let reused = base.join(format!("{PREFIX}{}-{}-0", std::process::id(), own + 1));
        let live = base.join(format!("{PREFIX}{}-{own}-0", std::process::id()));
        let other = base.join("somebody-else");
        for directory in [&dead, &reused, &live, &other] {
            fs::create_dir(directory).unwrap();
        }
        sweep(&hierarchy);
        assert!(!dead.exists() && !reused.exists() && live.exists() && other.exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn all_dead_go_at_once_and_only_some_of_the_living_are_looked_at() {
        let (base, hierarchy) = base("sweep-many");
        let name = |pid: u32, started: u64| base.join(format!("{PREFIX}{pid}-{started}-0"));
        for number in 0..1_000 {
            fs::create_dir(name(u32::MAX, number)).unwrap();
            // This process's pid, with start times that it has not.
            fs::create_dir(name(std::process::id(), u64::MAX - number)).unwrap();
        }
        sweep(&hierarchy);
        assert_eq!(fs::read_dir(&base).unwrap().count(), 1_000 - LOOKS);
        fs::remove_dir_all(base).unwrap();
    }
}
