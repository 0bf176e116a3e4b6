//! How much of a tree is kept before it is refused: a program inside makes as many files as it likes.

/// For saving, importing and comparing alike.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotLimits {
    pub entries: u64,
    /// Of all files together.
    pub bytes: u64,
    /// Of all paths together.
    pub path_bytes: u64,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { entries: 1_000_000, bytes: 64 << 30, path_bytes: 256 << 20 }
    }
}
