//! A snapshot as one stream: a tar with the manifest first, then each object once, by hash. The same snapshot gives the
//! same bytes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::error::{During, Result};
use super::hash::{ObjectHash, SnapshotId};
use super::manifest::Manifest;
use super::manifest_file::encode;
use super::store::SnapshotStore;

pub(super) const MANIFEST_NAME: &str = "manifest.jsonl";
const ZSTD_LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Tar,
    TarZst,
}

impl ExportFormat {
    /// By its ending; `None` if that is neither `.tar` nor `.tar.zst`.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if name.ends_with(".tar") {
            Some(Self::Tar)
        } else {
            name.ends_with(".tar.zst").then_some(Self::TarZst)
        }
    }
}

impl SnapshotStore {
    /// An error leaves a stream that no import takes.
    pub fn export(&self, id: SnapshotId, format: ExportFormat, out: &mut dyn Write) -> Result<()> {
        let _lock = self.shared()?;
        let manifest = self.load(id)?;
        match format {
            ExportFormat::Tar => self.write_tar(&manifest, out),
            ExportFormat::TarZst => {
                let mut encoder = zstd::Encoder::new(out, ZSTD_LEVEL).during("compress", "the snapshot")?;
                self.write_tar(&manifest, &mut encoder)?;
                encoder.finish().map(drop).during("write", "the export")
            }
        }
    }

    fn write_tar(&self, manifest: &Manifest, out: &mut dyn Write) -> Result<()> {
        let mut builder = Builder::new(out);
        let bytes = encode(manifest);
        append(&mut builder, MANIFEST_NAME, bytes.len() as u64, &mut &*bytes)
            .during("write", "the export's manifest")?;
        for (hash, size) in objects(manifest) {
            let mut content = self.objects.open(&hash, size)?;
            append(&mut builder, &object_name(&hash), size, &mut content)
                .during("export", format!("object {hash}"))?;
        }
        builder.into_inner().and_then(|out| out.flush()).during("write", "the export")
    }
}

/// Each content once, in the order in which they are in the stream.
pub(super) fn objects(manifest: &Manifest) -> BTreeMap<ObjectHash, u64> {
    manifest.objects().collect()
}

pub(super) fn object_name(hash: &ObjectHash) -> String {
    format!("objects/{hash}")
}

fn append(
    builder: &mut Builder<&mut dyn Write>,
    name: &str,
    size: u64,
    content: &mut dyn Read,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(0o400);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    builder.append(&header, content)
}
