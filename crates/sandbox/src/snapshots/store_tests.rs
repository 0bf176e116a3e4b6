use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use super::scene::{self, Scene};
use super::*;

#[test]
fn every_kind_of_damage_is_found_and_named() {
    let scene = Scene::new();
    scene.write("file", "text");
    let id = scene.save().id;
    assert_eq!(scene.assert_whole().objects, 1);
    let object = scene.store.objects.path(&ObjectHash::of(b"text"));
    let manifest = scene.store.manifest_path(&id);
    let damage = |path: &std::path::Path, content: Option<&[u8]>| {
        let whole = fs::read(path).unwrap();
        match content {
            Some(content) => fs::write(path, content).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let all = scene.store.verify_all().unwrap().damage;
        assert_eq!(scene.store.verify(id).unwrap().damage, all);
        fs::write(path, whole).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].to_string()
    };
    assert!(damage(&object, Some(b"tezt")).contains(&format!("used by {}", id.short())));
    assert!(damage(&object, Some(b"tex")).contains("not what its name says"));
    assert!(damage(&object, None).contains("the content of file"));
    let mut bytes = fs::read(&manifest).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    assert!(damage(&manifest, Some(&bytes)).contains(&id.to_string()));
    assert!(damage(&manifest, Some(&bytes[..last])).contains("not what its id says"));
    fs::write(object.with_file_name("notes.txt"), "").unwrap();
    assert!(scene.store.verify_all().unwrap().damage[0].to_string().contains("notes.txt"));
}

#[test]
fn a_snapshot_is_found_by_id_name_and_beginning() {
    let scene = Scene::new();
    let first = scene.save().id;
    scene.write("file", "text");
    let second = scene.save().id;
    assert_eq!(scene.store.find(&first.to_string()).unwrap(), first);
    assert_eq!(scene.store.find("before").unwrap(), second);
    assert_eq!(scene.store.find(&first.short()).unwrap(), first);
    assert_eq!(scene.store.find("zzzz").unwrap_err().code(), "snapshot-unknown");
    assert_eq!(scene.store.find("").unwrap_err().code(), "snapshot-unknown");
    let listed = scene.store.list().unwrap().snapshots;
    assert_eq!(listed.iter().map(|summary| summary.id).collect::<Vec<_>>(), [second, first]);
    fs::write(scene.store.manifest_path(&first), "{}").unwrap();
    assert_eq!(scene.store.list().unwrap().damaged[0].0, first);
    scene.store.remove(first).unwrap();
    assert_eq!(scene.store.remove(first).unwrap_err().code(), "snapshot-unknown");
}

#[test]
fn what_no_snapshot_needs_is_collected_and_the_rest_stays() {
    let scene = Scene::new();
    scene.write("kept", "kept");
    let kept = scene.save().id;
    scene.write("gone", "gone");
    let gone = scene.save().id;
    fs::write(scene.store.temporary_directory().join("left"), "12345").unwrap();
    scene.store.remove(gone).unwrap();
    assert_eq!(scene.store.collect().unwrap(), Collected { objects: 1, bytes: 9, temporary: 1 });
    assert_eq!(scene.store.collect().unwrap(), Collected::default());
    scene.assert_whole();
    scene.restore(kept).unwrap();
    assert_eq!(scene.picture().len(), 1);
}

#[test]
fn nothing_is_collected_while_others_work_or_a_manifest_is_damaged() {
    let scene = Scene::new();
    scene.write("file", "text");
    let id = scene.save().id;
    let lock = scene.store.shared().unwrap();
    assert_eq!(scene.store.collect().unwrap_err().code(), "snapshot-busy");
    drop(lock);
    fs::write(scene.store.manifest_path(&id), "{}").unwrap();
    assert_eq!(scene.store.collect().unwrap_err().code(), "snapshot-damaged");
    assert_eq!(scene.object_files().len(), 1);
}

#[test]
fn saves_side_by_side_and_a_collector_leave_every_snapshot_whole() {
    let scene = Scene::new();
    for number in 0..40 {
        scene.write(&format!("file{number}"), format!("content {}", number % 7));
    }
    let done = AtomicBool::new(false);
    let (store, tree) = (&scene.path("store"), &scene.path("tree"));
    let save = |worker: u32| {
        let store = SnapshotStore::open(store, SnapshotLimits::default()).unwrap();
        let tree = LocalTree::open(tree).unwrap();
        let roots = [RootTree { label: "workspace", tree: &tree }];
        for _ in 0..10 {
            let options = scene::options(&format!("session{worker}"));
            let saved = store.save(&roots, &options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
            if worker == 0 {
                store.remove(saved.id).unwrap();
            } else {
                assert_eq!(store.verify(saved.id).unwrap().damage, []);
            }
        }
    };
    let collect = || {
        let store = SnapshotStore::open(store, SnapshotLimits::default()).unwrap();
        while !done.load(Ordering::Relaxed) {
            match store.collect() {
                Ok(_) | Err(SnapshotError::Busy(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(collect);
        let workers = [0, 1, 2].map(|worker| scope.spawn(move || save(worker)));
        let ended = workers.map(|worker| worker.join());
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|end| end.unwrap());
    });
    assert_eq!(scene.assert_whole().manifests, 20);
}

#[test]
fn a_session_that_is_gone_leaves_no_cache() {
    let scene = Scene::new();
    scene.save();
    assert!(scene.path("store/caches/one").exists());
    scene.store.forget_session("one").unwrap();
    scene.store.forget_session("one").unwrap();
    assert!(!scene.path("store/caches/one").exists());
    assert!(scene.store.forget_session("../manifests").is_err());
}
