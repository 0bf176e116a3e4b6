//! Which file of a directory is the manifest.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::{MANIFEST_BYTES, MANIFEST_NAMES};
use crate::tree::{Entry, Tree};

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("no SKILL.md (or skill.md) here")]
    Missing,
    #[error("{name}: not an ordinary file; a manifest can't be a link, a directory or a device")]
    NotAFile { name: &'static str },
    #[error("{name}: {source}")]
    Io { name: &'static str, source: io::Error },
}

/// The manifest of a tree: `SKILL.md` before `skill.md`. It may turn out to be a link, which is for the caller to refuse:
/// to take the other one instead would be to show another skill than other programs do.
pub fn manifest_of(tree: &Tree) -> Option<&Entry> {
    let entry = |name: &&str| tree.entries().iter().find(|entry| entry.path == *name);
    MANIFEST_NAMES.iter().find_map(entry)
}

/// The name and the bytes of a directory's manifest, read through no link. One byte more than is allowed at most, so
/// that `load` and `validate` can tell.
pub fn read_manifest(directory: impl AsFd) -> Result<(&'static str, Vec<u8>), ManifestError> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // Without NONBLOCK a pipe of that name would hold us.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    for name in MANIFEST_NAMES {
        let failed = |error: Errno| ManifestError::Io { name, source: error.into() };
        let file = match openat2(directory.as_fd(), name, flags, Mode::empty(), resolve) {
            Ok(file) => file,
            Err(Errno::NOENT) => continue,
            Err(Errno::LOOP | Errno::NXIO) => return Err(ManifestError::NotAFile { name }),
            Err(error) => return Err(failed(error)),
        };
        let facts = fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
            return Err(ManifestError::NotAFile { name });
        }
        let mut bytes = Vec::new();
        std::fs::File::from(file)
            .take(MANIFEST_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| ManifestError::Io { name, source })?;
        return Ok((name, bytes));
    }
    Err(ManifestError::Missing)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tree::TreeLimits;

    #[test]
    fn the_upper_case_name_wins_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let here = || File::open(directory.path()).unwrap();
        assert!(matches!(read_manifest(here()), Err(ManifestError::Missing)));
        fs::write(directory.path().join("skill.md"), "lower").unwrap();
        assert_eq!(read_manifest(here()).unwrap(), ("skill.md", b"lower".to_vec()));
        fs::write(directory.path().join("SKILL.md"), "upper").unwrap();
        assert_eq!(read_manifest(here()).unwrap(), ("SKILL.md", b"upper".to_vec()));
        fs::remove_file(directory.path().join("SKILL.md")).unwrap();
        symlink("skill.md", directory.path().join("SKILL.md")).unwrap();
        assert!(matches!(read_manifest(here()), Err(ManifestError::NotAFile { name: "SKILL.md" })));
        let tree = Tree::read(directory.path(), TreeLimits::default(), |_, _| false).unwrap();
        assert_eq!(manifest_of(&tree).unwrap().path, "SKILL.md");
    }

    #[test]
    fn a_pipe_or_a_directory_is_no_manifest() {
        let directory = tempfile::tempdir().unwrap();
        let here = || File::open(directory.path()).unwrap();
        let path = directory.path().join("SKILL.md");
        fs::create_dir(&path).unwrap();
        assert!(matches!(read_manifest(here()), Err(ManifestError::NotAFile { .. })));
        fs::remove_dir(&path).unwrap();
        rustix::fs::mkfifoat(here(), "SKILL.md", Mode::from_raw_mode(0o600)).unwrap();
        assert!(matches!(read_manifest(here()), Err(ManifestError::NotAFile { .. })));
    }
}
