use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::changes::ChangeKind;
use super::commit::LeftOutReason;
use super::error::OverlayError;
use super::scene_tests::{Scene, chmod, conflicts, write};
use super::start::prepare_layers;
use crate::layers::WorkspaceLayers;

#[test]
fn everything_is_applied_and_nothing_is_left_behind() {
    let scene =
        Scene::over(&[("a", "1"), ("gone", "1"), ("old/x", "1"), ("was-dir/x", "1"), ("again/x", "1")]);
    scene.wrote("a", "2").removed("gone").removed("old").wrote("was-dir", "file").linked("link", "a");
    scene.wrote("new/deep/y", "1").made_anew("again").wrote("again/z", "1");
    chmod(&scene.upper("new/deep/y"), 0o6755);
    chmod(&scene.upper("new/deep"), 0o2750);
    let report = scene.commit().unwrap();
    assert_eq!(report.left_out, []);
    let tree = scene.tree();
    let expected = [
        ("a", "644 2"),
        ("again", "directory 755"),
        ("again/z", "644 1"),
        ("link", "-> a"),
        ("new", "directory 755"),
        ("new/deep", "directory 750"),
        ("new/deep/y", "755 1"),
        ("was-dir", "644 file"),
    ];
    let found: Vec<_> = tree.iter().map(|(path, what)| (path.as_str(), what.as_str())).collect();
    assert_eq!(found, expected);
    assert!(scene.changes().is_empty(), "{:?}", scene.changes());
    assert!(scene.open().unfinished().unwrap().is_none());
}

#[test]
fn permissions_alone_leave_the_file_in_place() {
    let scene = Scene::over(&[("script", "1"), ("dir/x", "1")]);
    let inode = fs::metadata(scene.lower("script")).unwrap().ino();
    scene.copied("script", "1").wrote("dir/y", "1");
    chmod(&scene.upper("script"), 0o700);
    chmod(&scene.upper("dir"), 0o555);
    scene.commit().unwrap();
    let facts = fs::metadata(scene.lower("script")).unwrap();
    assert_eq!((facts.ino(), facts.permissions().mode() & 0o777), (inode, 0o700));
    assert_eq!(fs::metadata(scene.lower("dir")).unwrap().permissions().mode() & 0o777, 0o555);
    assert_eq!(scene.read("dir/y"), "1");
    chmod(&scene.lower("dir"), 0o755);
    chmod(&scene.upper("dir"), 0o755);
}

#[test]
fn the_time_of_a_file_comes_with_it() {
    let scene = Scene::over(&[("a", "1")]);
    scene.wrote("a", "2");
    let modified = fs::metadata(scene.upper("a")).unwrap().modified().unwrap();
    scene.commit().unwrap();
    assert_eq!(fs::metadata(scene.lower("a")).unwrap().modified().unwrap(), modified);
}

#[test]
fn one_conflict_refuses_everything_until_the_others_are_named() {
    let scene = Scene::over(&[("mine", "1"), ("ours", "1")]);
    scene.copied("mine", "2").copied("ours", "2").wrote("new/x", "1");
    fs::write(scene.lower("ours"), "user's").unwrap();
    let before = scene.tree();
    assert_eq!(conflicts(scene.commit()), ["ours"]);
    assert_eq!(scene.tree(), before);
    scene.commit_only(&["mine", "new/x"]).unwrap();
    assert_eq!(
        (scene.read("mine"), scene.read("ours"), scene.read("new/x")),
        ("2".into(), "user's".into(), "1".into())
    );
    assert_eq!(scene.listed(), [(ChangeKind::Modified, "ours".to_string())]);
    assert!(matches!(scene.commit_only(&["nothing"]), Err(OverlayError::NotAChange(_))));
}

#[test]
fn a_file_that_its_user_made_meanwhile_is_not_overwritten() {
    let scene = Scene::over(&[]);
    scene.wrote("new", "session's").wrote("dir/x", "session's");
    write(&scene.lower("new"), "user's");
    write(&scene.lower("dir"), "user's");
    assert_eq!(conflicts(scene.commit()), ["dir", "dir/x", "new"]);
}

