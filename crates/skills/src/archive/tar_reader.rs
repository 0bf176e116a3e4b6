//! The strict reader of tars for other archives than those of skills: who uses it judges names and kinds.

use std::fs::File;
use std::io::Write;

use super::Format;
use super::error::{ArchiveError, Reason};
use super::limits::UnpackLimits;
use super::source::Source;
use super::stream::Stream;
use super::tar_read::{Tar, TarEntry};
use super::unpack::find_format;

/// A tar, compressed or not; the content tells.
pub struct TarReader<'a>(Tar<'a>);

impl<'a> TarReader<'a> {
    pub fn open(file: &'a File, limits: &'a UnpackLimits) -> Result<Self, ArchiveError> {
        let source = Source::new(file, limits)?;
        match find_format(source)? {
            Format::Zip => Err(Reason::UnknownFormat.whole()),
            format => Ok(Self(Tar::new(Stream::new(source, format, limits)?, limits))),
        }
    }

    /// The next entry, counted against the limits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<TarEntry>, ArchiveError> {
        let Some(entry) = self.0.next_entry()? else { return Ok(None) };
        self.0.take(&String::from_utf8_lossy(&entry.name), entry.size)?;
        Ok(Some(entry))
    }

    /// Write out the content of the entry that `next` gave.
    pub fn copy(&mut self, name: &str, out: &mut impl Write) -> Result<(), ArchiveError> {
        self.0.copy(name, out)
    }

    /// After the last entry: is that all there is?
    pub fn end(self) -> Result<(), ArchiveError> {
        self.0.end()
    }
}
