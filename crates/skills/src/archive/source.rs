//! The archive file: read by position, never beyond the size that it had at first, with its offset left alone.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::error::{ArchiveError, Reason};
use super::limits::UnpackLimits;

#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    file: &'a File,
    pub(super) size: u64,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a File, limits: &UnpackLimits) -> Result<Self, ArchiveError> {
        let facts = file.metadata().map_err(|error| ArchiveError::io("the archive", error))?;
        if !facts.is_file() {
            return Err(ArchiveError::NotAFile);
        }
        if facts.len() > limits.archive_bytes {
            return Err(Reason::ArchiveTooLarge.whole());
        }
        Ok(Self { file, size: facts.len() })
    }

    /// The bytes from `start` up to `end`.
    pub(super) fn range(self, start: u64, end: u64) -> Range<'a> {
        Range { file: self.file, position: start, end: end.min(self.size) }
    }

    pub(super) fn bytes_at(self, position: u64, count: usize) -> Result<Vec<u8>, ArchiveError> {
        let end = position.checked_add(count as u64).filter(|end| *end <= self.size);
        let end = end.ok_or(Reason::Truncated.whole())?;
        let mut bytes = vec![0; count];
        self.range(position, end).read_exact(&mut bytes).map_err(read_error)?;
        Ok(bytes)
    }
}

/// A part of the archive file.
pub(super) struct Range<'a> {
    file: &'a File,
    position: u64,
    end: u64,
}

impl Read for Range<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most =
            usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = loop {
            match self.file.read_at(&mut buffer[..most], self.position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        if count == 0 {
            // It was longer when we looked.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// What an error of reading, or of a decompressor, says of the archive.
pub(super) fn read_error(error: io::Error) -> ArchiveError {
    if error.raw_os_error().is_some() {
        ArchiveError::io("the archive", error)
    } else if error.kind() == io::ErrorKind::UnexpectedEof {
        Reason::Truncated.whole()
    } else {
        Reason::BadCompression.whole()
    }
}
