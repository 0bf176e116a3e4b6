//! A commit that is killed after every single step, and recoveries that are killed after every one of theirs: each file is
//! old or new at every moment, all are new after `finish` and all are old after `undo`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::commit::CommitOptions;
use super::error::OverlayError;
use super::recover::Recovered;
use super::scene_tests::{Scene, chmod};
use super::start::Overlay;
use super::steps::Steps;

const PLACE: &str = "RINGFENCE_TEST_OVERLAY_PLACE";
const STEP: &str = "RINGFENCE_TEST_OVERLAY_STEP";

type Tree = BTreeMap<String, String>;

/// One unit of each kind.
fn scene() -> Scene {
    let scene =
        Scene::over(&[("a", "old"), ("gone", "old"), ("tree/x", "old"), ("was-dir/y", "old"), ("mode", "1")]);
    scene.copied("a", "new").removed("gone").removed("tree").wrote("was-dir", "new").wrote("added/z", "new");
    scene.copied("mode", "1");
    chmod(&scene.upper("mode"), 0o700);
    scene
}

fn old_and_new() -> (Tree, Tree) {
    let scene = scene();
    let old = visible(&scene);
    scene.commit().unwrap();
    (old, visible(&scene))
}

/// The user's directory without what commits keep in it meanwhile.
fn visible(scene: &Scene) -> Tree {
    scene.tree().into_iter().filter(|(path, _)| !path.starts_with(".ringfence-commit-")).collect()
}

fn each_is_old_or_new(scene: &Scene, old: &Tree, new: &Tree, when: &str) {
    let now = visible(scene);
    for unit in ["a", "gone", "tree", "was-dir", "added", "mode"] {
        let part = |tree: &Tree| -> Tree {
            let own = |path: &String| path == unit || path.starts_with(&format!("{unit}/"));
            tree.iter()
                .filter(|(path, _)| own(path))
                .map(|(path, what)| (path.clone(), what.clone()))
                .collect()
        };
        let found = part(&now);
        assert!(found == part(old) || found == part(new), "{when}: {unit} is torn: {found:?}");
    }
}

fn stop_at(step: u32) -> impl Fn(u32) -> bool {
    move |number| number != step
}

fn commit(overlay: &Overlay, steps: &Steps<'_>) -> Result<(), OverlayError> {
    overlay.commit_in_steps(&CommitOptions::default(), steps).map(|_| ())
}

fn finish(overlay: &Overlay, steps: &Steps<'_>) -> Result<(), OverlayError> {
    overlay.finish_in_steps(steps).map(|_| ())
}

fn undo(overlay: &Overlay, steps: &Steps<'_>) -> Result<(), OverlayError> {
    overlay.undo_in_steps(steps).map(|_| ())
}

/// The end: whatever the recovery says is what the user's directory is, and another commit comes to the new state.
fn ends_well(scene: &Scene, (old, new): (&Tree, &Tree), recovered: Option<Recovered>, when: &str) {
    match recovered {
        Some(Recovered::Applied) => assert_eq!(visible(scene), *new, "{when}"),
        Some(Recovered::Undone { left, kept }) => {
            assert!(left.is_empty() && kept.is_empty(), "{when}: {left:?} {kept:?}");
            assert_eq!(visible(scene), *old, "{when}");
        }
        None => assert!(visible(scene) == *old || visible(scene) == *new, "{when}"),
    }
    assert_eq!(scene.tree(), visible(scene), "{when}: something is left behind");
    scene.commit().unwrap_or_else(|error| panic!("{when}: {error}"));
    assert_eq!(visible(scene), *new, "{when}");
    assert!(scene.changes().is_empty(), "{when}");
}

/// `None` if nothing was interrupted.
fn recover(scene: &Scene, way: &str) -> Option<Recovered> {
    let overlay = scene.open();
    let result = if way == "finish" { overlay.finish() } else { overlay.undo() };
    match result {
        Ok(recovered) => Some(recovered),
        Err(OverlayError::NothingUnfinished) => None,
        Err(error) => panic!("{way}: {error}"),
    }
}

#[test]
fn a_commit_stopped_after_any_step_is_finished_and_undone() {
    let (old, new) = old_and_new();
    let (mut applied, mut undone) = (0, 0);
    for way in ["finish", "undo"] {
        let mut step = 1;
        loop {
            let scene = scene();
            let stop = stop_at(step);
            match commit(&scene.open(), &Steps::watched(&stop)) {
                Ok(()) => break,
                Err(OverlayError::Stopped) => {}
                Err(error) => panic!("{error}"),
            }
            let when = format!("commit stopped at {step}, then {way}");
            each_is_old_or_new(&scene, &old, &new, &when);
            let recovered = recover(&scene, way);
            match recovered {
                Some(Recovered::Applied) => applied += 1,
                Some(Recovered::Undone { .. }) => undone += 1,
                None => {}
            }
            ends_well(&scene, (&old, &new), recovered, &when);
            step += 1;
        }
        assert!(step > 18, "only {step} steps");
    }
    assert!(applied > 6 && undone > 12, "{applied} {undone}");
}

