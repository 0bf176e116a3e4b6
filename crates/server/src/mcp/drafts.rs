//! Files that are written whole into a sandbox, with the rights of its commands.

use std::io::Write;
use std::path::Path;

use ringfence_sandbox::{Durability, Existing, Files, Links, Parents, Sandbox};

use crate::blocking;
use crate::error::{Answer, ApiError};

/// Write a file, and the directories above it: a reader sees the old or the new one.
pub(super) fn put(files: &mut Files, path: &Path, bytes: &[u8], mode: u32) -> Answer<()> {
    if let Some(parent) = path.parent()
        && files.stat(parent, Links::Follow).is_err()
    {
        files.make_directory(parent, 0o755, Parents::Make)?;
    }
    write(files, path, bytes, mode, Links::Follow)
}

/// Write an output for its reader alone. A link that a command put there leads nowhere.
pub(super) async fn put_output(sandbox: Sandbox, path: &str, bytes: Vec<u8>) -> Answer<()> {
    let path = Path::new(path).to_path_buf();
    blocking(move || {
        let mut files = sandbox.files()?;
        if let Some(parent) = path.parent() {
            files.make_directory(parent, 0o700, Parents::Make)?;
        }
        write(&mut files, &path, &bytes, 0o600, Links::Keep)
    })
    .await
}

fn write(files: &mut Files, path: &Path, bytes: &[u8], mode: u32, links: Links) -> Answer<()> {
    let draft = files.create(path, mode, links)?;
    if let Err(error) = draft.file().write_all(bytes) {
        files.abandon(draft)?;
        return Err(ApiError::bad(
            format!("the file can't be written: {error}"),
            "see what is left of the sandbox's disk",
        ));
    }
    Ok(files.finish(draft, Existing::Replace, Durability::Later)?)
}
