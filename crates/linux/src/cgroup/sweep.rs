//! Takes away the groups of owners that were killed before they could.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, test_kill_process};

use super::find::Hierarchy;
use super::group::PREFIX;
use crate::process::{is_living, pid_namespace};

/// Whoever has made a group, by pid and start time: as groups are named.
type Owner = (u32, u64);

/// Of so many living processes at most is it looked whether they are those that made a group, or later ones with the same
/// pid: it costs more than all the rest. Where there are more groups, each sweep looks at others.
const LOOKS: usize = 32;

/// Whether none of theirs is left. A group with processes stays, also with ones that are being killed: rmdir refuses.
pub fn sweep(hierarchy: &Hierarchy) -> bool {
    let bases: Vec<&Path> = match hierarchy {
        Hierarchy::V1(found) => found.iter().map(|(_, base)| base.as_path()).collect(),
        Hierarchy::V2 { base, .. } => vec![base],
        Hierarchy::Absent { .. } => return true,
    };
    let entries = bases.into_iter().flat_map(fs::read_dir).flatten().flatten();
    let namespace = pid_namespace();
    let groups: Vec<(Owner, PathBuf)> = entries
        .filter_map(|entry| Some((owner(entry.file_name().to_str()?, namespace)?, entry.path())))
        .collect();
    let gone = gone(&groups.iter().map(|(owner, _)| *owner).collect());
    let mut all = true;
    for (owner, group) in groups {
        if gone.contains(&owner) {
            all &= !matches!(fs::remove_dir(group), Err(error) if error.kind() != ErrorKind::NotFound);
        }
    }
    all
}

/// `None`: not one of our names, or made in another pid namespace, such as a container's that shares the cgroups: whether
/// that owner lives can't be seen from here.
fn owner(name: &str, namespace: u64) -> Option<Owner> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let made_in: Option<u64> = parts.nth(1).and_then(|inode| inode.parse().ok());
    (made_in == Some(namespace)).then_some(owner)
}

fn gone(owners: &BTreeSet<Owner>) -> BTreeSet<Owner> {
    let is_there = |pid: u32| {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    };
    let (there, mut gone): (BTreeSet<Owner>, BTreeSet<Owner>) =
        owners.iter().partition(|(pid, _)| is_there(*pid));
    static SWEEPS: AtomicUsize = AtomicUsize::new(0);
    let sweep = SWEEPS.fetch_add(1, Ordering::Relaxed);
    let first = (std::process::id() as usize + sweep * LOOKS) % there.len().max(1);
    let looked = there.iter().cycle().skip(first).take(there.len().min(LOOKS));
    gone.extend(looked.filter(|(pid, started)| !is_living(*pid, *started)));
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Controller;
    use crate::process::start_time;

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
        let here = pid_namespace();
        let dead = base.join(format!("{PREFIX}{}-1-0-{here}", u32::MAX));
        let reused = base.join(format!("{PREFIX}{}-{}-0-{here}", std::process::id(), own + 1));
        let live = base.join(format!("{PREFIX}{}-{own}-0-{here}", std::process::id()));
        let elsewhere = base.join(format!("{PREFIX}{}-1-0-{}", u32::MAX, here + 1));
        let other = base.join("somebody-else");
        for directory in [&dead, &reused, &live, &elsewhere, &other] {
            fs::create_dir(directory).unwrap();
        }
        sweep(&hierarchy);
        assert!(!dead.exists() && !reused.exists() && live.exists() && elsewhere.exists() && other.exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn whoever_has_ended_is_gone_before_anybody_has_waited_for_it() {
        let (base, hierarchy) = base("sweep-zombie");
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let group = base.join(format!(
            "{PREFIX}{}-{}-0-{}",
            child.id(),
            start_time(child.id()).unwrap(),
            pid_namespace()
        ));
        fs::create_dir(&group).unwrap();
        sweep(&hierarchy);
        assert!(group.exists());
        child.kill().unwrap();
        while is_living(child.id(), start_time(child.id()).unwrap_or(0)) {
            std::thread::yield_now();
        }
        sweep(&hierarchy);
        assert!(!group.exists());
        child.wait().unwrap();
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn all_dead_go_at_once_and_only_some_of_the_living_are_looked_at() {
        let (base, hierarchy) = base("sweep-many");
        let here = pid_namespace();
        let name = |pid: u32, started: u64| base.join(format!("{PREFIX}{pid}-{started}-0-{here}"));
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
