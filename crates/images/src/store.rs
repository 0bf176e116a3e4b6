//! Where images are kept, in the state directory: contents and manifests in a store like that of snapshots, for each digest a tree
//! of links to its contents that a sandbox can bind, and names.
//!
//! Invariant: a name is there only when its tree is whole. A tree goes only when no name and no sandbox has it: whoever uses one
//! holds its lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_sandbox::snapshots::{
    Changed, DiffSide, KeepAttributes, LocalTree, Recognise, RootTree, SaveOptions, SnapshotId,
    SnapshotLimits, SnapshotStore,
};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::build::Built;
use crate::draft::Draft;
use crate::error::{During, ImageError, Result};
use crate::pack::PackedSkill;
use crate::spool::Spool;

/// The label of an image's one root, and so the name of its directory in a tree.
pub(crate) const ROOT: &str = "root";
const MOST_RECORD: u64 = 1 << 20;

/// What is known of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    pub name: String,
    /// Of its manifest: names, kinds, modes, link targets and contents.
    pub digest: String,
    /// What it was made from.
    pub from: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// PATH inside, where the image says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Seconds since 1970.
    pub created: u64,
    pub entries: u64,
    pub bytes: u64,
    /// What was left out of it, or not found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The skill that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<PackedSkill>,
}

/// An image to run in, and the lock that keeps it there.
#[derive(Debug)]
pub struct FoundImage {
    pub record: ImageRecord,
    pub root: PathBuf,
    pub held: OwnedFd,
}

pub(crate) struct NewImage<'a> {
    pub(crate) name: &'a str,
    pub(crate) from: String,
    pub(crate) with: Vec<String>,
    pub(crate) path: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) packed: Option<PackedSkill>,
}

#[derive(Debug)]
pub struct ImageStore {
    directory: PathBuf,
    pub(crate) store: SnapshotStore,
}

/// The image of this name, held. Nothing is made, so that a run pays for nothing else.
pub fn find_image(state: &Path, name: &str) -> Result<FoundImage> {
    check_name(name)?;
    let directory = state.join("images");
    let record = read_record(&directory, name)?;
    let lock = directory.join("locks").join(&record.digest);
    let held = OpenOptions::new().read(true).open(&lock);
    let held = held.and_then(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared)?;
        Ok(file)
    });
    let root = directory.join("trees").join(&record.digest).join(ROOT);
    match held {
        Ok(held) if root.is_dir() => Ok(FoundImage { record, root, held: held.into() }),
        _ => Err(ImageError::new(
            "image-damaged",
            format!("image `{name}` is not whole, or is being removed"),
            format!("build it again: ringfence image build {name} --from …"),
        )),
    }
}

