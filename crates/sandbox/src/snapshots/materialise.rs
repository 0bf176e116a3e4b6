//! A snapshot as a directory of links to its objects: made as fast as links are, and sharing every byte.
//!
//! Invariant: the files of such a directory *are* the objects. Whoever uses it mounts it read-only, or as the lower
//! directory of an overlay; a write to it would be a write to the store.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, linkat};
use rustix::io::Errno;

use super::error::{During, Result, SnapshotError};
use super::hash::{ObjectHash, SnapshotId};
use super::local::LocalTree;
use super::manifest::{Entry, KEPT_MODE, Manifest, Node, RootEntries};
use super::objects::{Form, make_directory};
use super::store::SnapshotStore;
use super::tree::{Attributes, TreeWriter};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Materialised {
    pub linked: u64,
    /// Where a link could not be made: its content is a copy.
    pub copied: u64,
}

/// Which file of the store stands for which content and mode.
type Forms = HashMap<(ObjectHash, u32), Form>;

impl SnapshotStore {
    /// One directory for each root, in `into`, which must not be there yet and should be on the store's file system.
    pub fn materialise(&self, id: SnapshotId, into: &Path) -> Result<Materialised> {
        let _lock = self.shared()?;
        let manifest = self.load(id)?;
        let forms = self.forms(id, &manifest)?;
        if fs::symlink_metadata(into).is_ok() {
            return Err(SnapshotError::Occupied(into.display().to_string()));
        }
        make_directory(into)?;
        let made = self.make_roots(&manifest, &forms, into);
        if made.is_err() {
            let _ = fs::remove_dir_all(into);
        }
        made
    }

    /// Every form that is needed, made where it is not there.
    fn forms(&self, id: SnapshotId, manifest: &Manifest) -> Result<Forms> {
        let mut forms = Forms::new();
        let mut batch = self.objects.batch();
        for entry in manifest.roots.iter().flat_map(|root| &root.entries) {
            let Node::File { mode, modified, size, object } = entry.node else { continue };
            if forms.contains_key(&(object, mode)) {
                continue;
            }
            let first = Form::first(object);
            let facts = self.objects.facts(first).filter(|facts| facts.len() == size).ok_or_else(|| {
                let why = format!("the content of {} (object {object}) is missing or cut", entry.path);
                SnapshotError::Damaged { id: id.short(), why }
            })?;
            let form =
                if facts.mode() & KEPT_MODE == mode { first } else { Form { mode: Some(mode), ..first } };
            if self.objects.facts(form).is_none_or(|facts| facts.len() != size) {
                batch.add_form(form, size, Attributes { mode, modified })?;
            }
            forms.insert((object, mode), form);
        }
        batch.commit()?;
        Ok(forms)
    }

    fn make_roots(&self, manifest: &Manifest, forms: &Forms, into: &Path) -> Result<Materialised> {
        let objects = File::open(self.objects.directory()).at("open", self.objects.directory())?;
        let mut made = Materialised::default();
        for root in &manifest.roots {
            let path = into.join(&root.label);
            make_directory(&path)?;
            let tree = LocalTree::open(&path).at("open", &path)?;
            let mut maker = Maker { store: self, objects: &objects, forms, tree: &tree, made: &mut made };
            maker.make(root)?;
        }
        Ok(made)
    }
}

struct Maker<'a> {
    store: &'a SnapshotStore,
    objects: &'a File,
    forms: &'a Forms,
    tree: &'a LocalTree,
    made: &'a mut Materialised,
}

impl Maker<'_> {
    fn make(&mut self, root: &RootEntries) -> Result<()> {
        root.entries.iter().try_for_each(|entry| self.entry(entry))?;
        for entry in root.entries.iter().rev() {
            if let Node::Directory { mode, modified } = entry.node {
                let set = self.tree.set_attributes(&entry.path, Attributes { mode, modified });
                set.during("set the mode of", entry.path.to_string())?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        let path = &entry.path;
        match &entry.node {
            Node::Directory { .. } => self.tree.make_directory(path).during("create", path.to_string()),
            Node::Link { target, modified } => {
                self.tree.write_link(path, target.as_bytes(), *modified).during("link", path.to_string())
            }
            Node::File { mode, modified, size, object } => {
                let attributes = Attributes { mode: *mode, modified: *modified };
                self.file(entry, object, *size, attributes)
            }
            Node::Skipped { .. } => Ok(()),
        }
    }

    fn file(&mut self, entry: &Entry, object: &ObjectHash, size: u64, attributes: Attributes) -> Result<()> {
        let form = self.forms.get(&(*object, attributes.mode)).copied().unwrap_or(Form::first(*object));
        let (parent, name) = self.tree.parent(&entry.path).during("open", entry.path.to_string())?;
        match linkat(self.objects, OsStr::new(&form.name()), parent.as_fd(), name, AtFlags::empty()) {
            Ok(()) => {
                self.made.linked += 1;
                Ok(())
            }
            // Too many links to it, or another file system.
            Err(Errno::MLINK | Errno::XDEV) => {
                self.made.copied += 1;
                let mut content = self.store.objects.open(object, size)?;
                let written = self.tree.write_file(&entry.path, &mut content, attributes);
                written.during("write", entry.path.to_string())
            }
            Err(error) => Err(error).during("link", entry.path.to_string()),
        }
    }
}
