//! The content of files, each kept once under its hash. An object is complete and on disk before it has its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{futimens, syncfs};

use super::error::{During, Result};
use super::faults;
use super::hash::ObjectHash;
use super::reading::Checked;
use super::sparse::write_sparse;
use super::temporary::{Temporary, random_name};
use super::tree::Attributes;

/// Up to here content is held in memory, and not written if it is there already.
const SMALL: u64 = 256 * 1024;
/// From here on it is faster to write out the whole file system than file after file.
const MANY: usize = 32;

#[derive(Debug)]
pub(super) struct Objects {
    directory: PathBuf,
    temporary: PathBuf,
}

impl Objects {
    pub(super) fn new(store: &Path) -> Self {
        Self { directory: store.join("objects"), temporary: store.join("tmp") }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self, hash: &ObjectHash) -> PathBuf {
        self.directory.join(Form::first(*hash).name())
    }

    /// Whether it is there with this size. Its content is not read.
    pub(super) fn has(&self, hash: &ObjectHash, size: u64) -> bool {
        self.facts(Form::first(*hash)).is_some_and(|facts| facts.len() == size)
    }

    pub(super) fn facts(&self, form: Form) -> Option<Metadata> {
        fs::symlink_metadata(self.directory.join(form.name())).ok().filter(Metadata::is_file)
    }

    /// Its content, which is checked as it is read.
    pub(super) fn open(&self, hash: &ObjectHash, size: u64) -> Result<Checked<File>> {
        let path = self.path(hash);
        Ok(Checked::new(File::open(&path).at("open", &path)?, *hash, size))
    }

    /// A name in the store that nothing else uses.
    pub(super) fn temporary(&self) -> Result<Temporary> {
        let name = random_name().during("make", "a random name")?;
        Ok(Temporary::new(self.temporary.join(name)))
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        Batch { objects: self, new: BTreeMap::new(), shards: BTreeSet::new() }
    }
}

/// Content, and the mode of its file where that is not the mode of the first one with this content: the mode belongs
/// to the inode, and trees are made of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Form {
    pub(super) hash: ObjectHash,
    pub(super) mode: Option<u32>,
}

impl Form {
    pub(super) fn first(hash: ObjectHash) -> Self {
        Self { hash, mode: None }
    }

    /// `ab/abcd…`, or `ab/abcd….755`
    pub(super) fn name(&self) -> String {
        let Self { hash, mode } = self;
        let shard = hash.as_bytes()[0];
        mode.map_or_else(|| format!("{shard:02x}/{hash}"), |mode| format!("{shard:02x}/{hash}.{mode:o}"))
    }
}

/// Whose content is read.
pub(super) struct Source<'a> {
    pub(super) name: &'a dyn Display,
    pub(super) size: u64,
    pub(super) attributes: Attributes,
}

/// Content that was read; new content is in a temporary file.
pub(super) struct Staged {
    pub(super) hash: ObjectHash,
    new: Option<Temporary>,
}

/// The objects of one snapshot, given their names together when all are on disk.
pub(super) struct Batch<'a> {
    objects: &'a Objects,
    new: BTreeMap<Form, Temporary>,
    /// The directories of all objects that the snapshot counts on.
    shards: BTreeSet<u8>,
}

