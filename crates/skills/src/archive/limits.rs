//! How much an archive may be and become. Nothing is believed: what is declared is counted before it is read, and what
//! is read can't be more than was declared.

use super::error::{ArchiveError, Reason};

/// How much is unpacked before an archive is refused. The defaults take every tree that the default `TreeLimits` read.
#[derive(Clone, Copy, Debug)]
pub struct UnpackLimits {
    /// Of the archive file.
    pub archive_bytes: u64,
    /// Of all files together.
    pub bytes: u64,
    pub file_bytes: u64,
    /// Files, directories and links; directories that are only implied count too.
    pub entries: usize,
    pub depth: usize,
    /// Of a whole path, in bytes. A single name is at most 255.
    pub path_bytes: usize,
    /// How many bytes may come of one byte of the archive …
    pub ratio: u64,
    /// … once more than this many came of it: small files may compress as well as they like.
    pub ratio_free_bytes: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            // Room for the headers of a tree that does not compress.
            archive_bytes: (1 << 30) + (128 << 20),
            bytes: 1 << 30,
            file_bytes: 1 << 30,
            entries: 20_000,
            depth: 32,
            path_bytes: 1024,
            ratio: 200,
            ratio_free_bytes: 16 << 20,
        }
    }
}

impl UnpackLimits {
    pub(super) fn check_ratio(&self, unpacked: u64, archive: u64) -> Result<(), ArchiveError> {
        let most = self.ratio.saturating_mul(archive).max(self.ratio_free_bytes);
        if unpacked > most { Err(Reason::Ratio.whole()) } else { Ok(()) }
    }

    /// What a tar stream may come to: the files, and for each entry its headers and padding. Extended headers beyond
    /// that are a bomb of their own.
    pub(super) fn stream_bytes(&self) -> u64 {
        let headers = (self.entries as u64).saturating_mul(4096);
        self.bytes.saturating_add(headers).saturating_add(1 << 20)
    }
}

/// What the entries of one archive have declared so far.
pub(super) struct Budget<'a> {
    limits: &'a UnpackLimits,
    entries: usize,
    bytes: u64,
}

impl<'a> Budget<'a> {
    pub(super) fn new(limits: &'a UnpackLimits) -> Self {
        Self { limits, entries: 0, bytes: 0 }
    }

    pub(super) fn entry(&mut self, name: &str, size: u64) -> Result<(), ArchiveError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(Reason::TooManyEntries.whole());
        }
        if size > self.limits.file_bytes {
            return Err(Reason::FileTooLarge.of(name));
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.limits.bytes {
            return Err(Reason::TooManyBytes.whole());
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
