//! Snapshots that are taken and brought back through a worker, under the sandbox's system call filter.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ringfence_sandbox::snapshots::{
    KeepAttributes, Recognise, RootTree, RootWriter, SaveOptions, Saved, SnapshotLimits, SnapshotStore,
};
use ringfence_sandbox::{Files, SessionTree};
use tempfile::TempDir;

use crate::worker::Scene;

struct Session {
    files: RefCell<Files>,
    directory: TempDir,
    store: SnapshotStore,
}

impl Session {
    fn new() -> Self {
        let (files, directory) = Scene::new().into_parts();
        fs::create_dir(directory.path().join("tree")).unwrap();
        let store = SnapshotStore::open(&directory.path().join("store"), SnapshotLimits::default()).unwrap();
        Self { files: RefCell::new(files), directory, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("tree").join(name)
    }

    fn tree(&self) -> SessionTree<'_> {
        SessionTree::new(&self.files, self.path(""), true)
    }

    fn save(&self) -> Saved {
        let options = SaveOptions {
            name: String::new(),
            session: "one".into(),
            parent: None,
            recognise: Recognise::ByTimes,
            attributes: KeepAttributes::AsTheyAre,
        };
        let roots = [RootTree { label: "workspace", tree: &self.tree() }];
        self.store.save(&roots, &options, &mut |_| ControlFlow::Continue(())).unwrap()
    }
}

/// Mode, time, and content or target of everything.
fn picture(top: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let mut picture = BTreeMap::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        let facts = fs::symlink_metadata(&path).unwrap();
        let content = if facts.is_dir() {
            picture.extend(self::picture(&path));
            Vec::new()
        } else if facts.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        picture.insert(path, (facts.mode(), facts.mtime(), facts.mtime_nsec(), content));
    }
    picture
}

#[test]
fn a_tree_inside_is_saved_and_comes_back_exactly() {
    let session = Session::new();
    fs::create_dir_all(session.path("a/b")).unwrap();
    fs::write(session.path("a/b/file"), vec![7; 300_000]).unwrap();
    fs::write(session.path("a/new\nline"), "text").unwrap();
    symlink("a/b", session.path("link")).unwrap();
    fs::set_permissions(session.path("a/b"), fs::Permissions::from_mode(0o555)).unwrap();
    let before = picture(&session.path(""));
    let id = session.save().id;
    fs::remove_dir_all(session.path("a")).unwrap();
    fs::write(session.path("a"), "a file").unwrap();
    fs::remove_file(session.path("link")).unwrap();
    fs::create_dir_all(session.path("link/was/here")).unwrap();
    let tree = session.tree();
    session.store.restore(id, &[RootWriter { label: "workspace", tree: &tree }], Some("one")).unwrap();
    assert_eq!(picture(&session.path("")), before);
    assert_eq!(session.store.verify_all().unwrap().damage, []);
}

#[test]
fn an_unchanged_file_inside_is_not_read_again() {
    let session = Session::new();
    fs::write(session.path("file"), "text").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(session.save().files_read, 1);
    assert_eq!(session.save().files_read, 0);
}
