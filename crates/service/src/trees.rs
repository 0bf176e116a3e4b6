//! Directory trees of a session as tar streams, in both directions, through its file worker: with the rights of a command.
//!
//! What comes in is hostile: files and directories only, each below the directory that was named, through no link, and
//! bounded in bytes, entries and depth. `look_at_tree` goes through it first, so that what a person should see is found before
//! anything is written.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use ringfence_policy::Suspicion;
use ringfence_sandbox::{
    Copied, CopyLimits, Draft, Durability, Existing, FileEntry, FileError, FileKind, FileStat, Files, Links,
    ListLimit, Parents,
};
use tar::{Archive, Builder, Entry, EntryType, Header};

use crate::actions::{LOOKED_AT, MOST_SUSPICIONS, suspicions};

/// A name that an extension of tar gives; a path is shorter.
const LONGEST_NAME: u64 = 4096;
/// What else such extensions may say of one entry.
const LONGEST_EXTENSION: u64 = 64 << 10;
const BLOCK: usize = 128 << 10;
const EEXIST: i32 = 17;

/// Why a tree was not carried.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The archive is one that is refused.
    #[error("{0}")]
    Refused(String),
    #[error("there is more than the limit of {limit} {unit}")]
    TooMuch { limit: u64, unit: &'static str },
    #[error(transparent)]
    File(#[from] FileError),
    /// The sandbox's disk is full, say.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The stream broke off.
    #[error("the stream broke off: {0}")]
    Stream(io::Error),
}

/// Write what is at `top`, a directory or a file, as a tar. Links are in it as links; sockets, pipes and devices are not.
pub fn read_tree(
    files: &mut Files,
    top: &Path,
    limits: &CopyLimits,
    out: &mut dyn Write,
) -> Result<Copied, TreeError> {
    let (stat, target) = files.stat(top, Links::Keep)?;
    let mut outwards = Outwards {
        files,
        limits,
        copied: Copied::default(),
        builder: Builder::new(out),
        waiting: Vec::new(),
    };
    if let Err(error) = outwards.all(top, &stat, target.as_deref()) {
        // Dropped, it would write the end of an archive that is whole.
        std::mem::forget(outwards.builder);
        return Err(error);
    }
    let copied = outwards.copied;
    outwards.builder.into_inner().and_then(|out| out.flush()).map_err(TreeError::Stream)?;
    Ok(copied)
}

struct Outwards<'a> {
    files: &'a mut Files,
    limits: &'a CopyLimits,
    copied: Copied,
    builder: Builder<&'a mut dyn Write>,
    waiting: Vec<(PathBuf, PathBuf)>,
}

