//! A tar, compressed or not, as one layer. Read by the same strict reader as the archives of skills; contents go to the spool
//! under numbers, names to a map.

use std::fs::File;

use ringfence_sandbox::snapshots::{TreePath, shown};
use ringfence_skills::{TarEntry, TarReader, UnpackLimits};

use crate::draft::Part;
use crate::error::{ImageError, Result};
use crate::layer::Layer;
use crate::spool::Spool;

/// How much an image may be, over all of its layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) entries: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: 16 << 30, entries: 500_000 }
    }
}

impl Room {
    fn limits(&self) -> UnpackLimits {
        UnpackLimits {
            archive_bytes: self.bytes,
            bytes: self.bytes,
            file_bytes: self.bytes,
            entries: self.entries,
            ratio: 500,
            ratio_free_bytes: 256 << 20,
            ..UnpackLimits::default()
        }
    }
}

/// What was left out, for whoever builds the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) devices: u64,
    pub(crate) setuid: u64,
}

impl LeftOut {
    pub(crate) fn notes(&self) -> Vec<String> {
        let count = |number: u64, what: &str| (number > 0).then(|| format!("{number} {what}"));
        [
            count(self.devices, "devices, pipes or sockets were left out"),
            count(self.setuid, "files lost their setuid or setgid bit"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(crate) fn read_layer(
    file: &File,
    spool: &Spool,
    room: &mut Room,
    left_out: &mut LeftOut,
) -> Result<Layer> {
    let limits = room.limits();
    let mut reader = TarReader::open(file, &limits)?;
    let mut layer = Layer::default();
    let mut bytes = 0;
    while let Some(entry) = reader.next()? {
        bytes += entry.size;
        add(&mut reader, &mut layer, entry, spool, left_out)?;
    }
    reader.end()?;
    room.bytes = room.bytes.saturating_sub(bytes);
    room.entries = room.entries.saturating_sub(layer.entries());
    Ok(layer)
}

fn add(
    reader: &mut TarReader<'_>,
    layer: &mut Layer,
    entry: TarEntry,
    spool: &Spool,
    left_out: &mut LeftOut,
) -> Result<()> {
    let Some(path) = tree_path(&entry.name)? else {
        // The top itself, as a directory.
        return if entry.kind == b'5' { Ok(()) } else { Err(bad_name(&entry.name)) };
    };
    if entry.size > 0 && !matches!(entry.kind, b'0' | 0 | b'7') {
        return Err(ImageError::refused(
            "image-entry-with-data",
            format!("{path} has content and is no file"),
        ));
    }
    let is_named_directory = entry.name.ends_with(b"/");
    match entry.kind {
        0 if is_named_directory && entry.size == 0 => layer.add(path, Part::Directory),
        b'0' | 0 | b'7' if is_named_directory => Err(bad_name(&entry.name)),
        b'0' | 0 | b'7' => {
            left_out.setuid += u64::from(entry.mode & 0o6000 != 0);
            let (at, mut out) = spool.create(entry.mode & 0o111 != 0)?;
            reader.copy(&path.to_string(), &mut out)?;
            layer.add(path, Part::File(at))
        }
        b'5' => layer.add(path, Part::Directory),
        b'2' => {
            let target = entry.link;
            if target.is_empty() || target.len() > 4095 || target.contains(&0) {
                return Err(ImageError::refused(
                    "image-bad-link",
                    format!("{path} is a link that leads nowhere"),
                ));
            }
            layer.add(path, Part::Link(target))
        }
        b'1' => match tree_path(&entry.link)? {
            Some(to) => layer.add_hard_link(path, to),
            None => Err(bad_name(&entry.link)),
        },
        b'3' | b'4' | b'6' => {
            left_out.devices += 1;
            Ok(())
        }
        _ => Err(ImageError::refused("image-bad-entry", format!("{path} is of a kind that is not known"))),
    }
}

/// `None` for the top. A name that leads out of the image, or that two programs could read in two ways, is refused.
fn tree_path(name: &[u8]) -> Result<Option<TreePath>> {
    let name = name.strip_prefix(b"./").unwrap_or(name);
    let name = name.strip_suffix(b"/").unwrap_or(name);
    if matches!(name, b"" | b".") {
        return Ok(None);
    }
    TreePath::new(name).map(Some).ok_or_else(|| bad_name(name))
}

fn bad_name(name: &[u8]) -> ImageError {
    ImageError::refused("image-bad-name", format!("{} is not a path in an image", shown(name)))
}
