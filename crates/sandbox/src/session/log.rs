//! The output of a kept process, on disk: both streams in the order in which they came, read again from any offset.
//!
//! A log is a directory of segments, each named after the offset of its first byte. Offsets count what the process wrote,
//! from its start, and never change. A segment goes when those after it hold what a log keeps, so the newest bytes up to
//! that bound are always there; or when there are too many, which only pieces of a few bytes each can bring about.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Which stream bytes came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// Before each piece: its stream and its length.
const HEADER: usize = 5;
/// What a log keeps is cut into this many segments.
const SEGMENTS: u64 = 8;
/// A log has this many at most, headers and all: it takes no more than twice the room of what it keeps.
const MOST_SEGMENTS: usize = 2 * SEGMENTS as usize;
/// What a log keeps where nobody says otherwise.
pub const LOG_BYTES: u64 = 64 << 20;
const SMALLEST_SEGMENT: u64 = 4 << 10;

fn segment_name(offset: u64) -> String {
    format!("{offset:020}")
}

/// The segments of a log, by the offset of their first byte.
fn segments(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let Some(offset) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.push((offset, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The keeper's end of a log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    directory: PathBuf,
    segment: File,
    /// What is surely kept, if the pieces are not tiny.
    kept: u64,
    /// What the segment may hold, and holds.
    most: u64,
    held: u64,
    offset: u64,
}

impl LogWriter {
    pub(crate) fn create(directory: PathBuf, limit: Option<u64>) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let segment = Self::open(&directory, 0)?;
        let kept = limit.unwrap_or(LOG_BYTES);
        let most = (kept / SEGMENTS).max(SMALLEST_SEGMENT);
        Ok(Self { directory, segment, kept, most, held: 0, offset: 0 })
    }

    fn open(directory: &Path, offset: u64) -> io::Result<File> {
        let path = directory.join(segment_name(offset));
        OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
    }

    /// How much the process has written.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn append(&mut self, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        if self.held + (HEADER + bytes.len()) as u64 > self.most && self.held > 0 {
            self.segment = Self::open(&self.directory, self.offset)?;
            self.held = 0;
            self.drop_oldest()?;
        }
        let mut piece = Vec::with_capacity(HEADER + bytes.len());
        piece.push(stream as u8);
        piece.extend((bytes.len() as u32).to_le_bytes());
        piece.extend(bytes);
        // In one write: a reader sees a whole piece, or none of it for a moment.
        self.segment.write_all(&piece)?;
        self.held += piece.len() as u64;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn drop_oldest(&self) -> io::Result<()> {
        let segments = segments(&self.directory)?;
        let too_many = segments.len().saturating_sub(MOST_SEGMENTS);
        for (index, pair) in segments.windows(2).enumerate() {
            let (path, next) = (&pair[0].1, pair[1].0);
            if index >= too_many && self.offset - next < self.kept {
                break;
            }
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// A reader of a log, which may still be written.
#[derive(Debug)]
pub struct LogReader {
    directory: PathBuf,
    /// The segment that is read, and the offset of what comes next in it.
    segment: Option<(u64, BufReader<File>)>,
    at: u64,
    wanted: u64,
    dropped: u64,
}

impl LogReader {
    /// From the byte at `offset` on.
    pub fn open(directory: &Path, offset: u64) -> io::Result<Self> {
        fs::metadata(directory)?;
        let directory = directory.to_path_buf();
        Ok(Self { directory, segment: None, at: 0, wanted: offset, dropped: 0 })
    }

    /// The offset of what comes next.
    pub fn offset(&self) -> u64 {
        self.wanted
    }

    /// How many of the bytes that were wanted are not kept any more.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The next piece that is there; `None`: no more of it yet.
    pub fn read_piece(&mut self) -> io::Result<Option<(LogStream, Vec<u8>)>> {
        loop {
            if self.segment.is_none() && !self.enter()? {
                return Ok(None);
            }
            let Some((stream, bytes)) = self.piece()? else {
                if self.leave()? {
                    continue;
                }
                return Ok(None);
            };
            let start = self.at;
            self.at += bytes.len() as u64;
            if self.at > self.wanted {
                let skip = self.wanted.saturating_sub(start) as usize;
                self.wanted = self.at;
                return Ok(Some((stream, bytes[skip..].to_vec())));
            }
        }
    }

    /// Open the segment that holds the wanted byte, or the oldest one after it.
    fn enter(&mut self) -> io::Result<bool> {
        let segments = segments(&self.directory)?;
        let holds = segments.iter().rev().find(|(offset, _)| *offset <= self.wanted).or(segments.first());
        let Some((offset, path)) = holds else { return Ok(false) };
        if *offset > self.wanted {
            self.dropped += *offset - self.wanted;
            self.wanted = *offset;
        }
        match File::open(path) {
            Ok(file) => {
                self.at = *offset;
                self.segment = Some((*offset, BufReader::new(file)));
                Ok(true)
            }
            // It went between the look and the opening.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.enter(),
            Err(error) => Err(error),
        }
    }

    /// At the end of a segment: is there a next one?
    fn leave(&mut self) -> io::Result<bool> {
        let Some((current, _)) = &self.segment else { return Ok(true) };
        let current = *current;
        let later = segments(&self.directory)?.into_iter().any(|(offset, _)| offset > current);
        if !later {
            return Ok(false);
        }
        // What was written to this one before the next was begun.
        if let Some(piece) = self.piece()? {
            let (_, file) = self.segment.as_mut().ok_or(io::ErrorKind::InvalidData)?;
            file.seek_relative(-((HEADER + piece.1.len()) as i64))?;
            return Ok(true);
        }
        self.wanted = self.wanted.max(self.at);
        self.segment = None;
        Ok(true)
    }

    /// The next whole piece of this segment.
    fn piece(&mut self) -> io::Result<Option<(LogStream, Vec<u8>)>> {
        let Some((_, file)) = &mut self.segment else { return Ok(None) };
        let mut header = [0; HEADER];
        let read = read_up_to(file, &mut header)?;
        if read < HEADER {
            file.seek_relative(-(read as i64))?;
            return Ok(None);
        }
        let stream = if header[0] == LogStream::Stdout as u8 { LogStream::Stdout } else { LogStream::Stderr };
        let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length as u64 > LONGEST_PIECE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the log is damaged"));
        }
        let mut bytes = vec![0; length];
        let read = read_up_to(file, &mut bytes)?;
        if read < length {
            file.seek_relative(-((HEADER + read) as i64))?;
            return Ok(None);
        }
        Ok(Some((stream, bytes)))
    }
}

/// No writer makes longer ones.
const LONGEST_PIECE: u64 = 1 << 20;

fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
