//! The store's files: private, locked for a change, replaced as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use super::StoreError;

/// Room for hundreds of values.
const LARGEST: u64 = 16 << 20;
const OTHERS: u32 = 0o077;

/// Held until it is dropped.
pub(super) fn lock(directory: &Path, name: &str) -> Result<File, StoreError> {
    make_directory(directory)?;
    let path = directory.join(name);
    let io = |what| {
        let path = path.clone();
        move |source| StoreError::Io { what, path, source }
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(io("open"))?;
    file.lock().map_err(io("lock"))?;
    Ok(file)
}

/// `None` if there is no such file. A file that others can read or write is an error: its content can't be relied on,
/// or is no secret any more.
pub(super) fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
    let failed = |source| StoreError::Io { what: "read", path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() || facts.len() > LARGEST {
        return Err(failed(io::Error::other("it is not a file of at most 16 MiB")));
    }
    if facts.mode() & OTHERS != 0 {
        return Err(StoreError::Permissions { path: path.to_owned() });
    }
    // One byte more than it should need, so that the buffer does not grow and leave a copy behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(facts.len() as usize + 1));
    file.take(facts.len()).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// The old content or the new one is there, whatever happens meanwhile.
pub(super) fn write_private(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    make_directory(directory)?;
    let path = directory.join(name);
    let beside = directory.join(format!(".{name}.{}", std::process::id()));
    let written = write_beside(&beside, bytes).and_then(|()| fs::rename(&beside, &path));
    written.and_then(|()| File::open(directory)?.sync_all()).map_err(|source| {
        let _ = fs::remove_file(&beside);
        StoreError::Io { what: "write", path, source }
    })
}

fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What a killed process with this id left behind.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn make_directory(directory: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|source| StoreError::Io {
        what: "create",
        path: directory.to_owned(),
        source,
    })
}
