use std::collections::BTreeSet;

use super::*;

/// A plain directory in place of a cgroup2 mount: shows what is written where.
fn faked_v2(name: &str) -> (PathBuf, Hierarchy) {
    let base = std::env::temp_dir().join(format!("ringfence-group-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&base);
    fs::create_dir_all(&base).unwrap();
    let controllers = BTreeSet::from(Controller::ALL);
    (base.clone(), Hierarchy::V2 { base, controllers })
}

#[test]
fn v2_limits_are_written_in_the_kernels_units() {
    let (base, hierarchy) = faked_v2("limits");
    let limits = CgroupLimits { cpus: Some(1.5), memory: Some(1 << 20), processes: Some(64) };
    let group = Cgroup::create(&hierarchy, &limits).unwrap();
    let path = group.directories[0].1.clone();
    let read = |file: &str| fs::read_to_string(path.join(file)).unwrap();
    assert_eq!(read("cpu.max"), "150000 100000");
    assert_eq!(read("memory.max"), "1048576");
    assert_eq!(read("memory.swap.max"), "0");
    assert_eq!(read("pids.max"), "64");
    assert!(group.v2_directory().unwrap().is_some());
    assert!(group.v1_entrances().unwrap().is_empty());
    fs::write(path.join("memory.events"), "low 0\noom 3\noom_kill 2\n").unwrap();
    fs::write(path.join("pids.events"), "max 7\n").unwrap();
    assert_eq!((group.counts().oom_kills(), group.counts().refused_forks()), (2, 7));
    std::mem::forget(group);
    fs::remove_dir_all(base).unwrap();
}