impl Outwards<'_> {
    fn all(&mut self, top: &Path, stat: &FileStat, target: Option<&Path>) -> Result<(), TreeError> {
        if stat.kind == FileKind::Directory {
            self.waiting.push((top.to_path_buf(), PathBuf::new()));
        } else {
            let name = PathBuf::from(top.file_name().unwrap_or_default());
            self.entry(top, name, stat, target)?;
        }
        while let Some((directory, relative)) = self.waiting.pop() {
            self.directory(&directory, &relative)?;
        }
        Ok(())
    }

    fn directory(&mut self, directory: &Path, relative: &Path) -> Result<(), TreeError> {
        let left = self.limits.entries.saturating_sub(self.copied.entries);
        let entries = self.files.list(directory, ListLimit(left.saturating_add(1)))?;
        for FileEntry { name, stat, target } in entries {
            self.entry(&directory.join(&name), relative.join(&name), &stat, target.as_deref())?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        inside: &Path,
        relative: PathBuf,
        stat: &FileStat,
        target: Option<&Path>,
    ) -> Result<(), TreeError> {
        admit(self.limits, self.copied, relative.components().count())?;
        let mut header = Header::new_gnu();
        header.set_mode(stat.mode & 0o777);
        header.set_mtime(u64::try_from(stat.modified.seconds).unwrap_or(0));
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match stat.kind {
            FileKind::Directory => {
                header.set_entry_type(EntryType::Directory);
                self.builder.append_data(&mut header, &relative, io::empty()).map_err(TreeError::Stream)?;
                self.waiting.push((inside.to_path_buf(), relative));
            }
            FileKind::Symlink => {
                header.set_entry_type(EntryType::Symlink);
                let target = target.unwrap_or(Path::new(""));
                self.builder.append_link(&mut header, &relative, target).map_err(TreeError::Stream)?;
            }
            FileKind::Regular => {
                let file = match self.files.open_read(inside, Links::Keep) {
                    Ok(file) => file,
                    // Gone, or something else by now.
                    Err(error) if error.errno() == Some(2) => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
                let size = file.metadata().map_err(TreeError::Stream)?.len();
                self.copied.bytes = self.copied.bytes.saturating_add(size);
                if self.copied.bytes > self.limits.bytes {
                    return Err(TreeError::TooMuch { limit: self.limits.bytes, unit: "bytes" });
                }
                header.set_entry_type(EntryType::Regular);
                header.set_size(size);
                let content = Positioned { file, at: 0, size };
                self.builder.append_data(&mut header, &relative, content).map_err(TreeError::Stream)?;
            }
            // By its name only, it is of no use to anybody.
            _ => return Ok(()),
        }
        self.copied.entries += 1;
        Ok(())
    }
}

fn admit(limits: &CopyLimits, copied: Copied, depth: usize) -> Result<(), TreeError> {
    if copied.entries >= limits.entries {
        return Err(TreeError::TooMuch { limit: limits.entries, unit: "entries" });
    }
    if depth as u64 > limits.depth {
        return Err(TreeError::TooMuch { limit: limits.depth, unit: "levels of directories" });
    }
    Ok(())
}

/// Exactly `size` bytes, by position: the worker may share the descriptor, and a command may cut the file meanwhile.
struct Positioned {
    file: File,
    at: u64,
    size: u64,
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX).min(buffer.len());
        if left == 0 {
            return Ok(0);
        }
        let read = match self.file.read_at(&mut buffer[..left], self.at)? {
            0 => {
                buffer[..left].fill(0);
                left
            }
            read => read,
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// Write the files and directories of a tar below `top`, which is made if it isn't there. What was written before an error
/// stays.
pub fn write_tree(
    files: &mut Files,
    top: &Path,
    limits: &CopyLimits,
    input: &mut dyn Read,
) -> Result<Copied, TreeError> {
    files.make_directory(top, 0o755, Parents::Make)?;
    walk(limits, input, &mut Inwards { files, top, made: HashSet::new() })
}

/// What is in a tar that `write_tree` would take.
#[derive(Debug, Default)]
pub struct TreeLook {
    /// Of each file and directory, relative to the top.
    pub paths: Vec<PathBuf>,
    /// What in its files looks like an attempt to steer a model.
    pub suspicions: Vec<Suspicion>,
}

/// Look through a tar without writing anything: it is refused here for all that is wrong with the archive itself.
pub fn look_at_tree(limits: &CopyLimits, input: &mut dyn Read) -> Result<TreeLook, TreeError> {
    let mut look = TreeLook::default();
    walk(limits, input, &mut look)?;
    Ok(look)
}

/// Each member, bounded, in the order of the stream.
fn walk(limits: &CopyLimits, input: &mut dyn Read, to: &mut dyn Members) -> Result<Copied, TreeError> {
    let mut walk = Walk { limits, copied: Copied::default(), extension: None };
    let mut archive = Archive::new(input);
    // Raw: extensions of tar, which may be of any size, are entries like others, and bounded here.
    for entry in archive.entries().map_err(TreeError::Stream)?.raw(true) {
        walk.take(entry.map_err(no_tar)?, to)?;
    }
    if walk.extension.is_some() {
        return Err(refused("it ends after the name of an entry"));
    }
    Ok(walk.copied)
}

/// What becomes of the members of a tar.
trait Members {
    fn directory(&mut self, relative: &Path, mode: u32) -> Result<(), TreeError>;
    fn file(
        &mut self,
        relative: &Path,
        mode: u32,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), TreeError>;
}

impl Members for TreeLook {
    fn directory(&mut self, relative: &Path, _: u32) -> Result<(), TreeError> {
        self.paths.push(relative.to_path_buf());
        Ok(())
    }

    fn file(&mut self, relative: &Path, _: u32, size: u64, content: &mut dyn Read) -> Result<(), TreeError> {
        self.paths.push(relative.to_path_buf());
        let mut sample = Vec::new();
        let read = content.take(LOOKED_AT).read_to_end(&mut sample).map_err(no_tar)?;
        if (read as u64) < size.min(LOOKED_AT) {
            return Err(refused("it is shorter than it says"));
        }
        if self.suspicions.len() < MOST_SUSPICIONS {
            let place = format!("the file {}", relative.display());
            self.suspicions.extend(suspicions(&place, &sample));
        }
        Ok(())
    }
}

fn refused(why: impl Into<String>) -> TreeError {
    TreeError::Refused(why.into())
}

fn no_tar(error: io::Error) -> TreeError {
    match error.kind() {
        io::ErrorKind::Other | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            refused(format!("it is no tar archive: {error}"))
        }
        _ => TreeError::Stream(error),
    }
}

struct Walk<'a> {
    limits: &'a CopyLimits,
    copied: Copied,
    /// The name that the next entry has.
    extension: Option<Vec<u8>>,
}