#[test]
fn a_directory_that_its_user_added_to_is_not_removed() {
    let scene = Scene::over(&[("dir/x", "1")]);
    scene.removed("dir");
    write(&scene.lower("dir/y"), "user's");
    assert!(conflicts(scene.commit()).contains(&"dir/y".to_string()));
    assert_eq!(scene.read("dir/x"), "1");
}

#[test]
fn a_session_does_not_conflict_with_its_own_commits() {
    let scene = Scene::over(&[("a", "1"), ("dir/x", "1")]);
    scene.copied("a", "2").wrote("made/y", "1").wrote("dir/z", "1").removed("dir/x");
    scene.commit().unwrap();
    scene.copied("a", "3").wrote("made/y", "2").wrote("dir/w", "1");
    scene.commit().unwrap();
    assert_eq!(
        (scene.read("a"), scene.read("made/y"), scene.read("dir/w")),
        ("3".into(), "2".into(), "1".into())
    );
    assert!(scene.changes().is_empty());
}

#[test]
fn after_a_commit_its_users_changes_are_nobodys_conflict_until_the_session_writes_again() {
    let scene = Scene::over(&[("a", "1"), ("gone", "1")]);
    scene.copied("a", "2").removed("gone").wrote("new/b", "1");
    scene.commit().unwrap();
    fs::write(scene.lower("a"), "user's").unwrap();
    fs::write(scene.lower("gone"), "user's").unwrap();
    fs::remove_dir_all(scene.lower("new")).unwrap();
    assert!(scene.changes().is_empty(), "{:?}", scene.changes());
    scene.wrote("a", "4");
    assert_eq!(conflicts(scene.commit()), ["a"]);
    assert_eq!(scene.read("a"), "user's");
}

#[test]
fn what_the_session_removed_after_it_was_committed_goes_too() {
    let scene = Scene::over(&[]);
    scene.wrote("new/x", "1").wrote("new/y", "1");
    scene.commit().unwrap();
    // The directory was the session's alone, so that the kernel keeps no note.
    fs::remove_file(scene.upper("new/x")).unwrap();
    scene.commit().unwrap();
    assert!(!scene.lower("new/x").exists());
    assert_eq!(scene.read("new/y"), "1");
}

#[test]
fn special_files_and_names_of_our_own_are_left_out() {
    let scene = Scene::over(&[]);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, scene.upper("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    scene.wrote(".ringfence-commit-00/x", "1").wrote("plain", "1");
    let report = scene.commit().unwrap();
    let reasons: Vec<_> =
        report.left_out.iter().map(|left| (left.path.to_str().unwrap(), &left.reason)).collect();
    assert_eq!(
        reasons,
        [
            (".ringfence-commit-00", &LeftOutReason::Reserved),
            (".ringfence-commit-00/x", &LeftOutReason::Reserved),
            ("pipe", &LeftOutReason::Special),
        ]
    );
    assert_eq!(scene.tree().keys().collect::<Vec<_>>(), ["plain"]);
}

#[test]
fn a_fork_of_a_snapshot_has_nothing_to_be_committed_to() {
    let scene = Scene::over(&[("a", "1")]);
    fs::create_dir(scene.path("fork")).unwrap();
    let layers = WorkspaceLayers { directory: scene.path("fork"), lower: Some(scene.lower("")) };
    prepare_layers(&layers, Path::new("/")).unwrap();
    let overlay = super::Overlay::open(&layers.directory).unwrap();
    assert!(matches!(overlay.commit(&Default::default()), Err(OverlayError::NoTarget)));
}

#[test]
fn an_exchanged_workspace_is_refused() {
    let scene = Scene::over(&[("a", "1")]);
    scene.wrote("a", "2");
    fs::rename(scene.lower(""), scene.path("aside")).unwrap();
    std::os::unix::fs::symlink(scene.path("aside"), scene.path("project")).unwrap();
    assert!(matches!(super::Overlay::open(&scene.path("layers")), Err(OverlayError::Replaced(_))));
}

#[test]
fn one_commit_at_a_time() {
    let scene = Scene::over(&[]);
    scene.wrote("a", "1");
    let overlay = scene.open();
    let _held = overlay.lock().unwrap();
    assert!(matches!(scene.commit(), Err(OverlayError::Busy)));
}
