use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::scene::{self, Scene, at, set_mode};
use super::*;

fn furnished() -> Scene {
    let scene = Scene::new();
    scene.write("src/main", "main");
    scene.write("src/deep/er/file", vec![7; 300_000]);
    set_mode(&scene.write("run", "#!/bin/sh\n"), 0o755);
    fs::create_dir(scene.path("tree/empty")).unwrap();
    symlink("src/main", scene.path("tree/link")).unwrap();
    set_mode(&scene.path("tree/src/deep"), 0o555);
    scene
}

#[test]
fn a_tree_comes_back_exactly_whatever_happened_to_it() {
    let scene = furnished();
    let before = scene.picture();
    let id = scene.save().id;
    scene.write("src/main", "MAIN");
    scene.write("new/file", "new");
    fs::remove_dir(scene.path("tree/empty")).unwrap();
    scene.write("empty", "a file now");
    fs::remove_file(scene.path("tree/link")).unwrap();
    fs::create_dir_all(scene.path("tree/link/was")).unwrap();
    set_mode(&scene.path("tree/run"), 0o600);
    fs::remove_dir_all(scene.path("tree/src/deep")).unwrap();
    symlink("/etc", scene.path("tree/src/deep")).unwrap();
    scene.restore(id).unwrap();
    assert_eq!(scene.picture(), before);
    assert_eq!(scene.restore(id).unwrap(), Restored { unchanged: 4, ..Restored::default() });
}

#[test]
fn only_what_differs_is_written() {
    let scene = furnished();
    let before = scene.picture();
    let id = scene.save().id;
    scene.write("src/main", "MAIN");
    set_mode(&scene.path("tree/run"), 0o700);
    let restored = scene.restore(id).unwrap();
    assert_eq!((restored.written, restored.bytes_written, restored.attributes_set), (1, 4, 1));
    assert_eq!(scene.picture(), before);
}