impl Batch<'_> {
    /// Read content without keeping it yet: it may turn out to have changed meanwhile.
    pub(super) fn stage(&self, content: &mut dyn Read, source: &Source<'_>) -> Result<Staged> {
        if source.size <= SMALL {
            self.stage_small(content, source)
        } else {
            self.stage_large(content, source)
        }
    }

    fn stage_small(&self, content: &mut dyn Read, source: &Source<'_>) -> Result<Staged> {
        let mut bytes = Vec::new();
        content.take(SMALL + 1).read_to_end(&mut bytes).during("read", source.name.to_string())?;
        let hash = ObjectHash::of(&bytes);
        if self.is_known(&hash, bytes.len() as u64) {
            return Ok(Staged { hash, new: None });
        }
        let temporary = self.objects.temporary()?;
        let mut file = temporary.create()?;
        let written = file.write_all(&bytes).and_then(|()| dress(&file, readable(source.attributes)));
        written.during("store", source.name.to_string())?;
        Ok(Staged { hash, new: Some(temporary) })
    }

    fn stage_large(&self, content: &mut dyn Read, source: &Source<'_>) -> Result<Staged> {
        let temporary = self.objects.temporary()?;
        let file = temporary.create()?;
        let mut hashed = Hashed { content, hasher: blake3::Hasher::new() };
        let size = write_sparse(&mut hashed, &file).during("store", source.name.to_string())?;
        let hash = ObjectHash::finish(&hashed.hasher);
        if self.is_known(&hash, size) {
            return Ok(Staged { hash, new: None });
        }
        dress(&file, readable(source.attributes)).during("store", source.name.to_string())?;
        Ok(Staged { hash, new: Some(temporary) })
    }

    fn is_known(&self, hash: &ObjectHash, size: u64) -> bool {
        self.new.contains_key(&Form::first(*hash)) || self.objects.has(hash, size)
    }

    /// Whether it was not there before.
    pub(super) fn keep(&mut self, staged: Staged) -> bool {
        self.count_on(&staged.hash);
        match staged.new {
            Some(temporary) => self.new.insert(Form::first(staged.hash), temporary).is_none(),
            None => false,
        }
    }

    /// The content of an object once more, for another mode.
    pub(super) fn add_form(&mut self, form: Form, size: u64, attributes: Attributes) -> Result<()> {
        let temporary = self.objects.temporary()?;
        let file = temporary.create()?;
        write_sparse(&mut self.objects.open(&form.hash, size)?, &file).at("write", temporary.path())?;
        dress(&file, attributes).at("write", temporary.path())?;
        self.count_on(&form.hash);
        self.new.insert(form, temporary);
        Ok(())
    }

    /// An object that is there already.
    pub(super) fn count_on(&mut self, hash: &ObjectHash) {
        self.shards.insert(hash.as_bytes()[0]);
    }

    pub(super) fn commit(mut self) -> Result<()> {
        if self.shards.is_empty() {
            return Ok(());
        }
        self.sync_content()?;
        for (form, temporary) in std::mem::take(&mut self.new) {
            let path = self.objects.directory.join(form.name());
            make_directory(path.parent().unwrap_or(&self.objects.directory))?;
            temporary.rename(&path)?;
        }
        for shard in &self.shards {
            sync(&self.objects.directory.join(format!("{shard:02x}")))?;
        }
        sync(&self.objects.directory)
    }

    fn sync_content(&self) -> Result<()> {
        let directory = &self.objects.temporary;
        if self.new.len() > MANY {
            faults::step().at("sync", directory)?;
            return syncfs(File::open(directory).at("open", directory)?).at("sync", directory);
        }
        self.new.values().try_for_each(|temporary| sync(temporary.path()))
    }
}

struct Hashed<'a> {
    content: &'a mut dyn Read,
    hasher: blake3::Hasher,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// The mode and time of the file that it is the content of, for trees of links to it.
fn dress(file: &File, attributes: Attributes) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(attributes.mode))?;
    Ok(futimens(file, &attributes.modified.alone())?)
}

/// The store's owner can read the first form of every object.
fn readable(attributes: Attributes) -> Attributes {
    Attributes { mode: attributes.mode | 0o400, ..attributes }
}

pub(super) fn make_directory(path: &Path) -> Result<()> {
    faults::step().at("create", path)?;
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.at("create", path),
    }
}

pub(super) fn sync(path: &Path) -> Result<()> {
    faults::step().at("sync", path)?;
    File::open(path).and_then(|file| file.sync_all()).at("sync", path)
}
