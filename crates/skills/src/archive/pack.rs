//! Making an archive of a tree. The bytes depend on the tree's version and the name, and on nothing else: no time, no
//! owner, no order of creation. What is packed can be unpacked again, and is the tree, or it is an error.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use flate2::{Compression, GzBuilder};

use super::Format;
use super::error::{ArchiveError, Reason};
use super::limits::{Budget, UnpackLimits};
use super::name::safe_path;
use super::plan::{Member, MemberKind, is_left_out, plan};
use super::tar_write::TarWriter;
use super::zip_write::ZipWriter;
use crate::tree::{Digest, DigestBuilder, Entry, Kind, Tree, TreeError, TreeLimits, left_out};

const GZIP_LEVEL: Compression = Compression::new(6);
const ZSTD_LEVEL: i32 = 9;
/// In a gzip header: no operating system in particular.
const NO_SYSTEM: u8 = 255;

/// What was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Of the bytes that went into the archive.
    pub digest: Digest,
    /// Files and links.
    pub files: usize,
    pub bytes: u64,
    pub archive_bytes: u64,
}

/// Pack a tree into one directory called `name`. Entries that `left_out` names are not packed, whatever the tree was
/// read with; empty directories are no part of a version, and are not either.
pub fn pack(
    tree: &Tree,
    name: &str,
    format: Format,
    out: &mut (impl Write + Seek),
) -> Result<Packed, ArchiveError> {
    let failed = |error: io::Error| ArchiveError::io("the archive", error);
    let limits = UnpackLimits::default();
    let contents = Contents { tree, name, entries: chosen(tree, name, &limits)? };
    let start = out.stream_position().map_err(failed)?;
    let (digest, bytes) = match format {
        Format::Zip => {
            let mut writer = ZipWriter::new(&mut *out).map_err(failed)?;
            let packed = contents.write_zip(&mut writer)?;
            writer.finish()?;
            packed
        }
        Format::Tar => contents.write_tar(TarWriter::new(&mut *out))?.1,
        Format::TarGz => {
            let encoder = GzBuilder::new().mtime(0).operating_system(NO_SYSTEM).write(&mut *out, GZIP_LEVEL);
            let (encoder, packed) = contents.write_tar(TarWriter::new(encoder))?;
            encoder.finish().map_err(failed)?;
            packed
        }
        Format::TarZst => {
            let mut encoder = zstd::Encoder::new(&mut *out, ZSTD_LEVEL).map_err(failed)?;
            encoder.include_checksum(true).map_err(failed)?;
            let (encoder, packed) = contents.write_tar(TarWriter::new(encoder))?;
            encoder.finish().map_err(failed)?;
            packed
        }
    };
    out.flush().map_err(failed)?;
    let archive_bytes = out.stream_position().map_err(failed)?.saturating_sub(start);
    limits.check_ratio(bytes, archive_bytes)?;
    if archive_bytes > limits.archive_bytes {
        return Err(Reason::ArchiveTooLarge.whole());
    }
    // A file that was changed after it was packed, while others were: the archive would be no version that ever was.
    if contents.digest_now()? != digest {
        return Err(ArchiveError::Changed(name.to_owned()));
    }
    Ok(Packed { digest, files: contents.entries.len(), bytes, archive_bytes })
}

/// Pack a directory into a file that is there whole or not at all.
pub fn pack_file(directory: &Path, name: &str, format: Format, out: &Path) -> Result<Packed, ArchiveError> {
    let shown = out.display().to_string();
    let failed = |error: io::Error| ArchiveError::io(&shown, error);
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Some(file_name) = out.file_name() else {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    };
    let parent = parent.canonicalize().map_err(failed)?;
    let packed_directory = directory
        .canonicalize()
        .map_err(|error| ArchiveError::io(&directory.display().to_string(), error))?;
    if parent.starts_with(&packed_directory) {
        return Err(ArchiveError::OutputInside(shown));
    }
    let read = || Tree::read(&packed_directory, TreeLimits::default(), left_out);
    let tree = read()?;
    let mut part = Part::create(&parent, &file_name.to_string_lossy()).map_err(failed)?;
    let packed = pack(&tree, name, format, &mut part.file)?;
    if read()?.entries() != tree.entries() {
        return Err(ArchiveError::Changed(directory.display().to_string()));
    }
    part.file.sync_all().map_err(failed)?;
    part.rename(&parent.join(file_name)).map_err(failed)?;
    Ok(packed)
}

/// The files and links of a tree that are packed, all of which could be unpacked again.
fn chosen<'t>(tree: &'t Tree, name: &str, limits: &UnpackLimits) -> Result<Vec<&'t Entry>, ArchiveError> {
    if name.contains('/') || safe_path(name.as_bytes(), limits)?.is_empty() {
        return Err(Reason::DotPart.of(name));
    }
    let mut budget = Budget::new(limits);
    let mut entries = Vec::new();
    let mut members = Vec::new();
    for entry in tree.entries() {
        if is_left_out(&entry.path, entry.kind == Kind::Directory) {
            continue;
        }
        let kind = match &entry.kind {
            Kind::Directory => continue,
            Kind::File { size, executable } => MemberKind::File { size: *size, executable: *executable },
            Kind::Link { to } => MemberKind::Link { to: to.clone() },
            Kind::Special { what } => {
                let path = entry.path.clone();
                return Err(TreeError::Special { path, what }.into());
            }
        };
        let path = safe_path(format!("{name}/{}", entry.path).as_bytes(), limits)?;
        if let MemberKind::File { size, .. } = kind {
            budget.entry(&path, size)?;
        }
        members.push(Member { path, kind });
        entries.push(entry);
    }
    plan(&members, limits)?;
    Ok(entries)
}