/// A program inside puts a link where the snapshot has a directory.
#[test]
fn nothing_is_written_or_removed_through_a_link() {
    let scene = furnished();
    let before = scene.picture();
    let id = scene.save().id;
    fs::create_dir_all(scene.path("outside/deep/er")).unwrap();
    fs::write(scene.path("outside/main"), "theirs").unwrap();
    fs::write(scene.path("outside/deep/er/other"), "theirs").unwrap();
    fs::rename(scene.path("tree/src"), scene.path("moved")).unwrap();
    symlink(scene.path("outside"), scene.path("tree/src")).unwrap();
    scene.restore(id).unwrap();
    assert_eq!(scene.picture(), before);
    assert_eq!(fs::read_to_string(scene.path("outside/main")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(scene.path("outside/deep/er/other")).unwrap(), "theirs");
    assert!(!scene.path("outside/deep/er/file").exists());
}

#[test]
fn writing_goes_through_no_link_on_the_way() {
    let scene = Scene::new();
    fs::create_dir(scene.path("outside")).unwrap();
    fs::write(scene.path("outside/file"), "theirs").unwrap();
    symlink(scene.path("outside"), scene.path("tree/link")).unwrap();
    let tree = scene.tree();
    let attributes = Attributes { mode: 0o600, modified: EntryTime::default() };
    let before = scene::picture(&scene.path("outside"));
    assert!(tree.write_file(&at("link/file"), &mut b"mine".as_slice(), attributes).is_err());
    assert!(tree.write_link(&at("link/new"), b"x", EntryTime::default()).is_err());
    assert!(tree.make_directory(&at("link/new")).is_err());
    assert!(tree.remove(&at("link/file")).is_err());
    assert!(tree.set_attributes(&at("link/file"), attributes).is_err());
    assert!(tree.set_attributes(&at("link"), attributes).is_err());
    assert!(tree.open(&at("link/file")).is_err());
    assert_eq!(scene::picture(&scene.path("outside")), before);
    tree.remove(&at("link")).unwrap();
    assert_eq!(scene::picture(&scene.path("outside")), before);
}

#[test]
fn a_missing_object_is_noticed_before_anything_is_changed() {
    let scene = furnished();
    let id = scene.save().id;
    scene.write("src/main", "MAIN!");
    scene.write("new", "new");
    let before = scene.picture();
    fs::remove_file(scene.store.objects.path(&ObjectHash::of(b"main"))).unwrap();
    let error = scene.restore(id).unwrap_err();
    assert_eq!(error.code(), "snapshot-damaged");
    assert!(error.to_string().contains("src/main"), "{error}");
    assert_eq!(scene.picture(), before);
}

#[test]
fn an_object_with_a_flipped_byte_never_becomes_a_file() {
    let scene = furnished();
    let id = scene.save().id;
    scene.write("src/main", "MAIN!");
    let object = scene.store.objects.path(&ObjectHash::of(b"main"));
    fs::write(&object, "mein").unwrap();
    assert!(scene.restore(id).unwrap_err().to_string().contains("not what its name says"));
    assert_eq!(fs::read_to_string(scene.path("tree/src/main")).unwrap(), "MAIN!");
}

/// What could not be read when the snapshot was taken is not lost when it is brought back.
#[test]
fn what_the_snapshot_has_by_name_only_is_left_as_it_is() {
    let scene = Scene::new();
    scene.write("closed/file", "text");
    let manifest = scene.store.load(scene.save().id).unwrap();
    let mut skipped = manifest.clone();
    skipped.roots[0].entries =
        vec![Entry { path: at("closed"), node: Node::Skipped { why: Skipped::Unreadable } }];
    (skipped.facts.entries, skipped.facts.bytes) = (1, 0);
    let id = scene.store.commit(scene.store.objects.batch(), &skipped).unwrap();
    let restored = scene.restore(id).unwrap();
    assert_eq!(restored.left_alone, [("workspace".into(), at("closed"))]);
    assert_eq!(fs::read_to_string(scene.path("tree/closed/file")).unwrap(), "text");
}

#[test]
fn a_materialised_tree_has_the_modes_of_the_snapshot_and_shares_its_bytes() {
    use std::os::unix::fs::MetadataExt;
    let scene = furnished();
    set_mode(&scene.write("second", "#!/bin/sh\n"), 0o644);
    set_mode(&scene.write("third", "#!/bin/sh\n"), 0o400);
    let id = scene.save().id;
    let made = scene.store.materialise(id, &scene.path("fork")).unwrap();
    assert_eq!(made, Materialised { linked: 5, copied: 0 });
    let contents = |picture: scene::Picture| {
        picture.into_iter().map(|(path, (mode, _, content))| (path, mode, content)).collect::<Vec<_>>()
    };
    let expected = contents(scene.picture());
    assert_eq!(contents(scene::picture(&scene.path("fork/workspace"))), expected);
    let inode = |name: &str| fs::metadata(scene.path(name)).unwrap().ino();
    scene.store.materialise(id, &scene.path("fork2")).unwrap();
    for name in ["run", "second", "third", "src/main"] {
        assert_eq!(inode(&format!("fork/workspace/{name}")), inode(&format!("fork2/workspace/{name}")));
    }
    scene.assert_whole();
    assert_eq!(scene.store.materialise(id, &scene.path("fork")).unwrap_err().code(), "snapshot-occupied");
    assert_eq!(contents(scene::picture(&scene.path("fork/workspace"))), expected);
}

#[test]
fn what_cannot_be_materialised_leaves_nothing() {
    let scene = furnished();
    let id = scene.save().id;
    fs::remove_file(scene.store.objects.path(&ObjectHash::of(b"main"))).unwrap();
    assert_eq!(scene.store.materialise(id, &scene.path("fork")).unwrap_err().code(), "snapshot-damaged");
    assert!(!scene.path("fork").exists());
}

#[test]
fn the_modes_of_the_store_keep_others_out() {
    let scene = furnished();
    scene.save();
    for name in ["store", "store/objects", "store/manifests", "store/caches", "store/tmp"] {
        assert_eq!(fs::metadata(scene.path(name)).unwrap().permissions().mode() & 0o777, 0o700, "{name}");
    }
}
