//! What a session uses, counted from outside.

use std::collections::BTreeMap;

use ringfence_linux::{Cgroup, read_kernel_file};

use super::Keeper;
use crate::session::wire::SessionStats;

/// Fields of a process's stat, counted after its name.
const PARENT: usize = 1;
const TIMES: std::ops::Range<usize> = 11..15;
const RESIDENT: usize = 21;

#[derive(Clone, Copy)]
struct Facts {
    parent: i32,
    ticks: u64,
    pages: u64,
}

fn facts(pid: i32) -> Option<Facts> {
    let stat = read_kernel_file(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(TIMES)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Facts {
        parent: fields.get(PARENT)?.parse().ok()?,
        ticks,
        pages: fields.get(RESIDENT)?.parse().ok()?,
    })
}

/// guard and all below it.
fn tree(root: i32) -> Vec<Facts> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(facts) = facts(pid)
        {
            all.insert(pid, facts);
        }
    }
    let is_below = |mut pid: i32| {
        for _ in 0..all.len() {
            if pid == root {
                return true;
            }
            match all.get(&pid) {
                Some(facts) => pid = facts.parent,
                None => return false,
            }
        }
        false
    };
    all.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, facts)| *facts).collect()
}

impl Keeper<'_> {
    pub(super) fn stats(&self, disk_used: u64, disk_limit: u64) -> SessionStats {
        let tree = tree(self.held.root.pid);
        let ticks: u64 = tree.iter().map(|facts| facts.ticks).sum();
        let pages: u64 = tree.iter().map(|facts| facts.pages).sum();
        let cgroup = self.held.cgroup.as_ref();
        let network = self.warden.network().unwrap_or_default();
        let sum = |of: fn(&crate::network_record::ConnectionRecord) -> u64| {
            network.connections.iter().map(of).sum()
        };
        SessionStats {
            cpu_ms: ticks * 1_000 / rustix::param::clock_ticks_per_second(),
            memory: cgroup.and_then(Cgroup::memory).unwrap_or(pages * rustix::param::page_size() as u64),
            max_memory: cgroup.and_then(Cgroup::peak_memory),
            // guard and the spare shim are none of the commands'.
            processes: tree.len().saturating_sub(1 + usize::from(self.spare.is_some())) as u64,
            disk_used,
            disk_limit,
            sent: sum(|connection| connection.sent),
            received: sum(|connection| connection.received),
            connections: sum(|connection| connection.count),
        }
    }
}
