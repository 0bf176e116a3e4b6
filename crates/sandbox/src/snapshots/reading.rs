//! Reading a file that others may write: what was read is one state of it, or it is read again.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::fstat;

use super::error::{During, Result, SnapshotError};
use super::hash::ObjectHash;
use super::path::TreePath;
use super::tree::{EntryKind, EntryStat, Tree};
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
        if before.kind != EntryKind::File {
            continue;
        }
        let mut counted = Counted { file: &file, at: 0, size: before.size };
        let done = action(&mut counted, &before)?;
        let cut = counted.at < before.size;
        let after = EntryStat::from(fstat(&file).during("look at", path.to_string())?);
        if !cut && before == after {
            return Ok(Reading::Read(done, before));
        }
    }
    Err(SnapshotError::Changing(path.to_string()))
}

/// By offset: whoever opened the file may share its position, and move it.
struct Counted<'a> {
    file: &'a File,
    at: u64,
    size: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += count as u64;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshots::scene::{Scene, at};
    use std::fs::OpenOptions;
    use std::io::Write;

    /// How often it was read, if it changes during the first `changes` of them.
    fn attempts(changes: u32, change: impl Fn(&mut File)) -> (u32, Result<ObjectHash>) {
        let scene = Scene::new();
        let path = scene.write("file", "some text");
        let mut attempts = 0;
        let read = steadily(&scene.tree(), &at("file"), |content, _| {
            attempts += 1;
            let hash = hash_of(content).unwrap();
            sleep(BETWEEN);
            if attempts <= changes {
                change(&mut OpenOptions::new().append(true).open(&path).unwrap());
            }
            Ok(hash)
        });
        let read = read.map(|read| match read {
            Reading::Read(hash, _) => hash,
            Reading::Gone | Reading::Unreadable => panic!("it is there"),
        });
        (attempts, read)
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_then_reported() {
        let grow = |file: &mut File| file.write_all(b"!").unwrap();
        assert_eq!(attempts(0, grow).0, 1);
        let (count, hash) = attempts(2, grow);
        assert_eq!((count, hash.unwrap()), (3, ObjectHash::of(b"some text!!")));
        let (count, error) = attempts(9, grow);
        assert_eq!((count, error.unwrap_err().code()), (ATTEMPTS, "snapshot-changing"));
        assert_eq!(attempts(9, |file| file.set_len(3).unwrap()).1.unwrap_err().code(), "snapshot-changing");
    }

    #[test]
    fn content_that_is_not_what_it_should_be_ends_in_an_error() {
        let read =
            |content: &[u8], size| io::read_to_string(Checked::new(content, ObjectHash::of(b"text"), size));
        assert_eq!(read(b"text", 4).unwrap(), "text");
        for (content, size) in [(b"tezt".as_slice(), 4), (b"tex", 4), (b"text!", 4), (b"text", 5), (b"", 4)] {
            assert!(read(content, size).is_err(), "{content:?}");
        }
    }
}
