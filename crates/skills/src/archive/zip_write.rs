//! Writing a zip: one time, two modes, deflate at one level, no extra fields.

use std::io::{self, Seek, SeekFrom, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::error::{ArchiveError, Reason};
use super::zip_headers::{
    CENTRAL_SIGNATURE, DEFLATED, END_SIGNATURE, FLAG_UTF8, LOCAL_BYTES, LOCAL_SIGNATURE, STORED,
};

const LEVEL: Compression = Compression::new(6);
/// 2.0: directories and deflate.
const VERSION: u16 = 20;
const MADE_ON_UNIX: u16 = 3 << 8 | VERSION;
/// The first day that a zip can say: 1980-01-01.
const DATE: u16 = 1 << 5 | 1;

pub(super) struct ZipWriter<Out: Write + Seek> {
    out: Out,
    /// Where in the output the archive begins.
    start: u64,
    entries: Vec<Written>,
}

struct Written {
    path: String,
    method: u16,
    crc: u32,
    packed: u32,
    size: u32,
    mode: u32,
    local_start: u32,
}

impl<Out: Write + Seek> ZipWriter<Out> {
    pub(super) fn new(mut out: Out) -> io::Result<Self> {
        let start = out.stream_position()?;
        Ok(Self { out, start, entries: Vec::new() })
    }

    /// One file, whose content `write` gives.
    pub(super) fn file(
        &mut self,
        path: &str,
        executable: bool,
        write: impl FnOnce(&mut dyn Write) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mode = if executable { 0o100_755 } else { 0o100_644 };
        let failed = |error: io::Error| ArchiveError::io("the archive", error);
        let mut entry = self.begin(path, DEFLATED, mode)?;
        let (crc, bytes, packed) = {
            let out = DeflateEncoder::new(&mut self.out, LEVEL);
            let mut counted = Counted { out, crc: Crc::new(), bytes: 0 };
            write(&mut counted)?;
            counted.out.try_finish().map_err(failed)?;
            (counted.crc.sum(), counted.bytes, counted.out.total_out())
        };
        entry.crc = crc;
        entry.packed = small(packed, path)?;
        entry.size = small(bytes, path)?;
        self.end(entry)
    }

    pub(super) fn link(&mut self, path: &str, to: &str) -> Result<(), ArchiveError> {
        let mut entry = self.begin(path, STORED, 0o120_777)?;
        let mut crc = Crc::new();
        crc.update(to.as_bytes());
        entry.crc = crc.sum();
        entry.size = small(to.len() as u64, path)?;
        entry.packed = entry.size;
        self.out.write_all(to.as_bytes()).map_err(|error| ArchiveError::io("the archive", error))?;
        self.end(entry)
    }

    pub(super) fn finish(mut self) -> Result<Out, ArchiveError> {
        let failed = |error: io::Error| ArchiveError::io("the archive", error);
        let entries = u16::try_from(self.entries.len()).ok().filter(|count| *count < u16::MAX);
        let entries = entries.ok_or(Reason::TooManyEntries.whole())?;
        let directory_start = self.position()?;
        for entry in &self.entries {
            self.out.write_all(&entry.central()).map_err(failed)?;
        }
        let directory_bytes = self.position()? - directory_start;
        let mut end = END_SIGNATURE.to_vec();
        end.extend_from_slice(&[0; 4]);
        end.extend_from_slice(&entries.to_le_bytes());
        end.extend_from_slice(&entries.to_le_bytes());
        end.extend_from_slice(&directory_bytes.to_le_bytes());
        end.extend_from_slice(&directory_start.to_le_bytes());
        end.extend_from_slice(&[0; 2]);
        self.out.write_all(&end).map_err(failed)?;
        Ok(self.out)
    }

    fn position(&mut self) -> Result<u32, ArchiveError> {
        let position = self.out.stream_position().map_err(|error| ArchiveError::io("the archive", error))?;
        u32::try_from(position - self.start)
            .ok()
            .filter(|position| *position < u32::MAX)
            .ok_or(Reason::ArchiveTooLarge.whole())
    }

    fn begin(&mut self, path: &str, method: u16, mode: u32) -> Result<Written, ArchiveError> {
        let local_start = self.position()?;
        let entry = Written { path: path.to_owned(), method, crc: 0, packed: 0, size: 0, mode, local_start };
        self.out.write_all(&entry.local()).map_err(|error| ArchiveError::io("the archive", error))?;
        Ok(entry)
    }

    /// Sizes are known now: the local header is written again.
    fn end(&mut self, entry: Written) -> Result<(), ArchiveError> {
        let after = self.position()?;
        let seek = |out: &mut Out, to: u32| out.seek(SeekFrom::Start(self.start + u64::from(to))).map(drop);
        seek(&mut self.out, entry.local_start)
            .and_then(|()| self.out.write_all(&entry.local()))
            .and_then(|()| seek(&mut self.out, after))
            .map_err(|error| ArchiveError::io("the archive", error))?;
        self.entries.push(entry);
        Ok(())
    }
}

impl Written {
    fn local(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LOCAL_BYTES + self.path.len());
        bytes.extend_from_slice(&LOCAL_SIGNATURE);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.common());
        bytes.extend_from_slice(self.path.as_bytes());
        bytes
    }

    fn central(&self) -> Vec<u8> {
        let mut bytes = CENTRAL_SIGNATURE.to_vec();
        bytes.extend_from_slice(&MADE_ON_UNIX.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.common());
        // Comment, disk and internal attributes.
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&(self.mode << 16).to_le_bytes());
        bytes.extend_from_slice(&self.local_start.to_le_bytes());
        bytes.extend_from_slice(self.path.as_bytes());
        bytes
    }

    /// From the flags to the length of the extra fields: the same in both headers.
    fn common(&self) -> Vec<u8> {
        let flags = if self.path.is_ascii() { 0 } else { FLAG_UTF8 };
        // The plan has refused paths that are longer than this can say.
        let path_bytes = u16::try_from(self.path.len()).unwrap_or(u16::MAX);
        let mut bytes = Vec::with_capacity(24);
        for field in [flags, self.method, 0, DATE] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for field in [self.crc, self.packed, self.size] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&path_bytes.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes
    }
}

fn small(bytes: u64, path: &str) -> Result<u32, ArchiveError> {
    u32::try_from(bytes).ok().filter(|bytes| *bytes < u32::MAX).ok_or_else(|| Reason::FileTooLarge.of(path))
}

struct Counted<Out> {
    out: Out,
    crc: Crc,
    bytes: u64,
}

impl<Out: Write> Write for Counted<Out> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.crc.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