impl ImageStore {
    pub fn open(state: &Path) -> Result<Self> {
        let directory = state.join("images");
        for path in [
            &directory,
            &directory.join("names"),
            &directory.join("trees"),
            &directory.join("locks"),
            &directory.join("building"),
        ] {
            match DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(ImageError::io("make", path, &error));
                }
                _ => {}
            }
        }
        let store = SnapshotStore::open(&directory.join("store"), SnapshotLimits::default())?;
        Ok(Self { directory, store })
    }

    pub(crate) fn spool(&self) -> Result<Spool> {
        Spool::new(&self.directory.join("building"))
    }

    /// By name. One that can't be read is an error of its own.
    pub fn list(&self) -> Result<Vec<ImageRecord>> {
        let path = self.directory.join("names");
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).at("list", &path)? {
            let name = entry.at("list", &path)?.file_name();
            names.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
        }
        names.retain(|name| check_name(name).is_ok());
        names.sort();
        names.iter().map(|name| read_record(&self.directory, name)).collect()
    }

    pub fn show(&self, name: &str) -> Result<ImageRecord> {
        check_name(name)?;
        read_record(&self.directory, name)
    }

    /// Everything of it on disk, then its name.
    pub(crate) fn keep(
        &self,
        draft: &Draft,
        new: NewImage<'_>,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Built> {
        check_name(new.name)?;
        let options = SaveOptions {
            name: "image".to_owned(),
            session: "image".to_owned(),
            parent: None,
            recognise: Recognise::ByContent,
            attributes: KeepAttributes::Executable,
        };
        let _lock = self.lock()?;
        let saved = self.store.save(&[RootTree { label: ROOT, tree: draft }], &options, &mut |state| {
            progress(state.entries, state.all_entries)
        })?;
        if let Some((_, path, _)) = saved.skipped.first() {
            return Err(ImageError::refused("image-unreadable", format!("{path} can't be read")));
        }
        let digest = saved.id.to_string();
        let lock = self.directory.join("locks").join(&digest);
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock)
            .at("make", &lock)?;
        self.materialise(saved.id)?;
        let before = self.show(new.name).ok();
        let record = ImageRecord {
            name: new.name.to_owned(),
            digest,
            from: new.from,
            with: new.with,
            path: new.path,
            created: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            entries: saved.facts.entries,
            bytes: saved.facts.bytes,
            notes: new.notes,
            skill: new.packed,
        };
        self.write_record(&record)?;
        if let Some(before) = before.filter(|before| before.digest != record.digest) {
            // One that a sandbox still has stays until something is removed when it is free.
            let _ = self.clear(&before.digest);
        }
        Ok(Built { record, new_objects: saved.new_objects })
    }

    fn materialise(&self, id: SnapshotId) -> Result<()> {
        let tree = self.tree(&id.to_string());
        if tree.is_dir() && self.differences(id)?.is_empty() {
            return Ok(());
        }
        let beside = self.directory.join("trees").join(format!("{id}.new"));
        remove_tree(&beside)?;
        self.store.materialise(id, &beside)?;
        if tree.exists() {
            self.alone(&id.to_string())?;
            remove_tree(&tree)?;
        }
        fs::rename(&beside, &tree).at("rename", &beside)
    }

    /// A name, and what no other name needs. Refused while a sandbox has the image.
    pub fn remove(&self, name: &str) -> Result<ImageRecord> {
        let _lock = self.lock()?;
        let record = self.show(name)?;
        let shared = self.list()?.iter().any(|other| other.name != name && other.digest == record.digest);
        let alone = if shared { None } else { Some(self.alone(&record.digest)?) };
        let path = self.record_path(name);
        fs::remove_file(&path).at("remove", &path)?;
        drop(alone);
        if !shared {
            self.clear(&record.digest)?;
        }
        self.sweep();
        Ok(record)
    }

    /// What is wrong with an image: nothing, if it is what was built.
    pub fn verify(&self, name: &str) -> Result<Vec<String>> {
        let record = self.show(name)?;
        let id = SnapshotId::parse(&record.digest).ok_or_else(|| damaged(name))?;
        let verified = self.store.verify(id)?;
        let mut found: Vec<String> = verified.damage.iter().map(ToString::to_string).collect();
        if found.is_empty() {
            found.extend(self.differences(id)?);
        }
        Ok(found)
    }

    fn differences(&self, id: SnapshotId) -> Result<Vec<String>> {
        let manifest = self.store.load(id)?;
        let path = self.tree(&id.to_string()).join(ROOT);
        let tree = match LocalTree::open(&path) {
            Ok(tree) => tree,
            Err(error) => return Ok(vec![format!("the tree can't be opened: {error}")]),
        };
        let roots = [RootTree { label: ROOT, tree: &tree }];
        let diff = self
            .store
            .diff(DiffSide::Snapshot(&manifest), DiffSide::Live { roots: &roots, session: None })?;
        let line = |change: &ringfence_sandbox::snapshots::Change| {
            let what = match change.what {
                Changed::Added => "is not a part of the image",
                Changed::Removed => "is missing",
                Changed::Content => "has other content",
                Changed::Mode => "has another mode",
                Changed::Kind => "is of another kind",
            };
            format!("/{} {what}", change.path)
        };
        Ok(diff.changes.iter().map(line).collect())
    }

    /// The tree, the manifest and the contents of an image that no name has.
    fn clear(&self, digest: &str) -> Result<()> {
        if self.list()?.iter().any(|record| record.digest == digest) {
            return Ok(());
        }
        let _alone = self.alone(digest)?;
        remove_tree(&self.tree(digest))?;
        if let Some(id) = SnapshotId::parse(digest) {
            match self.store.remove(id) {
                Ok(()) | Err(ringfence_sandbox::snapshots::SnapshotError::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let lock = self.directory.join("locks").join(digest);
        let _ = fs::remove_file(lock);
        // Another one may be working with the store; what is left is collected next time.
        let _ = self.store.collect();
        Ok(())
    }

    /// Trees that lost their name while a sandbox had them.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(self.directory.join("locks")) else { return };
        for digest in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let _ = self.clear(&digest);
        }
    }

    /// No sandbox has it, and none gets it until this is dropped.
    fn alone(&self, digest: &str) -> Result<File> {
        let path = self.directory.join("locks").join(digest);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .at("open", &path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(_) => Err(ImageError::new(
                "image-in-use",
                "the image is in use: a sandbox that is running shows it",
                "wait for the run, or end the session (`ringfence session ls`), then try again",
            )),
        }
    }

    /// Against other builds and removals.
    fn lock(&self) -> Result<File> {
        let path = self.directory.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .at("open", &path)?;
        flock(&file, FlockOperation::LockExclusive).at("lock", &path)?;
        Ok(file)
    }

    pub(crate) fn tree(&self, digest: &str) -> PathBuf {
        self.directory.join("trees").join(digest)
    }

    fn record_path(&self, name: &str) -> PathBuf {
        self.directory.join("names").join(format!("{name}.json"))
    }

    fn write_record(&self, record: &ImageRecord) -> Result<()> {
        let path = self.record_path(&record.name);
        let beside = self.directory.join("names").join(format!(".{}.new", record.name));
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::from).at("write", &path)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)
            .at("make", &beside)?;
        file.write_all(&text).and_then(|()| file.sync_all()).at("write", &beside)?;
        fs::rename(&beside, &path).at("rename", &beside)
    }
}

