use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::thread::sleep;
use std::time::Duration;

use super::scene::{Hooked, Scene, at, options, set_mode};
use super::*;

/// Long enough for what was written to be older than a save.
fn settle() {
    sleep(Duration::from_millis(60));
}

#[test]
fn an_unchanged_file_is_not_read_again_and_a_changed_one_is() {
    let scene = Scene::new();
    scene.write("same", "same");
    scene.write("other", "1234");
    settle();
    let tree = Hooked::new(scene.tree());
    assert_eq!(scene.save_tree(&tree, "one").unwrap().files_read, 2);
    assert_eq!(scene.save_tree(&tree, "one").unwrap().files_read, 0);
    scene.write("other", "5678");
    let saved = scene.save_tree(&tree, "one").unwrap();
    assert_eq!((saved.files_read, saved.new_objects), (1, 1));
    assert!(
        matches!(scene.node(saved.id, "other"), Some(Node::File { object, .. }) if object == ObjectHash::of(b"5678"))
    );
    let all = SaveOptions { recognise: Recognise::ByContent, ..options("one") };
    let roots = [RootTree { label: "workspace", tree: &tree }];
    assert_eq!(scene.store.save(&roots, &all, &mut |_| ControlFlow::Continue(())).unwrap().files_read, 2);
}

#[test]
fn a_file_whose_object_is_gone_is_read_again() {
    let scene = Scene::new();
    scene.write("file", "text");
    settle();
    let tree = Hooked::new(scene.tree());
    scene.save_tree(&tree, "one").unwrap();
    fs::remove_file(&scene.object_files()[0]).unwrap();
    let saved = scene.save_tree(&tree, "one").unwrap();
    assert_eq!((saved.files_read, saved.new_objects), (1, 1));
    scene.assert_whole();
}

/// A tree inside a sandbox says that its file is the one that another session's snapshot has.
#[test]
fn a_tree_that_lies_about_its_files_gets_no_content_of_another_session() {
    let scene = Scene::new();
    scene.write("file", "secret");
    settle();
    let owner = Hooked::new(scene.tree());
    scene.save_tree(&owner, "owner").unwrap();
    let secret = owner.list(&TreePath::top(), 9).unwrap()[0].stat;
    fs::remove_file(scene.path("tree/file")).unwrap();
    scene.write("file", "public");
    let liar = Hooked::new(scene.tree()).on_list(|listed| listed[0].stat = secret);
    let saved = scene.save_tree(&liar, "liar").unwrap();
    assert!(
        matches!(scene.node(saved.id, "file"), Some(Node::File { object, .. }) if object == ObjectHash::of(b"public"))
    );
}

#[test]
fn what_is_no_file_is_recorded_by_name_and_never_waited_for() {
    let scene = Scene::new();
    let _socket = UnixListener::bind(scene.path("tree/socket")).unwrap();
    let pipe = scene.path("tree/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let saved = scene.save();
    let skipped = saved.skipped.iter().map(|(_, path, why)| (path.to_string(), *why)).collect::<Vec<_>>();
    assert_eq!(skipped, [("pipe".into(), Skipped::Special), ("socket".into(), Skipped::Special)]);
}

#[test]
fn a_file_that_becomes_a_pipe_after_it_was_listed_does_not_hang_the_save() {
    let scene = Scene::new();
    let path = scene.write("file", "text");
    let tree = Hooked::new(scene.tree()).on_open(|_| {
        let _ = fs::remove_file(&path);
        let _ = rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0);
        Ok(())
    });
    let error = scene.save_tree(&tree, "one").unwrap_err();
    assert_eq!(error.code(), "snapshot-changing");
    scene.assert_empty();
}

#[test]
fn no_link_is_followed_also_one_that_appears_after_the_listing() {
    let scene = Scene::new();
    fs::create_dir(scene.path("outside")).unwrap();
    fs::write(scene.path("outside/file"), "secret").unwrap();
    scene.write("directory/file", "text");
    let path = scene.write("file", "text");
    symlink(scene.path("outside"), scene.path("tree/link")).unwrap();
    let tree = Hooked::new(scene.tree()).on_open(|name| {
        if *name == at("file") {
            fs::remove_file(&path).unwrap();
            symlink(scene.path("outside/file"), &path).unwrap();
        } else {
            fs::remove_dir_all(scene.path("tree/directory")).unwrap();
            symlink(scene.path("outside"), scene.path("tree/directory")).unwrap();
        }
        Ok(())
    });
    let saved = scene.save_tree(&tree, "one").unwrap();
    assert!(matches!(scene.node(saved.id, "link"), Some(Node::Link { .. })));
    assert_eq!(scene.node(saved.id, "file"), None);
    assert!(!scene.object_files().contains(&scene.store.objects.path(&ObjectHash::of(b"secret"))));
    assert!(
        !scene.store.load(saved.id).unwrap().objects().any(|(hash, _)| hash == ObjectHash::of(b"secret"))
    );
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    let scene = Scene::new();
    scene.write("file", "text");
    let tree = Hooked::new(scene.tree()).on_open(|_| Err(io::ErrorKind::PermissionDenied.into()));
    let saved = scene.save_tree(&tree, "one").unwrap();
    assert_eq!(saved.skipped, [("workspace".into(), at("file"), Skipped::Unreadable)]);
}

