use super::*;

fn file(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn scratch(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("ringfence-cgroup-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

fn v2_group(directory: &Path, controllers: &str, handed_down: &str) {
    file(directory.join("cgroup.controllers"), controllers);
    file(directory.join("cgroup.subtree_control"), handed_down);
    file(directory.join("cgroup.procs"), "");
}

#[test]
fn v2_takes_the_nearest_ancestor_that_hands_controllers_down() {
    let root = scratch("v2");
    v2_group(&root, "cpu memory pids", "cpu memory pids");
    v2_group(&root.join("user.slice"), "cpu memory pids", "cpu memory pids");
    v2_group(&root.join("user.slice/app.scope"), "cpu memory pids", "");
    let found = Hierarchy::detect_in(&root, "0::/user.slice/app.scope\n");
    let Hierarchy::V2 { base, controllers } = &found else { panic!("{found:?}") };
    assert_eq!(base, &root.join("user.slice"));
    assert_eq!(controllers.len(), 3);
    assert_eq!(found.version(), "cgroup v2");
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn v2_without_a_controller_names_it_and_the_fix() {
    let root = scratch("gap");
    v2_group(&root, "memory pids", "memory pids");
    v2_group(&root.join("a.scope"), "memory pids", "");
    let found = Hierarchy::detect_in(&root, "0::/a.scope\n");
    assert!(found.has(Controller::Memory) && !found.has(Controller::Cpu));
    let (why, fix) = found.gap(Controller::Cpu);
    assert!(why.contains("`cpu`") && fix.contains("+cpu"), "{why} / {fix}");
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn v1_groups_are_made_beneath_the_callers_own() {
    let root = scratch("v1");
    file(root.join("memory/jobs/one/tasks"), "");
    file(root.join("memory/tasks"), "");
    file(root.join("pids/tasks"), "");
    let found = Hierarchy::detect_in(&root, "4:memory:/jobs/one\n3:pids:/\n2:cpu,cpuacct:/\n");
    assert_eq!(
        found,
        Hierarchy::V1(vec![
            (Controller::Memory, root.join("memory/jobs/one")),
            (Controller::Pids, root.join("pids/")),
        ])
    );
    assert!(!found.has(Controller::Cpu));
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn no_cgroups_at_all_is_said() {
    let root = scratch("none");
    assert!(matches!(Hierarchy::detect_in(&root, ""), Hierarchy::Absent { .. }));
    fs::remove_dir_all(root).unwrap();
}
