//! Writing a tar: plain POSIX headers with one time, no owners and two modes; extended headers for long names only.

use std::io::{self, Write};

use super::tar_header::{BLOCK, checksum};

/// The beginning of 1980: what a zip can say too, and no program thinks of as no time at all.
const TIME: u64 = 315_532_800;
const NAME_BYTES: usize = 100;

pub(super) struct TarWriter<Out: Write> {
    out: Out,
}

impl<Out: Write> TarWriter<Out> {
    pub(super) fn new(out: Out) -> Self {
        Self { out }
    }

    /// A header; exactly `size` bytes of content and `end_file` must follow.
    pub(super) fn start_file(&mut self, path: &str, size: u64, executable: bool) -> io::Result<()> {
        let mode = if executable { 0o755 } else { 0o644 };
        self.header(path, "", Fields { kind: b'0', mode, size })
    }

    pub(super) fn end_file(&mut self, size: u64) -> io::Result<()> {
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        self.out.write_all(&[0; BLOCK][..padding as usize])
    }

    pub(super) fn link(&mut self, path: &str, to: &str) -> io::Result<()> {
        self.header(path, to, Fields { kind: b'2', mode: 0o777, size: 0 })
    }

    /// Two blocks of zeros.
    pub(super) fn finish(mut self) -> io::Result<Out> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }

    fn header(&mut self, path: &str, link: &str, fields: Fields) -> io::Result<()> {
        let mut records = Vec::new();
        for (key, value) in [("path", path), ("linkpath", link)] {
            // At exactly 100 bytes there is no room for a NUL, which some programs want.
            if value.len() >= NAME_BYTES {
                records.extend_from_slice(record(key, value).as_bytes());
            }
        }
        if !records.is_empty() {
            let size = records.len() as u64;
            self.out.write_all(&block("extended", "", &Fields { kind: b'x', mode: 0o644, size }))?;
            self.out.write_all(&records)?;
            self.end_file(size)?;
        }
        self.out.write_all(&block(path, link, &fields))
    }
}

impl<Out: Write> Write for TarWriter<Out> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct Fields {
    kind: u8,
    mode: u64,
    size: u64,
}

fn block(path: &str, link: &str, fields: &Fields) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &path.as_bytes()[..path.len().min(NAME_BYTES)]);
    put(100, format!("{:07o}", fields.mode).as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{:011o}", fields.size).as_bytes());
    put(136, format!("{TIME:011o}").as_bytes());
    put(156, &[fields.kind]);
    put(157, &link.as_bytes()[..link.len().min(NAME_BYTES)]);
    put(257, b"ustar\x0000");
    let sum = format!("{:06o}\0 ", checksum(&block));
    block[148..156].copy_from_slice(sum.as_bytes());
    block
}

/// `length key=value`, where the length counts its own digits.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length += 1;
    }
    format!("{length} {key}={value}\n")
}

#[cfg(test)]
mod tests {
    use super::record;

    #[test]
    fn a_record_counts_its_own_length() {
        for count in 1..1100 {
            let record = record("path", &"a".repeat(count));
            assert!(record.starts_with(&format!("{} ", record.len())), "{count}");
        }
    }
}
