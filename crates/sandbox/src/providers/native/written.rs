//! What a command wrote to an stderr that it inherits, where that is a file: some clients hand a command a file and read it
//! afterwards. Nothing is put in between, so the command's output stays as it is.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat};

use crate::request::Stream;

/// How much of it is read, from its end.
const MOST: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Written {
    /// How long the file was before.
    from: u64,
}

impl Written {
    /// From now on; `None` where it is no file.
    pub(super) fn since(stream: Stream) -> Option<Self> {
        let stat = (stream == Stream::Inherit).then(|| fstat(rustix::stdio::stderr()))?.ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
            .then_some(Self { from: u64::try_from(stat.st_size).ok()? })
    }

    /// What is there now and was not then. Where it can't be read, nothing.
    pub(super) fn read(self) -> Vec<u8> {
        let mut found = Vec::new();
        // The descriptor may be for writing only, and has its place from the client.
        let opened = OpenOptions::new().read(true).open("/proc/self/fd/2");
        if let Ok(mut file) = opened {
            let _ = self.read_from(&mut file, &mut found);
        }
        found
    }

    fn read_from(&self, file: &mut File, found: &mut Vec<u8>) -> std::io::Result<()> {
        let stat = fstat(file.as_fd())?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        file.seek(SeekFrom::Start(self.from.max(size.saturating_sub(MOST))))?;
        file.take(MOST).read_to_end(found).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_what_came_since_is_read() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        let written = Written { from: 6 };
        let read = |file: &mut File| {
            let mut found = Vec::new();
            written.read_from(file, &mut found).unwrap();
            found
        };
        assert_eq!(read(&mut file), b"");
        file.write_all(b"after").unwrap();
        assert_eq!(read(&mut file), b"after");
        file.write_all(&vec![b'x'; MOST as usize]).unwrap();
        assert_eq!(read(&mut file), vec![b'x'; MOST as usize]);
    }
}
