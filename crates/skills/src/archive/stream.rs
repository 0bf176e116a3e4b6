//! The bytes of a tar, decompressed as they are read, and counted: one stream, to its end, and nothing after it.

use std::io::{BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::Format;
use super::error::{ArchiveError, Reason};
use super::limits::UnpackLimits;
use super::source::{Range, Source, read_error};

/// A zstd frame may ask for a window of terabytes. This is what the reference decoder grants unasked: 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;

pub(super) const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
pub(super) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

pub(super) struct Stream<'a> {
    inner: Inner<'a>,
    limits: &'a UnpackLimits,
    archive_bytes: u64,
    read: u64,
}

enum Inner<'a> {
    Plain(BufReader<Range<'a>>),
    Gzip(Box<GzDecoder<BufReader<Range<'a>>>>),
    Zstd(Box<ZstdDecoder<'static, BufReader<Range<'a>>>>),
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        source: Source<'a>,
        format: Format,
        limits: &'a UnpackLimits,
    ) -> Result<Self, ArchiveError> {
        let file = BufReader::with_capacity(64 * 1024, source.range(0, source.size));
        let inner = match format {
            Format::TarGz => Inner::Gzip(Box::new(GzDecoder::new(file))),
            Format::TarZst => {
                let mut decoder = ZstdDecoder::with_buffer(file).map_err(read_error)?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(read_error)?;
                Inner::Zstd(Box::new(decoder))
            }
            Format::Tar | Format::Zip => Inner::Plain(file),
        };
        Ok(Self { inner, limits, archive_bytes: source.size, read: 0 })
    }

    /// As many bytes as are there, at most the buffer; nothing at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let count = match &mut self.inner {
            Inner::Plain(reader) => reader.read(buffer),
            Inner::Gzip(reader) => reader.read(buffer),
            Inner::Zstd(reader) => reader.read(buffer),
        }
        .map_err(read_error)?;
        self.read += count as u64;
        if self.read > self.limits.stream_bytes() {
            return Err(Reason::TooManyBytes.whole());
        }
        if !matches!(self.inner, Inner::Plain(_)) {
            self.limits.check_ratio(self.read, self.archive_bytes)?;
        }
        Ok(count)
    }

    /// All of the buffer, or cut short.
    pub(super) fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read(&mut buffer[done..])? {
                0 => return Err(Reason::Truncated.whole()),
                count => done += count,
            }
        }
        Ok(())
    }

    /// After the last byte of the tar: zeros to the end of the stream, then the end of the file.
    pub(super) fn end(mut self) -> Result<(), ArchiveError> {
        let mut buffer = [0; 8192];
        loop {
            match self.read(&mut buffer)? {
                0 => break,
                count if buffer[..count].iter().any(|byte| *byte != 0) => {
                    return Err(Reason::TrailingData.whole());
                }
                _ => {}
            }
        }
        let (mut file, magic) = match self.inner {
            Inner::Plain(_) => return Ok(()),
            Inner::Gzip(decoder) => (decoder.into_inner(), &GZIP_MAGIC[..]),
            Inner::Zstd(decoder) => (decoder.finish(), &ZSTD_MAGIC[..]),
        };
        let after = file.fill_buf().map_err(read_error)?;
        if after.is_empty() {
            Ok(())
        } else if after.starts_with(magic) {
            Err(Reason::Concatenated.whole())
        } else {
            Err(Reason::TrailingData.whole())
        }
    }
}
