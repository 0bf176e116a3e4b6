//! A skill and an image in one archive: a tar of the image's root filesystem with the skill in it, and first a file that says what
//! it is. Another machine takes it with `image build --from`, by the same reader as any archive.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_sandbox::snapshots::{Node, SnapshotId, TreePath};
use ringfence_skills::{TarReader, UnpackLimits};
use serde::{Deserialize, Serialize};
use tar::{Builder, EntryType, Header};

use crate::draft::{Draft, Part, open_file};
use crate::error::{During, ImageError, Result};
use crate::store::{ImageStore, ROOT};

/// The first entry of such an archive.
const DESCRIPTION: &str = "ringfence-image.json";
const FORMAT: u32 = 1;
/// Where skills are in such an image.
const SKILLS: &str = "opt/skills";
const ZSTD_LEVEL: i32 = 3;
const MOST_DESCRIPTION: u64 = 64 << 10;

/// The skill in an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedSkill {
    pub name: String,
    /// Of the canonical tree, as everywhere.
    pub version: String,
    /// Its directory in the image.
    pub path: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: u32,
    /// Of the image that the skill was packed with.
    image: String,
    skill: PackedSkill,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackedImage {
    pub image: String,
    pub digest: String,
    pub skill: PackedSkill,
    pub entries: u64,
    pub bytes: u64,
}

/// Write the archive: zstd over tar. `skill` is the skill's own archive, as a plain tar.
pub fn pack_image(
    store: &ImageStore,
    image: &str,
    skill: &File,
    name: &str,
    version: &str,
    out: &mut dyn Write,
) -> Result<PackedImage> {
    let record = store.show(image)?;
    let id = SnapshotId::parse(&record.digest)
        .ok_or_else(|| ImageError::refused("image-damaged", format!("image `{image}` is damaged")))?;
    let manifest = store.store.load(id)?;
    let packed =
        PackedSkill { name: name.to_owned(), version: version.to_owned(), path: format!("/{SKILLS}/{name}") };
    let description = Description { format: FORMAT, image: record.digest.clone(), skill: packed.clone() };
    let describing = Path::new(DESCRIPTION);
    let text = serde_json::to_vec(&description).map_err(io::Error::from).at("write", describing)?;
    let encoder = zstd::Encoder::new(out, ZSTD_LEVEL).at("compress", describing)?;
    let mut archive = Builder::new(encoder);
    let (mut entries, mut bytes) = (0, 0);
    append(&mut archive, DESCRIPTION, EntryType::Regular, 0o644, text.len() as u64, &mut &*text)?;
    let root = store.tree(&record.digest).join(ROOT);
    for entry in &manifest.root(ROOT)?.entries {
        entries += 1;
        let path = entry.path.as_os_str();
        match &entry.node {
            Node::Directory { mode, .. } => {
                append(&mut archive, path, EntryType::Directory, *mode, 0, &mut io::empty())?
            }
            Node::Link { target, .. } => append_link(&mut archive, path, target.as_bytes())?,
            Node::File { mode, size, .. } => {
                bytes += size;
                let at = root.join(path);
                let mut file = open_file(&at).at("open", &at)?;
                append(&mut archive, path, EntryType::Regular, *mode, *size, &mut file)?;
            }
            Node::Skipped { .. } => {}
        }
    }
    let (skill_entries, skill_bytes) = append_skill(&mut archive, skill)?;
    entries += skill_entries;
    bytes += skill_bytes;
    let encoder = archive.into_inner().at("write", describing)?;
    encoder.finish().and_then(|out| out.flush()).at("write", describing)?;
    Ok(PackedImage { image: image.to_owned(), digest: record.digest, skill: packed, entries, bytes })
}

/// The entries of the skill's own archive, at their place in the image.
fn append_skill(archive: &mut Archive<'_>, skill: &File) -> Result<(u64, u64)> {
    let limits = UnpackLimits::default();
    let mut reader = TarReader::open(skill, &limits)?;
    let (mut entries, mut bytes) = (0, 0);
    while let Some(entry) = reader.next()? {
        let path = Path::new(SKILLS).join(OsStr::from_bytes(&entry.name));
        entries += 1;
        bytes += entry.size;
        match entry.kind {
            b'5' => append(archive, &path, EntryType::Directory, 0o755, 0, &mut io::empty())?,
            b'2' => append_link(archive, &path, &entry.link)?,
            _ => {
                let mode = if entry.mode & 0o111 != 0 { 0o755 } else { 0o644 };
                let mut content = Vec::new();
                reader.copy(&path.display().to_string(), &mut content)?;
                append(archive, &path, EntryType::Regular, mode, entry.size, &mut &*content)?;
            }
        }
    }
    reader.end()?;
    Ok((entries, bytes))
}

/// Does it say of itself what it is? Then the skill must be in it, and what says so is no part of the image.
pub(crate) fn check_packed(draft: &mut Draft) -> Result<Option<PackedSkill>> {
    let Some(path) = TreePath::new(DESCRIPTION.as_bytes()) else { return Ok(None) };
    let Some(Part::File(content)) = draft.get(&path) else { return Ok(None) };
    let mut text = Vec::new();
    let file = open_file(content).at("open", content)?;
    file.take(MOST_DESCRIPTION).read_to_end(&mut text).at("read", content)?;
    let wrong = |why: &str| {
        ImageError::refused("image-bad-description", format!("its {DESCRIPTION} is wrong: {why}"))
    };
    let description: Description =
        serde_json::from_slice(&text).map_err(|error| wrong(&error.to_string()))?;
    if description.format != FORMAT {
        return Err(wrong("it is of another format"));
    }
    let skill = description.skill;
    let place = skill.path.strip_prefix('/').and_then(|path| TreePath::new(path.as_bytes()));
    let manifest = place.as_ref().and_then(|place| place.join(b"SKILL.md"));
    if !matches!(manifest.and_then(|path| draft.get(&path).cloned()), Some(Part::File(_))) {
        return Err(wrong("the skill that it names is not in it"));
    }
    draft.remove(&path);
    Ok(Some(skill))
}

type Archive<'a> = Builder<zstd::Encoder<'static, &'a mut dyn Write>>;

fn append(
    archive: &mut Archive<'_>,
    path: impl AsRef<Path>,
    kind: EntryType,
    mode: u32,
    size: u64,
    content: &mut dyn Read,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    archive.append_data(&mut header, &path, content.take(size)).at("write", path.as_ref())
}

fn append_link(archive: &mut Archive<'_>, path: impl AsRef<Path>, target: &[u8]) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_size(0);
    header.set_mode(0o777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let to = Path::new(OsStr::from_bytes(target));
    archive.append_link(&mut header, &path, to).at("write", path.as_ref())
}
