//! Reading a file that others may write: what was read is one state of it, or it is read again.

use std::fs::File;
use std::io::{self, Read};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::fstat;

use super::error::{During, Result, SnapshotError};
use super::hash::ObjectHash;
use super::path::TreePath;
use super::tree::{EntryStat, FileKind, Tree};
use super::walk::is_gone;

const ATTEMPTS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(20);

pub(super) enum Reading<T> {
    /// With what the kernel, not the tree, says of the file.
    Read(T, EntryStat),
    Gone,
    Unreadable,
}

/// Do `action` with a file's content (its first `size` bytes) until the file did not change meanwhile.
pub(super) fn steadily<T>(
    tree: &dyn Tree,
    path: &TreePath,
    mut action: impl FnMut(&mut dyn Read, &EntryStat) -> Result<T>,
) -> Result<Reading<T>> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            sleep(BETWEEN);
        }
        let file = match tree.open(path) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(Reading::Gone),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Reading::Unreadable),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => continue,
            Err(error) => return Err(error).during("open", path.to_string()),
        };
        let before = EntryStat::from(fstat(&file).during("look at", path.to_string())?);
        if before.kind != FileKind::File {
            continue;
        }
        let mut counted = Counted { file: &file, left: before.size };
        let done = action(&mut counted, &before)?;
        let cut = counted.left > 0;
        let after = EntryStat::from(fstat(&file).during("look at", path.to_string())?);
        if !cut && before == after {
            return Ok(Reading::Read(done, before));
        }
    }
    Err(SnapshotError::Changing(path.to_string()))
}

struct Counted<'a> {
    file: &'a File,
    left: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

/// The hash of all that is left to read.
pub(super) fn hash_of(content: &mut dyn Read) -> io::Result<ObjectHash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(ObjectHash::finish(&hasher)),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
    }
}

/// Content that must have this hash and size: the end is an error if it does not.
pub(super) struct Checked<R> {
    inner: R,
    hasher: blake3::Hasher,
    expected: ObjectHash,
    left: u64,
}

impl<R: Read> Checked<R> {
    pub(super) fn new(inner: R, expected: ObjectHash, size: u64) -> Self {
        Self { inner, hasher: blake3::Hasher::new(), expected, left: size }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        let wrong = match self.left.checked_sub(count as u64) {
            None => true,
            Some(left) => {
                self.left = left;
                count == 0 && (left > 0 || ObjectHash::finish(&self.hasher) != self.expected)
            }
        };
        if wrong {
            let what = format!("the content of object {} is not what its name says", self.expected);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(count)
    }
}
