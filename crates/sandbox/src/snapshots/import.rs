//! Taking in an exported snapshot. The stream is hostile: its manifest is judged first, then exactly the objects that
//! it names must come, in order, each with its size and hash. Nothing is kept before the last of them is there.
//!
//! Every object must come, also one that the store has: else whoever knows a hash could have the content.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};

use tar::{Archive, Entries, Entry, EntryType};

use super::error::{Result, SnapshotError};
use super::export::{MANIFEST_NAME, object_name, objects};
use super::hash::{ObjectHash, SnapshotId};
use super::manifest::{Manifest, Node, SnapshotFacts};
use super::manifest_file::{MOST_MANIFEST, decode, id_of};
use super::objects::Source;
use super::reading::Checked;
use super::store::SnapshotStore;
use super::tree::Attributes;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A frame may ask for a window of terabytes. This is what the reference decoder grants unasked: 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;

#[derive(Clone, Debug)]
pub struct Imported {
    pub id: SnapshotId,
    pub facts: SnapshotFacts,
    /// Contents that were not in the store before.
    pub new_objects: u64,
}

/// The tar, whether it is compressed or not.
fn unpacked<T>(input: &mut dyn Read, work: &mut dyn FnMut(&mut dyn Read) -> Result<T>) -> Result<T> {
    let mut input = BufReader::with_capacity(128 * 1024, input);
    let is_zstd = input.fill_buf().map_err(bad)?.starts_with(&ZSTD_MAGIC);
    if is_zstd {
        let mut decoder = zstd::Decoder::with_buffer(input).map_err(bad)?.single_frame();
        decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(bad)?;
        work(&mut decoder)
    } else {
        work(&mut input)
    }
}

impl SnapshotStore {
    /// A tar, or one that zstd compressed; the content tells. The id is that of the snapshot that was exported.
    pub fn import(&self, input: &mut dyn Read) -> Result<Imported> {
        unpacked(input, &mut |tar| self.read_tar(tar))
    }

    /// The content of each file of such a stream, of which nothing is taken in: its manifest and sizes are judged as there.
    pub fn look_into(
        &self,
        input: &mut dyn Read,
        look: &mut dyn FnMut(&mut dyn Read) -> io::Result<()>,
    ) -> Result<()> {
        unpacked(input, &mut |tar| {
            let mut archive = Archive::new(tar);
            let mut entries = archive.entries().map_err(bad)?.raw(true);
            let (_, manifest) = self.read_manifest(&mut entries)?;
            for (hash, size) in objects(&manifest) {
                look(&mut next(&mut entries, &object_name(&hash), Some(size))?).map_err(bad)?;
            }
            Ok(())
        })
    }

    fn read_tar(&self, input: &mut dyn Read) -> Result<Imported> {
        let _lock = self.shared()?;
        let mut archive = Archive::new(input);
        // Raw: extensions of tar, which may be of any size, are entries like others, and refused.
        let mut entries = archive.entries().map_err(bad)?.raw(true);
        let (id, manifest) = self.read_manifest(&mut entries)?;
        let attributes = first_attributes(&manifest);
        let mut batch = self.objects.batch();
        let mut new_objects = 0;
        for (hash, size) in objects(&manifest) {
            let entry = next(&mut entries, &object_name(&hash), Some(size))?;
            let source = Source { name: &hash, size, attributes: attributes[&hash] };
            let staged = batch.stage(&mut Checked::new(entry, hash, size), &source).map_err(as_bad)?;
            if staged.hash != hash {
                return Err(bad(format!("object {hash} has other content")));
            }
            new_objects += u64::from(batch.keep(staged));
        }
        if entries.next().is_some() {
            return Err(bad("it goes on after its last object"));
        }
        let stored = self.commit(batch, &manifest)?;
        debug_assert_eq!(stored, id, "a manifest has one spelling");
        Ok(Imported { id, facts: manifest.facts, new_objects })
    }

    fn read_manifest<R: Read>(&self, entries: &mut Entries<'_, R>) -> Result<(SnapshotId, Manifest)> {
        let entry = next(entries, MANIFEST_NAME, None)?;
        let mut bytes = Vec::new();
        entry.take(MOST_MANIFEST + 1).read_to_end(&mut bytes).map_err(bad)?;
        let id = id_of(&bytes);
        match decode(id, &bytes, &self.limits) {
            Ok(manifest) => Ok((id, manifest)),
            Err(SnapshotError::Damaged { why, .. }) => Err(bad(format!("its manifest is wrong: {why}"))),
            Err(error) => Err(error),
        }
    }
}

/// The next entry, which must be a file with this name and size.
fn next<'a, R: Read>(entries: &mut Entries<'a, R>, name: &str, size: Option<u64>) -> Result<Entry<'a, R>> {
    let entry = entries.next().ok_or_else(|| bad(format!("it ends before {name}")))?.map_err(bad)?;
    let header = entry.header();
    if header.entry_type() != EntryType::Regular || *header.path_bytes() != *name.as_bytes() {
        let found = super::path::shown(&header.path_bytes());
        return Err(bad(format!("{found} is where {name} must be")));
    }
    let found = header.entry_size().map_err(bad)?;
    if size.is_some_and(|size| size != found) || found > MOST_MANIFEST && size.is_none() {
        return Err(bad(format!("{name} has {found} bytes")));
    }
    Ok(entry)
}

/// Of the first file with each content.
fn first_attributes(manifest: &Manifest) -> HashMap<ObjectHash, Attributes> {
    let mut first = HashMap::new();
    for entry in manifest.roots.iter().flat_map(|root| &root.entries) {
        if let Node::File { mode, modified, object, .. } = entry.node {
            first.entry(object).or_insert(Attributes { mode, modified });
        }
    }
    first
}

/// What the kernel did not refuse is the stream's fault.
fn as_bad(error: SnapshotError) -> SnapshotError {
    match error {
        SnapshotError::Io { source, .. } if source.raw_os_error().is_none() => bad(source),
        other => other,
    }
}

fn bad(why: impl ToString) -> SnapshotError {
    SnapshotError::BadImport(why.to_string())
}
