//! A directory as data: every entry, in one order, read beneath a directory descriptor and through no link. What is
//! packed, installed, verified and linted is a tree; its digest is the version of a skill.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat};
use serde::{Deserialize, Serialize};

/// How much of a directory is read before it is refused.
#[derive(Clone, Copy, Debug)]
pub struct TreeLimits {
    pub entries: usize,
    pub depth: usize,
    pub bytes: u64,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { entries: 20_000, depth: 32, bytes: 1 << 30 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Kind {
    Directory,
    File {
        size: u64,
        executable: bool,
    },
    /// As written in the link; never followed.
    Link {
        to: String,
    },
    /// A device, a pipe or a socket; `setuid` files too.
    Special {
        what: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Relative, with `/` between its parts, in which `.` and `..` do not occur.
    pub path: String,
    #[serde(flatten)]
    pub kind: Kind,
}

/// The BLAKE3 of a canonical tree, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Exactly 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let right = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        right.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Enough of it for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("{0}: a name that is not UTF-8, or has a control character")]
    Name(String),
    #[error("more than {0} files and directories, caches and the like counted too")]
    Entries(usize),
    #[error("{path}: more than {limit} directories deep")]
    Depth { path: String, limit: usize },
    #[error("{0}: changed while it was read")]
    Changed(String),
    #[error("more than {0} bytes in all")]
    Bytes(u64),
    #[error("{path}: {what}, which a skill can't have")]
    Special { path: String, what: &'static str },
    #[error("{path}: a link to {to}, which is not in the skill")]
    LinkOut { path: String, to: String },
}

/// Everything in a directory, by path.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    entries: Vec<Entry>,
}

impl Tree {
    /// Read a directory; `skip` says which entries (by path and whether it is a directory) are left out.
    pub fn read(
        directory: &Path,
        limits: TreeLimits,
        skip: impl Fn(&str, bool) -> bool,
    ) -> Result<Self, TreeError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())
            .map_err(|error| TreeError::Io { path: directory.display().to_string(), source: error.into() })?;
        Self::read_at(root, limits, skip)
    }

    pub fn read_at(
        root: OwnedFd,
        limits: TreeLimits,
        skip: impl Fn(&str, bool) -> bool,
    ) -> Result<Self, TreeError> {
        let mut reader = Reader { limits, skip, seen: 0, bytes: 0, entries: BTreeMap::new() };
        reader.directory(root.as_fd(), "", 0)?;
        let entries = reader.entries.into_iter().map(|(path, kind)| Entry { path, kind }).collect();
        Ok(Self { root, entries })
    }

    /// In the order of their paths, byte by byte.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Open a file of it, through no link.
    pub fn open(&self, path: &str) -> Result<std::fs::File, TreeError> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        openat2(&self.root, path, flags, Mode::empty(), resolve)
            .map(std::fs::File::from)
            .map_err(|error| TreeError::Io { path: path.to_owned(), source: error.into() })
    }

    /// What a link of it reads now.
    pub fn read_link(&self, path: &str) -> Result<String, TreeError> {
        let failed = |error: rustix::io::Errno| TreeError::Io { path: path.to_owned(), source: error.into() };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat2(&self.root, parent, flags, Mode::empty(), resolve).map_err(failed)?;
        let to = readlinkat(&parent, name, Vec::new()).map_err(failed)?;
        to.into_string().map_err(|_| TreeError::Name(path.to_owned()))
    }

    /// At most `most` bytes of a file.
    pub fn read_file(&self, path: &str, most: u64) -> Result<Vec<u8>, TreeError> {
        let mut bytes = Vec::new();
        self.open(path)?
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|source| TreeError::Io { path: path.to_owned(), source })?;
        Ok(bytes)
    }

    /// The version: paths, kinds, the x bit, link targets and contents. Not times, owners or other modes. A special file
    /// or a link that leads out is an error.
    pub fn digest(&self) -> Result<Digest, TreeError> {
        let mut digest = DigestBuilder::new();
        for Entry { path, kind } in &self.entries {
            match kind {
                // What is in it says that it is there; an empty one is not part of a version (zip and git lose it).
                Kind::Directory => {}
                Kind::File { size, executable } => {
                    let mut content = blake3::Hasher::new();
                    // No more than was counted: it may have grown beyond every limit since.
                    content
                        .update_reader(self.open(path)?.take(size + 1))
                        .map_err(|source| TreeError::Io { path: path.clone(), source })?;
                    if content.count() != *size {
                        return Err(TreeError::Changed(path.clone()));
                    }
                    digest.file(path, *executable, &content.finalize());
                }
                Kind::Link { to } => {
                    if !stays_inside(path, to) {
                        return Err(TreeError::LinkOut { path: path.clone(), to: to.clone() });
                    }
                    digest.link(path, to);
                }
                Kind::Special { what } => return Err(TreeError::Special { path: path.clone(), what }),
            }
        }
        Ok(digest.finish())
    }
}