impl Walk<'_> {
    fn take<R: Read>(&mut self, mut entry: Entry<'_, R>, to: &mut dyn Members) -> Result<(), TreeError> {
        let kind = entry.header().entry_type();
        let size = entry.header().entry_size().map_err(no_tar)?;
        match kind {
            EntryType::GNULongName => {
                let mut name = extension(&mut entry, size, LONGEST_NAME)?;
                while name.last() == Some(&0) {
                    name.pop();
                }
                self.extension = Some(name);
                return Ok(());
            }
            EntryType::XHeader => {
                let records = extension(&mut entry, size, LONGEST_EXTENSION)?;
                if let Some(name) = pax_path(&records)? {
                    self.extension = Some(name);
                }
                return Ok(());
            }
            // git writes a comment here.
            EntryType::XGlobalHeader => {
                let records = extension(&mut entry, size, LONGEST_EXTENSION)?;
                return match pax_path(&records)? {
                    Some(_) => Err(refused("it gives all entries one name")),
                    None => Ok(()),
                };
            }
            _ => {}
        }
        let name = self.extension.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let shown = String::from_utf8_lossy(&name).escape_debug().to_string();
        let relative = relative(&name).ok_or_else(|| {
            refused(format!("`{shown}` leads elsewhere: paths are relative, with no `..` and no NUL"))
        })?;
        let mode = entry.header().mode().map_err(no_tar)? & 0o777;
        admit(self.limits, self.copied, relative.components().count())?;
        match kind {
            EntryType::Directory => to.directory(&relative, mode)?,
            EntryType::Regular | EntryType::Continuous if !name.ends_with(b"/") => {
                self.copied.bytes = self.copied.bytes.saturating_add(size);
                if self.copied.bytes > self.limits.bytes {
                    return Err(TreeError::TooMuch { limit: self.limits.bytes, unit: "bytes" });
                }
                to.file(&relative, mode, size, &mut entry)?;
            }
            // As old tar has it.
            EntryType::Regular => to.directory(&relative, mode)?,
            EntryType::Symlink | EntryType::Link => {
                return Err(refused(format!(
                    "`{shown}` is a link, and only files and directories are taken"
                )));
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                return Err(refused(format!("`{shown}` is a device or a pipe")));
            }
            _ => return Err(refused(format!("`{shown}` is of a kind that is not taken"))),
        }
        self.copied.entries += 1;
        Ok(())
    }
}

struct Inwards<'a> {
    files: &'a mut Files,
    top: &'a Path,
    /// Directories that are known to be ones, relative.
    made: HashSet<PathBuf>,
}