#[test]
fn a_listing_with_impossible_names_is_refused() {
    for bad in ["..", "a/b", "", "a\0", "/etc"] {
        let scene = Scene::new();
        scene.write("file", "text");
        let tree = Hooked::new(scene.tree()).on_list(|listed| listed[0].name = bad.into());
        assert_eq!(scene.save_tree(&tree, "one").unwrap_err().code(), "snapshot-io", "{bad:?}");
        scene.assert_empty();
    }
    let scene = Scene::new();
    scene.write("file", "text");
    let tree = Hooked::new(scene.tree()).on_list(|listed| listed.push(listed[0].clone()));
    assert!(scene.save_tree(&tree, "one").unwrap_err().to_string().contains("twice"));
}

#[test]
fn names_of_any_bytes_are_kept() {
    let scene = Scene::new();
    let names: [&[u8]; 7] = [b"new\nline", b"\xff\xfe", b"100%", b"%25", b" ", b"quote\"\\", &[b'x'; 255]];
    for name in names {
        fs::write(scene.path("tree").join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let before = scene.picture();
    let id = scene.save().id;
    fs::remove_dir_all(scene.path("tree")).unwrap();
    fs::create_dir(scene.path("tree")).unwrap();
    scene.restore(id).unwrap();
    assert_eq!(scene.picture(), before);
}

/// Twice what a path of the kernel's may have in bytes.
const DEEP: u64 = 4_096;

#[test]
fn directories_beyond_the_longest_path_are_saved_brought_back_and_removed() {
    let scene = Scene::new();
    let tree = scene.tree();
    let mut path = TreePath::top();
    // Each step opens the way there anew: more would only take longer.
    for _ in 0..DEEP {
        path = path.join(b"d").unwrap();
        tree.make_directory(&path).unwrap();
    }
    let attributes = Attributes { mode: 0o644, modified: EntryTime::default() };
    let file = path.join(b"file").unwrap();
    tree.write_file(&file, &mut b"deep".as_slice(), attributes).unwrap();
    let saved = scene.save();
    assert_eq!((saved.facts.entries, saved.skipped.len()), (DEEP + 1, 0));
    tree.remove(&at("d")).unwrap();
    assert_eq!(scene.picture().len(), 0);
    scene.restore(saved.id).unwrap();
    assert_eq!(io::read_to_string(scene.tree().open(&file).unwrap()).unwrap(), "deep");
    scene.tree().remove(&at("d")).unwrap();
}

#[test]
fn a_path_that_is_too_long_is_skipped_and_named() {
    let scene = Scene::new();
    let tree = scene.tree();
    let mut path = TreePath::top();
    while let Some(longer) = path.join(&[b'n'; 250]) {
        tree.make_directory(&longer).unwrap();
        path = longer;
    }
    let last = tree.directory(&path).unwrap();
    rustix::fs::mkdirat(&*last, "n".repeat(250), 0o700.into()).unwrap();
    let saved = scene.save();
    assert_eq!(saved.skipped, [("workspace".into(), path, Skipped::TooDeep)]);
    scene.store.load(saved.id).unwrap();
    tree.remove(&at(&"n".repeat(250))).unwrap();
}

#[test]
fn a_tree_over_the_limits_is_refused_and_leaves_nothing() {
    let limits = SnapshotLimits { entries: 3, bytes: 1_000_000, path_bytes: 100 };
    let refused = |names: &[&str], size| {
        let scene = Scene::with_limits(limits);
        names.iter().for_each(|name| drop(scene.write(name, vec![b'x'; size])));
        let error = scene.save_tree(&scene.tree(), "one").unwrap_err();
        scene.assert_empty();
        error.to_string()
    };
    assert!(refused(&["a", "b", "c", "d"], 1).contains("number of files"));
    assert!(refused(&["a", "b"], 600_000).contains("size of all files"));
    assert!(refused(&[&"n".repeat(101)], 1).contains("length of all paths"));
}

#[test]
fn breaking_off_leaves_nothing() {
    let scene = Scene::new();
    scene.write("a", "text");
    scene.write("b", vec![b'x'; 1 << 20]);
    let tree = scene.tree();
    let roots = [RootTree { label: "workspace", tree: &tree }];
    let mut stop = |progress: &SaveProgress| {
        if progress.entries == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert_eq!(
        scene.store.save(&roots, &options("one"), &mut stop).unwrap_err().code(),
        "snapshot-cancelled"
    );
    scene.assert_empty();
}

#[test]
fn setuid_is_not_kept() {
    let scene = Scene::new();
    set_mode(&scene.write("file", "text"), 0o6755);
    assert!(matches!(scene.node(scene.save().id, "file"), Some(Node::File { mode: 0o755, .. })));
}

#[test]
fn names_that_become_files_are_checked() {
    let scene = Scene::new();
    let tree = scene.tree();
    for bad in ["", "..", "../x", "a/b", ".hidden", "a\0"] {
        assert_eq!(scene.save_tree(&tree, bad).unwrap_err().code(), "snapshot-bad-name", "{bad:?}");
        let roots = [RootTree { label: bad, tree: &tree }];
        let saved = scene.store.save(&roots, &options("one"), &mut |_| ControlFlow::Continue(()));
        assert_eq!(saved.unwrap_err().code(), "snapshot-bad-name", "{bad:?}");
    }
}

#[test]
fn several_roots_are_kept_apart_and_content_is_kept_once() {
    let scene = Scene::new();
    scene.write("file", "text");
    let tree = scene.tree();
    let roots = [RootTree { label: "workspace", tree: &tree }, RootTree { label: "home", tree: &tree }];
    let saved = scene.store.save(&roots, &options("one"), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((saved.facts.entries, saved.new_objects), (2, 1));
    let manifest = scene.store.load(saved.id).unwrap();
    assert_eq!(manifest.root("home").unwrap().entries, manifest.root("workspace").unwrap().entries);
    assert_eq!(manifest.root("other").unwrap_err().code(), "snapshot-no-root");
}
