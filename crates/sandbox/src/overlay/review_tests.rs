use std::fs;
use std::path::PathBuf;

use super::commit::{CommitOptions, CommitReport};
use super::error::OverlayError;
use super::scene_tests::{Scene, chmod};

fn review(scene: &Scene, options: &CommitOptions) -> String {
    let overlay = scene.open();
    overlay.review(&overlay.changes().unwrap(), options).unwrap()
}

fn only(path: &str) -> CommitOptions {
    CommitOptions { only: vec![PathBuf::from(path)], ..CommitOptions::default() }
}

fn commit(scene: &Scene, options: CommitOptions, reviewed: &str) -> Result<CommitReport, OverlayError> {
    scene.open().commit(&CommitOptions { reviewed: Some(reviewed.to_owned()), ..options })
}

/// Also what no diff shows: bytes of a binary or of a large file, permissions, where a link leads.
#[test]
fn nothing_but_what_was_looked_at_is_committed() {
    let scene = Scene::over(&[("a", "1"), ("gone", "1")]);
    scene.wrote("a", "2").wrote("binary", "\0one").linked("link", "a").removed("gone");
    scene.wrote("large", &"x".repeat(2 << 20));
    let swaps: [&dyn Fn(); 5] = [
        &|| {
            scene.wrote("binary", "\0two");
        },
        &|| {
            scene.wrote("large", &"y".repeat(2 << 20));
        },
        &|| chmod(&scene.upper("a"), 0o755),
        &|| {
            fs::remove_file(scene.upper("link")).unwrap();
            scene.linked("link", "b");
        },
        &|| {
            scene.wrote("new", "");
        },
    ];
    for (at, swap) in swaps.iter().enumerate() {
        let reviewed = review(&scene, &CommitOptions::default());
        assert_eq!(reviewed, review(&scene, &CommitOptions::default()), "{at}");
        swap();
        let refused = commit(&scene, CommitOptions::default(), &reviewed);
        assert!(matches!(refused, Err(OverlayError::Altered)), "{at}: {refused:?}");
        assert_eq!((scene.read("a"), scene.tree().len()), ("1".to_owned(), 2), "{at}: nothing was applied");
    }
    let reviewed = review(&scene, &CommitOptions::default());
    commit(&scene, CommitOptions::default(), &reviewed).unwrap();
    assert_eq!((scene.read("a"), scene.read("binary")), ("2".to_owned(), "\0two".to_owned()));
}

#[test]
fn what_is_not_chosen_may_change_meanwhile() {
    let scene = Scene::over(&[("a", "1")]);
    scene.wrote("a", "2").wrote("log", "one");
    let reviewed = review(&scene, &only("a"));
    scene.wrote("log", "two");
    // The same bytes, written anew, are the same.
    scene.wrote("a", "2");
    commit(&scene, only("a"), &reviewed).unwrap();
    assert_eq!(scene.read("a"), "2");
    let reviewed = review(&scene, &only("log"));
    scene.wrote("log", "three");
    assert!(matches!(commit(&scene, only("log"), &reviewed), Err(OverlayError::Altered)));
}
