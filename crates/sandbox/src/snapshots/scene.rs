//! What the tests of this module share: a store and a directory, and trees that misbehave.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::*;

pub(super) struct Scene {
    /// Held: the directory goes with it.
    directory: tempfile::TempDir,
    pub(super) store: SnapshotStore,
}

/// All that a snapshot keeps of an entry: mode, time, and content or target.
pub(super) type Picture = BTreeMap<Vec<u8>, (u32, (i64, i64), Vec<u8>)>;

impl Scene {
    pub(super) fn new() -> Self {
        Self::with_limits(SnapshotLimits::default())
    }

    pub(super) fn with_limits(limits: SnapshotLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tree")).unwrap();
        let store = SnapshotStore::open(&directory.path().join("store"), limits).unwrap();
        Self { directory, store }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A file of the tree, with the directories that it is in.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(super) fn tree(&self) -> LocalTree {
        LocalTree::open(&self.path("tree")).unwrap()
    }

    pub(super) fn save(&self) -> Saved {
        self.save_tree(&self.tree(), "one").unwrap()
    }

    pub(super) fn save_tree(&self, tree: &dyn Tree, session: &str) -> Result<Saved, SnapshotError> {
        let roots = [RootTree { label: "workspace", tree }];
        self.store.save(&roots, &options(session), &mut |_| ControlFlow::Continue(()))
    }

    pub(super) fn restore(&self, id: SnapshotId) -> Result<Restored, SnapshotError> {
        let tree = self.tree();
        self.store.restore(id, &[RootWriter { label: "workspace", tree: &tree }], Some("one"))
    }

    pub(super) fn picture(&self) -> Picture {
        picture(&self.path("tree"))
    }

    pub(super) fn node(&self, id: SnapshotId, path: &str) -> Option<Node> {
        let manifest = self.store.load(id).unwrap();
        let entries = &manifest.root("workspace").unwrap().entries;
        entries.iter().find(|entry| entry.path.as_bytes() == path.as_bytes()).map(|entry| entry.node.clone())
    }

    pub(super) fn object_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        self.store
            .each_object(|path| {
                files.push(path.to_owned());
                Ok(())
            })
            .unwrap();
        files.sort();
        files
    }

    /// No snapshot, no object, no temporary file.
    pub(super) fn assert_empty(&self) {
        assert_eq!(self.store.ids().unwrap(), []);
        assert_eq!(self.object_files(), [] as [PathBuf; 0]);
        assert_eq!(self.temporary_files(), 0);
    }

    pub(super) fn temporary_files(&self) -> usize {
        fs::read_dir(self.store.temporary_directory()).unwrap().count()
    }

    pub(super) fn assert_whole(&self) -> Verified {
        let verified = self.store.verify_all().unwrap();
        assert_eq!(verified.damage, []);
        verified
    }
}

pub(super) fn options(session: &str) -> SaveOptions {
    SaveOptions {
        name: "before".into(),
        session: session.into(),
        parent: None,
        recognise: Recognise::ByTimes,
        attributes: KeepAttributes::AsTheyAre,
    }
}

pub(super) fn at(text: &str) -> TreePath {
    TreePath::new(text.as_bytes()).unwrap()
}

pub(super) fn picture(top: &Path) -> Picture {
    let mut picture = Picture::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let facts = fs::symlink_metadata(&path).unwrap();
            let content = if facts.is_dir() {
                waiting.push(path.clone());
                b"a directory".to_vec()
            } else if facts.is_symlink() {
                fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if facts.is_file() {
                fs::read(&path).unwrap()
            } else {
                b"special".to_vec()
            };
            let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
            picture.insert(name, (facts.mode(), (facts.mtime(), facts.mtime_nsec()), content));
        }
    }
    picture
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

type OnOpen<'a> = Box<dyn FnMut(&TreePath) -> io::Result<()> + 'a>;
type OnList<'a> = Box<dyn FnMut(&mut Vec<Listed>) + 'a>;

/// A local tree in which something happens, and whose times tell wherever the tests' directories are.
pub(super) struct Hooked<'a> {
    tree: LocalTree,
    on_open: RefCell<OnOpen<'a>>,
    on_list: RefCell<OnList<'a>>,
}

impl<'a> Hooked<'a> {
    pub(super) fn new(tree: LocalTree) -> Self {
        Self { tree, on_open: RefCell::new(Box::new(|_| Ok(()))), on_list: RefCell::new(Box::new(|_| ())) }
    }

    /// Before each file is opened.
    pub(super) fn on_open(self, action: impl FnMut(&TreePath) -> io::Result<()> + 'a) -> Self {
        Self { on_open: RefCell::new(Box::new(action)), ..self }
    }

    /// With what is listed.
    pub(super) fn on_list(self, action: impl FnMut(&mut Vec<Listed>) + 'a) -> Self {
        Self { on_list: RefCell::new(Box::new(action)), ..self }
    }
}

impl Tree for Hooked<'_> {
    fn list(&self, directory: &TreePath, most: usize) -> io::Result<Vec<Listed>> {
        let mut listed = self.tree.list(directory, most)?;
        (self.on_list.borrow_mut())(&mut listed);
        Ok(listed)
    }

    fn open(&self, file: &TreePath) -> io::Result<File> {
        (self.on_open.borrow_mut())(file)?;
        self.tree.open(file)
    }

    fn times_tell(&self) -> bool {
        true
    }
}