/// Until what it replaced begins to be thrown away: from there on nobody could.
#[test]
fn a_commit_that_was_applied_and_not_cleared_away_is_taken_back() {
    let (old, new) = old_and_new();
    let applied = |scene: &Scene| {
        let journal = std::fs::read_to_string(scene.path("layers/commit/journal.json"));
        journal.is_ok_and(|text| text.contains(r#""phase":"applied""#))
    };
    let scene = scene();
    let stop = |_: u32| !applied(&scene);
    assert!(matches!(commit(&scene.open(), &Steps::watched(&stop)), Err(OverlayError::Stopped)));
    assert_eq!(visible(&scene), new);
    let recovered = recover(&scene, "undo");
    assert!(matches!(recovered, Some(Recovered::Undone { .. })), "{recovered:?}");
    ends_well(&scene, (&old, &new), recovered, "applied, then undo");
}

#[test]
fn a_recovery_stopped_after_any_step_is_repeated_and_reversed() {
    let (old, new) = old_and_new();
    for (first, second) in [("finish", "finish"), ("finish", "undo"), ("undo", "undo"), ("undo", "finish")] {
        let mut commit_step = 1;
        loop {
            let stopped = Cell::new(false);
            let mut recovery_step = 1;
            loop {
                let scene = scene();
                let stop = stop_at(commit_step);
                if commit(&scene.open(), &Steps::watched(&stop)).is_ok() {
                    break;
                }
                stopped.set(true);
                let stop = stop_at(recovery_step);
                let steps = Steps::watched(&stop);
                let overlay = scene.open();
                let done = if first == "finish" { finish(&overlay, &steps) } else { undo(&overlay, &steps) };
                if !matches!(done, Err(OverlayError::Stopped)) {
                    break;
                }
                drop(overlay);
                let when = format!("commit at {commit_step}, {first} at {recovery_step}, then {second}");
                each_is_old_or_new(&scene, &old, &new, &when);
                let recovered = recover(&scene, second);
                ends_well(&scene, (&old, &new), recovered, &when);
                recovery_step += 1;
            }
            if !stopped.get() {
                break;
            }
            commit_step += 1;
        }
        assert!(commit_step > 18);
    }
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn a_worker() {
    let (Ok(place), Ok(step)) = (std::env::var(PLACE), std::env::var(STEP)) else { return };
    let step: u32 = step.parse().unwrap();
    let die = |number: u32| {
        if number == step {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
        true
    };
    let overlay = Overlay::open(place.as_ref()).unwrap();
    commit(&overlay, &Steps::watched(&die)).unwrap();
}

#[test]
fn a_commit_that_is_killed_after_any_step_is_finished_and_undone() {
    use std::os::unix::process::ExitStatusExt;
    let (old, new) = old_and_new();
    for way in ["finish", "undo"] {
        let mut step = 1;
        loop {
            let scene = scene();
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "overlay::fault_tests::a_worker", "--test-threads=1"])
                .env(PLACE, scene.path("layers"))
                .env(STEP, step.to_string())
                .stdout(Stdio::null())
                .status()
                .unwrap();
            if status.success() {
                assert_eq!(visible(&scene), new);
                break;
            }
            assert_eq!(status.signal(), Some(9));
            let when = format!("killed at {step}, then {way}");
            each_is_old_or_new(&scene, &old, &new, &when);
            let recovered = recover(&scene, way);
            ends_well(&scene, (&old, &new), recovered, &when);
            step += 1;
        }
        assert!(step > 18, "only {step} steps");
    }
}

#[test]
fn nothing_is_committed_over_an_interrupted_commit() {
    let scene = scene();
    let stop = stop_at(12);
    assert!(commit(&scene.open(), &Steps::watched(&stop)).is_err());
    assert!(matches!(scene.commit(), Err(OverlayError::Unfinished)));
    assert!(!scene.open().unfinished().unwrap().unwrap().paths.is_empty());
}

#[test]
fn what_its_user_wrote_after_a_kill_survives_undo_and_what_was_there_before_is_kept() {
    let scene = scene();
    let (_, new) = old_and_new();
    // Until the new file is in place.
    let stop = |_: u32| visible(&scene).get("a") != new.get("a");
    assert!(commit(&scene.open(), &Steps::watched(&stop)).is_err());
    std::fs::write(scene.lower("a"), "user's").unwrap();
    let Ok(Recovered::Undone { left, kept }) = scene.open().undo() else { panic!("not undone") };
    assert_eq!(scene.read("a"), "user's");
    assert_eq!(left, [std::path::PathBuf::from("a")]);
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), "old");
}