fn read_record(directory: &Path, name: &str) -> Result<ImageRecord> {
    let path = directory.join("names").join(format!("{name}.json"));
    let mut text = Vec::new();
    match File::open(&path).and_then(|file| file.take(MOST_RECORD).read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ImageError::new(
                "image-unknown",
                format!("there is no image `{name}`"),
                format!(
                    "build it: `ringfence image build {name} --from host --with python3,git`; `ringfence image ls` lists those that are there"
                ),
            ));
        }
        Err(error) => return Err(ImageError::io("read", &path, &error)),
    }
    let record: ImageRecord = serde_json::from_slice(&text).map_err(|_| damaged(name))?;
    let is_digest = SnapshotId::parse(&record.digest).is_some();
    if record.name == name && is_digest { Ok(record) } else { Err(damaged(name)) }
}

fn damaged(name: &str) -> ImageError {
    ImageError::new(
        "image-damaged",
        format!("what is known of image `{name}` can't be read"),
        format!("build it again: ringfence image build {name} --from …"),
    )
}

/// The same rule as a policy's.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 64 || name.starts_with(['.', '-']) || !name.bytes().all(fine) {
        return Err(ImageError::new(
            "image-bad-name",
            format!("`{}` is not the name of an image", name.escape_debug()),
            "use 1 to 64 of a-z, 0-9, `.`, `_` and `-`, the first a letter or digit",
        ));
    }
    Ok(())
}

fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ImageError::io("remove", path, &error)),
        _ => Ok(()),
    }
}
