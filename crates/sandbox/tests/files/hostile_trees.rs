//! Trees that are too deep, or that change while they are worked on.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_sandbox::{CopyLimits, FileProblem, Reach};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, mkdirat, open, openat, renameat_with};
use tempfile::TempDir;

use crate::worker::Scene;

const DEPTH: usize = 10_000;
const ROUNDS: usize = 200;
/// Only a failure waits so long.
const PATIENCE: Duration = Duration::from_secs(120);

fn make_deep(top: &Path) {
    fs::create_dir(top).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here: OwnedFd = open(top, flags, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        mkdirat(&here, "deeper", Mode::from_raw_mode(0o700)).unwrap();
        here = openat(&here, "deeper", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_tree_beyond_every_path_is_refused_by_copies_and_removed() {
    let mut scene = Scene::new();
    let deep = scene.path("deep");
    make_deep(&deep);
    let to = TempDir::new().unwrap();
    let limits = CopyLimits::default();
    let out = scene.files.copy_out(&deep, &to.path().join("copy"), &limits, &mut |_| {}).unwrap_err();
    assert!(matches!(out.problem, FileProblem::TooMuch { limit: 256, .. }), "{out}");
    let inside = scene.path("copy");
    let into = scene.files.copy_in(&deep, &inside, &limits, &mut |_| {}).unwrap_err();
    assert!(matches!(into.problem, FileProblem::TooMuch { limit: 256, .. }), "{into}");
    scene.files.remove(&deep, Reach::Tree).unwrap();
    assert!(!deep.exists());
}

/// Ends the attack also where the work panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `attack` again and again beside `work`.
fn beside(attack: impl Fn() + Send + Sync, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                attack();
            }
        });
        let _over = Over(&done);
        work();
    });
}

/// At least `count` rounds, and more until one has come to its end: on a busy machine the attack may stand still for long
/// with the link in place, and a round that fails at once shows nothing.
fn rounds(count: usize, mut round: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    let (mut done, mut whole) = (0, false);
    while done < count || !whole {
        whole |= round();
        done += 1;
        assert!(whole || Instant::now() < end, "no round came so far that it could have been led astray");
    }
}

/// Exchanges a directory and a link in one step; nothing, where one of them is gone.
fn swap(directory: &Path, link: &Path) {
    let _ = renameat_with(CWD, directory, CWD, link, RenameFlags::EXCHANGE);
}

#[test]
fn a_removal_never_leaves_its_tree_by_a_link() {
    let mut scene = Scene::new();
    let outside = TempDir::new().unwrap();
    fs::create_dir(outside.path().join("directory")).unwrap();
    let kept = outside.path().join("directory/kept");
    let (tree, link) = (scene.path("tree"), scene.path("link"));
    let sub = tree.join("sub");
    let (attacked, with) = (sub.clone(), link.clone());
    beside(
        move || swap(&attacked, &with),
        || {
            rounds(10 * ROUNDS, || {
                fs::write(&kept, "x").unwrap();
                let _ = fs::remove_dir_all(&link);
                let _ = fs::create_dir_all(sub.join("a"));
                let _ = symlink(outside.path(), &link);
                let removed = scene.files.remove(&tree, Reach::Tree).is_ok();
                assert!(kept.exists());
                removed
            });
        },
    );
}

#[test]
fn a_directory_moved_away_during_a_removal_does_not_take_it_elsewhere() {
    let mut scene = Scene::new();
    let (tree, elsewhere) = (scene.path("tree"), scene.path("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("kept"), "x").unwrap();
    let (from, to) = (tree.join("a"), elsewhere.join("a"));
    let (attacked, away) = (from.clone(), to.clone());
    beside(
        move || {
            let _ = fs::rename(&attacked, &away);
        },
        || {
            for _ in 0..ROUNDS {
                let _ = fs::create_dir_all(from.join("b/c"));
                (0..20).for_each(|number| drop(fs::write(from.join(format!("b/c/{number}")), "x")));
                let _ = scene.files.remove(&tree, Reach::Tree);
                let _ = fs::remove_dir_all(&to);
            }
        },
    );
    assert!(elsewhere.join("kept").exists());
}

#[test]
fn a_copy_in_never_reads_through_a_link_that_appears() {
    let mut scene = Scene::new();
    let (source, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("file"), "secret").unwrap();
    let (tree, link) = (source.path().join("tree"), source.path().join("link"));
    symlink(outside.path(), &link).unwrap();
    let sub = tree.join("sub");
    fs::create_dir_all(&sub).unwrap();
    fs::write(sub.join("file"), "public").unwrap();
    let to = scene.path("copy");
    beside(
        move || swap(&sub, &link),
        || {
            rounds(ROUNDS, || {
                let mut copied = false;
                let _ = scene.files.copy_in(&tree, &to, &CopyLimits::default(), &mut |_| {});
                let copy = to.join("sub");
                if !copy.is_symlink()
                    && let Ok(content) = fs::read_to_string(copy.join("file"))
                {
                    assert_eq!(content, "public");
                    copied = true;
                }
                let _ = fs::remove_dir_all(&to);
                copied
            });
        },
    );
}

#[test]
fn a_copy_out_never_writes_through_a_link_that_appears() {
    let mut scene = Scene::new();
    fs::create_dir_all(scene.path("tree/sub")).unwrap();
    scene.write("tree/sub/file", "x");
    let (local, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (to, link) = (local.path().join("copy"), local.path().join("link"));
    symlink(outside.path(), &link).unwrap();
    let sub = to.join("sub");
    fs::create_dir_all(&sub).unwrap();
    let tree = scene.path("tree");
    beside(
        move || swap(&sub, &link),
        || {
            rounds(ROUNDS, || scene.files.copy_out(&tree, &to, &CopyLimits::default(), &mut |_| {}).is_ok());
        },
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}
