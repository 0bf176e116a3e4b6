//! A new file inside, before it has its name.

use std::fs::File;
use std::path::{Path, PathBuf};

/// Write to `file`, then give it to `Files::finish` or `Files::abandon`.
#[derive(Debug)]
pub struct Draft {
    pub(super) file: File,
    pub(super) number: u32,
    pub(super) path: PathBuf,
}

impl Draft {
    /// Write with `write_at`: a hostile worker may share the descriptor and move its position.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The name that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
