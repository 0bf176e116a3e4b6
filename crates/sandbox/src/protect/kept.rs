//! What a protected file held at the start. A host program that replaces the file detaches the mount on it, and from then
//! on the command may have written it: nobody can tell whose the content is. The old one is put back, the other kept
//! beside it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

/// Larger files are not kept: the end check then only reports.
const MOST_BYTES: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Kept {
    /// A small regular file; anything else is not kept.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let facts = path.symlink_metadata().ok()?;
        if !facts.is_file() || facts.len() > MOST_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(facts.len() as usize);
        File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(Self { bytes, mode: facts.mode() & 0o7777, uid: facts.uid(), gid: facts.gid() })
    }

    /// Put it back at `path`; the name that the other one has now, or `None` if there was nothing to do.
    pub(super) fn put_back(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        match path.symlink_metadata() {
            // Gone is harmless, and somebody's wish.
            Err(_) => return Ok(None),
            Ok(_) => {
                if Self::read(path).is_some_and(|now| now.bytes == self.bytes) {
                    return Ok(None);
                }
            }
        }
        let (aside, fresh) = (free_name(path, "unverified"), free_name(path, "restored"));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&fresh)?;
        file.write_all(&self.bytes)?;
        // For root; an ordinary user's file is the user's anyway.
        let _ = chown(&fresh, Some(self.uid), Some(self.gid));
        fs::rename(path, &aside)?;
        fs::rename(&fresh, path)?;
        Ok(Some(aside))
    }
}

/// A free name beside `path`.
fn free_name(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (0u32..)
        .map(|number| path.with_file_name(format!("{name}.{what}-{}-{number}", std::process::id())))
        .find(|candidate| candidate.symlink_metadata().is_err())
        .unwrap_or_else(|| path.with_extension(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_gets_its_content_back_and_the_other_is_kept() {
        let directory = std::env::temp_dir().join(format!("ringfence-kept-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config");
        fs::write(&path, "old").unwrap();
        let kept = Kept::read(&path).unwrap();
        assert_eq!(kept.put_back(&path).unwrap(), None);
        fs::write(&path, "new").unwrap();
        let aside = kept.put_back(&path).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_to_string(aside).unwrap(), "new");
        fs::remove_dir_all(directory).unwrap();
    }
}