/// A digest in the making: files and links in the order of their paths.
pub(crate) struct DigestBuilder(blake3::Hasher);

impl DigestBuilder {
    pub(crate) fn new() -> Self {
        let mut builder = Self(blake3::Hasher::new());
        builder.field(b"ringfence skill tree 1");
        builder
    }

    pub(crate) fn file(&mut self, path: &str, executable: bool, content: &blake3::Hash) {
        self.field(if executable { b"x" } else { b"f" });
        self.field(path.as_bytes());
        self.field(content.as_bytes());
    }

    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.field(b"l");
        self.field(path.as_bytes());
        self.field(to.as_bytes());
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().to_hex().to_string())
    }

    fn field(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

/// Directories of no use to who gets a skill, wherever they are.
const LEFT_OUT_DIRECTORIES: &[&str] = &[
    ".git",
    ".hg",
    ".svn",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".venv",
    "__MACOSX",
    "__pycache__",
    "node_modules",
];
const LEFT_OUT_FILES: &[&str] = &[".DS_Store", "Thumbs.db"];

/// What is no part of a skill's version, and never packed: caches, installed packages, repositories, and the `evals`
/// directory at its top.
pub fn left_out(path: &str, is_directory: bool) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    if is_directory {
        return path == "evals" || LEFT_OUT_DIRECTORIES.contains(&name);
    }
    // A worktree's `.git` is a file.
    // What macOS puts beside a file begins with `._`.
    name == ".git" || LEFT_OUT_FILES.contains(&name) || name.ends_with(".pyc") || name.starts_with("._")
}

/// Does a link at `path` that reads `to` lead to a place in the same tree, judged by its text alone? `..` counts at its
/// beginning only, where the directories are real ones: after a name it might step back from where another link led.
pub(crate) fn stays_inside(path: &str, to: &str) -> bool {
    if to.is_empty() || to.starts_with('/') || to.contains('\\') || to.chars().any(char::is_control) {
        return false;
    }
    let mut above = path.split('/').count() - 1;
    let mut named = false;
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." if named || above == 0 => return false,
            ".." => above -= 1,
            _ => named = true,
        }
    }
    true
}

struct Reader<Skip> {
    limits: TreeLimits,
    skip: Skip,
    /// Left out or not: each costs a look.
    seen: usize,
    bytes: u64,
    entries: BTreeMap<String, Kind>,
}

