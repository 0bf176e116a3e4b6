use std::fs;
use std::io::Read;
use std::path::Path;

use super::changes::ChangeKind::{Added, Mode, Modified, Removed, Replaced};
use super::changes::{ChangeKind, ConflictReason, EntryKind};
use super::contents::Content;
use super::error::OverlayError;
use super::scene_tests::{Scene, chmod, conflicts, write};

fn named(list: &[(ChangeKind, &str)]) -> Vec<(ChangeKind, String)> {
    list.iter().map(|(kind, path)| (*kind, (*path).to_string())).collect()
}

#[test]
fn every_kind_of_change_is_told() {
    let scene = Scene::over(&[
        ("same", "1"),
        ("content", "1"),
        ("mode", "1"),
        ("gone", "1"),
        ("old/a", "1"),
        ("old/b", "2"),
        ("was-file", "1"),
        ("was-dir/x", "1"),
        ("again/kept", "1"),
        ("again/dropped", "1"),
    ]);
    scene.wrote("same", "1").wrote("content", "2").wrote("mode", "1").removed("gone").removed("old");
    scene.wrote("was-file/y", "1").wrote("was-dir", "1").linked("link", "/etc/passwd").wrote("new/z", "1");
    scene.made_anew("again").wrote("again/kept", "1");
    chmod(&scene.upper("mode"), 0o755);
    let expected = [
        (Removed, "again/dropped"),
        (Modified, "content"),
        (Removed, "gone"),
        (Added, "link"),
        (Mode, "mode"),
        (Added, "new"),
        (Added, "new/z"),
        (Removed, "old"),
        (Removed, "old/a"),
        (Removed, "old/b"),
        (Replaced, "was-dir"),
        (Removed, "was-dir/x"),
        (Replaced, "was-file"),
        (Added, "was-file/y"),
    ];
    assert_eq!(scene.listed(), named(&expected));
    assert!(scene.changes().iter().all(|change| change.conflict.is_none()));
}

#[test]
fn an_empty_file_with_the_attribute_is_a_removal_too() {
    let scene = Scene::over(&[("gone", "1"), ("emptied", "1")]);
    scene.wrote("gone", "").wrote("emptied", "");
    rustix::fs::setxattr(scene.upper("gone"), "user.overlay.whiteout", b"", rustix::fs::XattrFlags::empty())
        .unwrap();
    assert_eq!(scene.listed(), named(&[(Modified, "emptied"), (Removed, "gone")]));
}

#[test]
fn what_the_user_touched_since_is_a_conflict_and_what_is_older_is_not() {
    let scene = Scene::over(&[("a", "1"), ("b", "1"), ("c", "1")]);
    scene.copied("a", "2").copied("b", "2").copied("c", "2");
    fs::write(scene.lower("b"), "3").unwrap();
    fs::remove_file(scene.lower("c")).unwrap();
    let reasons: Vec<_> = scene.changes().iter().map(|change| change.conflict).collect();
    assert_eq!(reasons, [None, Some(ConflictReason::Changed), Some(ConflictReason::Gone)]);
}

#[test]
fn a_directory_that_its_user_removed_is_not_made_again() {
    let scene = Scene::over(&[("dir/a", "1")]);
    scene.copied("dir/a", "2");
    let attribute = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(scene.upper("dir"), "user.overlay.origin", b"", attribute).unwrap();
    fs::remove_dir_all(scene.lower("dir")).unwrap();
    assert_eq!(conflicts(scene.commit()), ["dir/a"]);
    assert!(!scene.lower("dir").exists());
}

#[test]
fn a_file_that_the_session_renamed_is_no_conflict() {
    let scene = Scene::over(&[("dir/a", "1")]);
    scene.removed("dir/a").copied("dir/b", "1");
    assert!(scene.changes().iter().all(|change| change.conflict.is_none()), "{:?}", scene.changes());
}

#[test]
fn an_older_directory_in_the_place_of_another_is_a_conflict() {
    let scene = Scene::over(&[("src/x", "1"), ("other/x", "not what the session saw")]);
    scene.copied("src/x", "2");
    fs::rename(scene.lower("src"), scene.lower("aside")).unwrap();
    fs::rename(scene.lower("other"), scene.lower("src")).unwrap();
    let change = &scene.changes()[0];
    assert_eq!(change.conflict, Some(ConflictReason::Moved));
}

#[test]
fn a_pipe_is_special_and_is_not_waited_for() {
    let scene = Scene::over(&[("pipe", "1")]);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, scene.upper("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let changes = scene.changes();
    assert_eq!(changes[0].new.as_ref().unwrap().kind, EntryKind::Special);
    assert!(matches!(scene.open().new_content(Path::new("pipe")).unwrap(), Content::Special));
}

#[test]
fn a_tree_that_is_too_deep_is_refused_on_either_side() {
    for in_upper in [true, false] {
        let scene = Scene::over(&[("top/x", "1")]);
        let top = if in_upper { scene.upper("top") } else { scene.lower("top") };
        fs::create_dir_all(&top).unwrap();
        make_deep(&top, 10_000);
        if !in_upper {
            scene.removed("top");
        }
        let result = scene.commit();
        assert!(matches!(result, Err(OverlayError::TooDeep(_))), "{result:?}");
        assert!(scene.lower("top/x").exists());
        remove_deep(&top);
    }
}

/// Beyond what one path can name.
fn make_deep(top: &Path, depth: usize) {
    let open = |at: &std::os::fd::OwnedFd, name: &str| {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        rustix::fs::openat(at, name, flags, rustix::fs::Mode::empty()).unwrap()
    };
    let mut at = super::beneath::open_top(top).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        at = open(&at, "d");
    }
}

/// A temporary directory can't remove it by path.
fn remove_deep(top: &Path) {
    assert!(std::process::Command::new("rm").arg("-rf").arg(top).status().unwrap().success());
}

#[test]
fn both_sides_can_be_read_and_no_link_is_followed() {
    let scene = Scene::over(&[("a", "old"), ("dir/b", "old")]);
    write(&scene.path("secret"), "secret");
    scene.wrote("a", "new").linked("dir", "..");
    let overlay = scene.open();
    let text = |content: Content| match content {
        Content::File(mut file) => {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        }
        other => format!("{other:?}"),
    };
    assert_eq!(text(overlay.old_content(Path::new("a")).unwrap()), "old");
    assert_eq!(text(overlay.new_content(Path::new("a")).unwrap()), "new");
    assert_eq!(text(overlay.old_content(Path::new("none")).unwrap()), "Nothing");
    assert!(overlay.new_content(Path::new("dir/secret")).is_err());
    assert!(overlay.new_content(Path::new("../../secret")).is_err());
}