struct Contents<'t> {
    tree: &'t Tree,
    name: &'t str,
    entries: Vec<&'t Entry>,
}

impl Contents<'_> {
    fn write_zip(&self, writer: &mut ZipWriter<impl Write + Seek>) -> Result<(Digest, u64), ArchiveError> {
        let mut digest = DigestBuilder::new();
        let mut bytes = 0;
        for Entry { path, kind } in self.entries.iter().copied() {
            let inner = format!("{}/{path}", self.name);
            match kind {
                Kind::File { size, executable } => {
                    bytes += size;
                    writer.file(&inner, *executable, |out| {
                        let hash = self.copy(path, *size, *executable, out)?;
                        digest.file(path, *executable, &hash);
                        Ok(())
                    })?;
                }
                Kind::Link { to } => {
                    self.check_link(path, to)?;
                    digest.link(path, to);
                    writer.link(&inner, to)?;
                }
                Kind::Directory | Kind::Special { .. } => {}
            }
        }
        Ok((digest.finish(), bytes))
    }

    fn write_tar<Out: Write>(
        &self,
        mut writer: TarWriter<Out>,
    ) -> Result<(Out, (Digest, u64)), ArchiveError> {
        let failed = |error: io::Error| ArchiveError::io("the archive", error);
        let mut digest = DigestBuilder::new();
        let mut bytes = 0;
        for Entry { path, kind } in self.entries.iter().copied() {
            let inner = format!("{}/{path}", self.name);
            match kind {
                Kind::File { size, executable } => {
                    bytes += size;
                    writer.start_file(&inner, *size, *executable).map_err(failed)?;
                    let hash = self.copy(path, *size, *executable, &mut writer)?;
                    digest.file(path, *executable, &hash);
                    writer.end_file(*size).map_err(failed)?;
                }
                Kind::Link { to } => {
                    self.check_link(path, to)?;
                    digest.link(path, to);
                    writer.link(&inner, to).map_err(failed)?;
                }
                Kind::Directory | Kind::Special { .. } => {}
            }
        }
        Ok((writer.finish().map_err(failed)?, (digest.finish(), bytes)))
    }

    /// Copy a file that is what the tree says of it, before and after.
    fn copy(
        &self,
        path: &str,
        size: u64,
        executable: bool,
        out: &mut dyn Write,
    ) -> Result<blake3::Hash, ArchiveError> {
        let failed = |error: io::Error| ArchiveError::io(path, error);
        let changed = || ArchiveError::Changed(path.to_owned());
        let mut file = self.tree.open(path)?;
        let before = file.metadata().map_err(failed)?;
        let same = before.is_file()
            && before.len() == size
            && (before.mode() & 0o111 != 0) == executable
            && before.mode() & 0o6000 == 0;
        if !same {
            return Err(changed());
        }
        let mut hasher = blake3::Hasher::new();
        let mut left = size;
        let mut buffer = [0; 32 * 1024];
        loop {
            let count = file.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            left = left.checked_sub(count as u64).ok_or_else(changed)?;
            hasher.update(&buffer[..count]);
            out.write_all(&buffer[..count]).map_err(|error| ArchiveError::io("the archive", error))?;
        }
        let after = file.metadata().map_err(failed)?;
        if left != 0 || times(&before) != times(&after) {
            return Err(changed());
        }
        Ok(hasher.finalize())
    }

    fn check_link(&self, path: &str, to: &str) -> Result<(), ArchiveError> {
        match self.tree.read_link(path) {
            Ok(now) if now == to => Ok(()),
            _ => Err(ArchiveError::Changed(path.to_owned())),
        }
    }

    fn digest_now(&self) -> Result<Digest, ArchiveError> {
        let mut digest = DigestBuilder::new();
        for Entry { path, kind } in self.entries.iter().copied() {
            match kind {
                Kind::File { size, executable } => {
                    digest.file(path, *executable, &self.copy(path, *size, *executable, &mut io::sink())?);
                }
                Kind::Link { to } => {
                    self.check_link(path, to)?;
                    digest.link(path, to);
                }
                Kind::Directory | Kind::Special { .. } => {}
            }
        }
        Ok(digest.finish())
    }
}

fn times(facts: &Metadata) -> [i64; 4] {
    [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()]
}

/// A file beside the one that it becomes, removed unless it does.
struct Part {
    path: PathBuf,
    file: File,
    done: bool,
}

impl Part {
    fn create(parent: &Path, name: &str) -> io::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        // Room for what is added, whatever the name.
        let name: String = name.chars().take(32).collect();
        loop {
            let turn = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!(".{name}.{}.{turn}.part", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { path, file, done: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn rename(mut self, to: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, to)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