impl<Skip: Fn(&str, bool) -> bool> Reader<Skip> {
    fn directory(&mut self, directory: BorrowedFd<'_>, prefix: &str, depth: usize) -> Result<(), TreeError> {
        let failed = |error: rustix::io::Errno| TreeError::Io {
            path: if prefix.is_empty() { ".".to_owned() } else { prefix.to_owned() },
            source: error.into(),
        };
        for entry in Dir::read_from(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let raw = entry.file_name();
            if matches!(raw.to_bytes(), b"." | b"..") {
                continue;
            }
            self.seen += 1;
            if self.seen > self.limits.entries {
                return Err(TreeError::Entries(self.limits.entries));
            }
            let name =
                raw.to_str().ok().filter(|name| !name.chars().any(char::is_control)).ok_or_else(|| {
                    TreeError::Name(format!("{prefix}{}", raw.to_string_lossy().escape_debug()))
                })?;
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
            self.entry(directory, name, path, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &str,
        path: String,
        depth: usize,
    ) -> Result<(), TreeError> {
        let failed = |error: rustix::io::Errno| TreeError::Io { path: path.clone(), source: error.into() };
        let facts = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let file_type = FileType::from_raw_mode(facts.st_mode);
        if (self.skip)(&path, file_type == FileType::Directory) {
            return Ok(());
        }
        let kind = match file_type {
            FileType::Directory => {
                if depth + 1 > self.limits.depth {
                    return Err(TreeError::Depth { path, limit: self.limits.depth });
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = openat(directory, name, flags, Mode::empty()).map_err(failed)?;
                self.directory(inner.as_fd(), &path, depth + 1)?;
                Kind::Directory
            }
            FileType::RegularFile if facts.st_mode & 0o6000 != 0 => {
                Kind::Special { what: "a setuid or setgid file" }
            }
            FileType::RegularFile => {
                let size = facts.st_size as u64;
                self.bytes += size;
                if self.bytes > self.limits.bytes {
                    return Err(TreeError::Bytes(self.limits.bytes));
                }
                Kind::File { size, executable: facts.st_mode & 0o111 != 0 }
            }
            FileType::Symlink => {
                let to = readlinkat(directory, name, Vec::new()).map_err(failed)?;
                Kind::Link { to: to.into_string().map_err(|_| TreeError::Name(path.clone()))? }
            }
            FileType::Fifo => Kind::Special { what: "a pipe" },
            FileType::Socket => Kind::Special { what: "a socket" },
            _ => Kind::Special { what: "a device" },
        };
        self.entries.insert(path, kind);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(directory: &Path) -> String {
        Tree::read(directory, TreeLimits::default(), |_, _| false).unwrap().digest().unwrap().to_string()
    }

    #[test]
    fn a_changed_byte_name_or_x_bit_is_another_version_a_time_is_not() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a");
        std::fs::write(&file, "one").unwrap();
        let first = digest(directory.path());
        std::fs::write(&file, "one").unwrap();
        std::fs::create_dir(directory.path().join("empty")).unwrap();
        assert_eq!(digest(directory.path()), first);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let executable = digest(directory.path());
        assert_ne!(executable, first);
        std::fs::write(&file, "two").unwrap();
        assert_ne!(digest(directory.path()), executable);
    }

    #[test]
    fn links_are_judged_by_their_text() {
        assert!(stays_inside("a/b", "c"));
        assert!(stays_inside("a/b", "../c"));
        assert!(!stays_inside("a/b", "../../c"));
        assert!(!stays_inside("a", "/etc/passwd"));
        assert!(!stays_inside("a/b", "x/../../../c"));
        // `x` may be a link to the top.
        assert!(!stays_inside("a/b", "x/../c"));
        assert!(stays_inside("a/b", "./../c/./d"));
    }

    #[test]
    fn what_grows_meanwhile_has_no_digest() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "one").unwrap();
        let tree = Tree::read(directory.path(), TreeLimits::default(), |_, _| false).unwrap();
        std::fs::write(directory.path().join("a"), "one and more").unwrap();
        assert!(matches!(tree.digest(), Err(TreeError::Changed(_))));
    }

    #[test]
    fn what_is_left_out_counts_for_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..30 {
            std::fs::write(directory.path().join(format!("{number}.pyc")), "").unwrap();
        }
        let read = |entries| {
            let looks = std::cell::Cell::new(0);
            let limits = TreeLimits { entries, ..TreeLimits::default() };
            let skip = |path: &str, is_directory| {
                looks.set(looks.get() + 1);
                left_out(path, is_directory)
            };
            (Tree::read(directory.path(), limits, skip).map(|tree| tree.entries().len()), looks.get())
        };
        assert!(matches!(read(30), (Ok(0), 30)));
        assert!(matches!(read(10), (Err(TreeError::Entries(10)), 10)));
    }

    #[test]
    fn what_leads_out_has_no_digest() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
        let tree = Tree::read(directory.path(), TreeLimits::default(), |_, _| false).unwrap();
        assert!(matches!(tree.digest(), Err(TreeError::LinkOut { .. })));
    }
}