impl Members for Inwards<'_> {
    /// Each directory on the way is a real one: a link could lead the rest elsewhere.
    fn directory(&mut self, relative: &Path, mode: u32) -> Result<(), TreeError> {
        let mut path = PathBuf::new();
        let parts: Vec<_> = relative.components().collect();
        for (number, part) in parts.iter().enumerate() {
            path.push(part);
            if self.made.contains(&path) {
                continue;
            }
            let mode = if number + 1 == parts.len() { mode | 0o700 } else { 0o755 };
            let inside = self.top.join(&path);
            match self.files.make_directory(&inside, mode, Parents::Exist) {
                Err(error) if error.errno() == Some(EEXIST) => {
                    let (there, _) = self.files.stat(&inside, Links::Keep)?;
                    if there.kind != FileKind::Directory {
                        return Err(refused(format!("`{}` is there, and no directory", path.display())));
                    }
                }
                made => made?,
            }
            self.made.insert(path.clone());
        }
        Ok(())
    }

    fn file(
        &mut self,
        relative: &Path,
        mode: u32,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), TreeError> {
        let parent = relative.parent().unwrap_or(Path::new(""));
        self.directory(parent, 0o755)?;
        let inside = self.top.join(relative);
        let draft = self.files.create(&inside, mode, Links::Keep)?;
        match fill(&draft, &inside, size, content) {
            Ok(()) => Ok(self.files.finish(draft, Existing::Replace, Durability::Later)?),
            Err(error) => {
                // The first error is the one to report.
                let _ = self.files.abandon(draft);
                Err(error)
            }
        }
    }
}

fn fill(draft: &Draft, inside: &Path, size: u64, content: &mut dyn Read) -> Result<(), TreeError> {
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    while at < size {
        let read = match content.read(&mut block) {
            Ok(0) => return Err(refused("it is shorter than it says")),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(no_tar(error)),
        };
        draft
            .file()
            .write_all_at(&block[..read], at)
            .map_err(|source| TreeError::Write { path: inside.to_path_buf(), source })?;
        at += read as u64;
    }
    Ok(())
}

fn extension(entry: &mut dyn Read, size: u64, most: u64) -> Result<Vec<u8>, TreeError> {
    if size > most {
        return Err(refused("an extension header in it is too long"));
    }
    let mut bytes = Vec::new();
    entry.take(most).read_to_end(&mut bytes).map_err(no_tar)?;
    Ok(bytes)
}

/// `LENGTH KEY=VALUE\n`, again and again. What changes an entry beyond its name and times is refused.
fn pax_path(mut records: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
    let broken = || refused("an extension header in it is broken");
    let mut path = None;
    while !records.is_empty() {
        let space = records.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
        let length = std::str::from_utf8(&records[..space]).ok().and_then(|text| text.parse::<usize>().ok());
        let length = length.filter(|length| *length > space + 1 && *length <= records.len());
        let (record, rest) = records.split_at(length.ok_or_else(broken)?);
        records = rest;
        let record = record[space + 1..].strip_suffix(b"\n").ok_or_else(broken)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => path = Some(value.to_vec()),
            // Only files of more than 8 GB need it.
            b"size" => return Err(refused("a file in it is too large")),
            key if key.starts_with(b"GNU.sparse") => return Err(refused("a file in it is sparse")),
            _ => {}
        }
    }
    Ok(path)
}

/// `None` where it is not a path that stays below; empty for the top itself.
fn relative(name: &[u8]) -> Option<PathBuf> {
    if name.is_empty() || name.len() as u64 > LONGEST_NAME || name.contains(&0) {
        return None;
    }
    let mut path = PathBuf::new();
    for part in Path::new(std::ffi::OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) if part.len() <= 255 => path.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_stay_below_are_taken() {
        for (name, path) in [("a", "a"), ("./a/b", "a/b"), ("a/", "a"), ("./", ""), (".", "")] {
            assert_eq!(relative(name.as_bytes()), Some(path.into()), "{name}");
        }
        for name in ["", "/", "/a", "..", "a/../b", "../a", "a/..", "a\0b", &"a".repeat(256)] {
            assert_eq!(relative(name.as_bytes()), None, "{name:?}");
        }
    }

    #[test]
    fn extensions_are_read_strictly() {
        assert_eq!(
            pax_path(b"13 path=a/b/c\n").unwrap_err().to_string(),
            "an extension header in it is broken"
        );
        assert_eq!(pax_path(b"14 path=a/b/c\n").unwrap(), Some(b"a/b/c".to_vec()));
        assert_eq!(pax_path(b"20 mtime=1234567890\n14 path=a/b/c\n").unwrap(), Some(b"a/b/c".to_vec()));
        for bad in [&b"9999 path=a\n"[..], b"x", b"0 ", b"10 size=99\n", b"22 GNU.sparse.major=1\n"] {
            assert!(pax_path(bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
