//! What a watch tells.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_sandbox::{FileChange, FileEvent, Reach, Watch};

use crate::worker::Scene;

/// Long enough for a busy machine; only a failure waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn wait_for(watch: &mut Watch, change: FileChange, path: &Path) -> FileEvent {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(event) = watch.next_within(Duration::from_secs(1)).unwrap()
            && event.change == change
            && event.path == path
        {
            return event;
        }
    }
    panic!("{change:?} of {} was not told", path.display());
}

fn watched(scene: Scene, reach: Reach) -> (Watch, tempfile::TempDir, PathBuf) {
    let root = scene.path("");
    let root = root.components().collect::<PathBuf>();
    let (files, directory) = scene.into_parts();
    (files.watch(&root, reach).unwrap(), directory, root)
}

#[test]
fn every_change_of_a_file_is_told() {
    let (mut watch, _directory, root) = watched(Scene::new(), Reach::One);
    let file = root.join("file");
    fs::write(&file, "x").unwrap();
    wait_for(&mut watch, FileChange::Created, &file);
    wait_for(&mut watch, FileChange::Changed, &file);
    wait_for(&mut watch, FileChange::Written, &file);
    let renamed = root.join("renamed");
    fs::rename(&file, &renamed).unwrap();
    let from = wait_for(&mut watch, FileChange::MovedFrom, &file);
    let to = wait_for(&mut watch, FileChange::MovedTo, &renamed);
    assert_eq!(from.cookie, to.cookie);
    fs::remove_file(&renamed).unwrap();
    wait_for(&mut watch, FileChange::Removed, &renamed);
}

#[test]
fn a_tree_is_watched_where_it_grows_and_where_it_is_moved() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path("old/deep")).unwrap();
    let (mut watch, _directory, root) = watched(scene, Reach::Tree);
    fs::write(root.join("old/deep/file"), "x").unwrap();
    wait_for(&mut watch, FileChange::Written, &root.join("old/deep/file"));
    fs::create_dir_all(root.join("new/a/b")).unwrap();
    fs::write(root.join("new/a/b/at-once"), "x").unwrap();
    wait_for(&mut watch, FileChange::Created, &root.join("new/a/b/at-once"));
    fs::rename(root.join("old"), root.join("moved")).unwrap();
    wait_for(&mut watch, FileChange::MovedTo, &root.join("moved"));
    fs::write(root.join("moved/deep/later"), "x").unwrap();
    wait_for(&mut watch, FileChange::Created, &root.join("moved/deep/later"));
}

#[test]
fn a_root_that_goes_is_told() {
    let scene = Scene::new();
    let root = scene.path("root");
    fs::create_dir(&root).unwrap();
    let (files, _directory) = scene.into_parts();
    let mut watch = files.watch(&root, Reach::Tree).unwrap();
    fs::remove_dir(&root).unwrap();
    wait_for(&mut watch, FileChange::Removed, &root);
    assert!(watch.next_within(Duration::from_millis(50)).unwrap().is_none());
}

#[test]
fn lost_events_are_told_as_lost() {
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    let scene = Scene::new();
    let files = [scene.write("a", ""), scene.write("b", "")];
    let (mut watch, _directory, _root) = watched(scene, Reach::One);
    // Nobody reads: first the channel fills, then the kernel's queue. Two files, since the kernel tells the same thing once.
    for number in 0..queue * 2 {
        fs::set_permissions(&files[number % 2], fs::Permissions::from_mode(0o600)).unwrap();
    }
    wait_for(&mut watch, FileChange::Overflow, Path::new(""));
}
