//! A save and an import that are cut short at every step, by an error and by a kill: the store is whole, and the
//! snapshot is there or it is not.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};

use super::faults::{self, Fault};
use super::scene::{Scene, options};
use super::*;

/// A store with a snapshot, a tree that differs from it, and an export of that difference.
fn prepared() -> (Scene, SnapshotId) {
    let scene = Scene::new();
    scene.write("old", "old");
    let base = scene.save().id;
    scene.write("one", "1");
    scene.write("large", vec![b'x'; 300_000]);
    let id = scene.save().id;
    let mut file = fs::File::create(scene.path("export.tar")).unwrap();
    scene.store.export(id, ExportFormat::Tar, &mut file).unwrap();
    scene.store.remove(id).unwrap();
    scene.store.collect().unwrap();
    scene.store.forget_session("one").unwrap();
    (scene, base)
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Save,
    Import,
}

impl Act {
    /// In the directory of a scene.
    fn carry_out(self, directory: &Path) -> Result<SnapshotId, SnapshotError> {
        let store = SnapshotStore::open(&directory.join("store"), SnapshotLimits::default())?;
        match self {
            Self::Save => {
                let tree = LocalTree::open(&directory.join("tree")).unwrap();
                let roots = [RootTree { label: "workspace", tree: &tree }];
                Ok(store.save(&roots, &options("one"), &mut |_| ControlFlow::Continue(()))?.id)
            }
            Self::Import => {
                let mut file = fs::File::open(directory.join("export.tar")).unwrap();
                Ok(store.import(&mut file)?.id)
            }
        }
    }
}

fn assert_whole_with(scene: &Scene, base: SnapshotId) {
    scene.assert_whole();
    let ids = scene.store.ids().unwrap();
    assert!(ids.contains(&base) && ids.len() <= 2, "{ids:?}");
    scene.store.collect().unwrap();
    assert_eq!(scene.temporary_files(), 0);
    for id in ids {
        assert_eq!(scene.store.verify(id).unwrap().damage, []);
    }
}

fn fail_at_each_step(act: Act) {
    for step in 0.. {
        let (scene, base) = prepared();
        faults::set(Some((step, Fault::Fail)));
        let done = act.carry_out(&scene.path(""));
        if faults::set(None).is_some() {
            assert!(step > 10, "{act:?} has more than {step} steps");
            assert!(scene.store.ids().unwrap().contains(&done.unwrap()));
            return;
        }
        assert_eq!(scene.temporary_files(), 0, "{act:?}, step {step}");
        assert_whole_with(&scene, base);
        act.carry_out(&scene.path("")).unwrap();
        scene.assert_whole();
    }
}

#[test]
fn a_save_that_fails_at_any_step_leaves_the_store_whole() {
    fail_at_each_step(Act::Save);
}

#[test]
fn an_import_that_fails_at_any_step_leaves_the_store_whole() {
    fail_at_each_step(Act::Import);
}

const DIRECTORY: &str = "RINGFENCE_TEST_DIRECTORY";
const STEP: &str = "RINGFENCE_TEST_STEP";
const NOT_REACHED: i32 = 77;

fn kill_at_each_step(act: Act, child: &str) {
    for step in 0u32.. {
        let (scene, base) = prepared();
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored"])
            .env(DIRECTORY, scene.path(""))
            .env(STEP, step.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        if ended.code() == Some(NOT_REACHED) {
            assert!(step > 10, "{act:?} has more than {step} steps");
            return;
        }
        assert_eq!(ended.code(), None, "{act:?}, step {step}: {ended}");
        assert_whole_with(&scene, base);
        act.carry_out(&scene.path("")).unwrap();
        scene.assert_whole();
    }
}

fn be_killed(act: Act) {
    let (Ok(directory), Ok(step)) = (std::env::var(DIRECTORY), std::env::var(STEP)) else { return };
    faults::set(Some((step.parse().unwrap(), Fault::Abort)));
    act.carry_out(Path::new(&directory)).unwrap();
    std::process::exit(NOT_REACHED);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn saving_child() {
    be_killed(Act::Save);
}

#[test]
fn a_save_that_is_killed_at_any_step_leaves_the_store_whole() {
    kill_at_each_step(Act::Save, "snapshots::crash_tests::saving_child");
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn importing_child() {
    be_killed(Act::Import);
}

#[test]
fn an_import_that_is_killed_at_any_step_leaves_the_store_whole() {
    kill_at_each_step(Act::Import, "snapshots::crash_tests::importing_child");
}
