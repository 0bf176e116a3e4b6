//! A file's content from one descriptor to another, by position: the other side may move a shared one.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::error::FileProblem;

const BLOCK_BYTES: usize = 128 << 10;

/// Copies what `from` holds, holes left out: its size when this begins and, once there, what it has grown by then, so
/// that a file that grows for ever is copied once. More than `limit` bytes are refused.
/// `told` hears how far it is, of what takes more than one block.
pub(super) fn copy_content(
    from: &File,
    to: &File,
    limit: u64,
    told: &mut dyn FnMut(u64),
) -> Result<u64, FileProblem> {
    let bounded = |size: u64| {
        if size > limit { Err(FileProblem::TooMuch { limit, unit: "bytes" }) } else { Ok(size) }
    };
    let first = copy_range(from, to, 0..bounded(size_of(from)?)?, told)?;
    let last = copy_range(from, to, first..bounded(size_of(from)?)?, told)?;
    // A hole at the end has been skipped.
    to.set_len(last)?;
    Ok(last)
}

fn size_of(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// How far it came: `end`, or less where the file became shorter.
fn copy_range(
    from: &File,
    to: &File,
    Range { start, end }: Range<u64>,
    told: &mut dyn FnMut(u64),
) -> Result<u64, FileProblem> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = start;
    while at < end {
        at = match next_data(from, at)? {
            Some(data) => data.max(at),
            None => return Ok(end.min(size_of(from)?).max(start)),
        };
        if at >= end {
            return Ok(end);
        }
        let room = usize::try_from(end - at).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        let read = match from.read_at(&mut block[..room], at) {
            Ok(0) => return Ok(at),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        to.write_all_at(&block[..read], at)?;
        at += read as u64;
        if at < end {
            told(at);
        }
    }
    Ok(at)
}

/// Where the next data begins at or after `at`; `None`: only a hole is left.
fn next_data(file: &File, at: u64) -> Result<Option<u64>, FileProblem> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        // A file system that knows no holes: all of it is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_hole_costs_no_space_and_the_length_is_kept() {
        let (mut from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all(b"begin").unwrap();
        from.set_len(1 << 30).unwrap();
        from.write_all_at(b"middle", 500 << 20).unwrap();
        assert_eq!(copy_content(&from, &to, u64::MAX, &mut |_| {}).unwrap(), 1 << 30);
        assert_eq!(to.metadata().unwrap().len(), 1 << 30);
        assert!(to.metadata().unwrap().blocks() * 512 < 10 << 20);
        let mut middle = [0; 6];
        to.read_exact_at(&mut middle, 500 << 20).unwrap();
        assert_eq!(&middle, b"middle");
    }

    #[test]
    fn more_than_the_limit_is_refused_before_anything_is_written() {
        let (mut from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all(b"four").unwrap();
        assert!(matches!(
            copy_content(&from, &to, 3, &mut |_| {}),
            Err(FileProblem::TooMuch { limit: 3, .. })
        ));
        assert_eq!(to.metadata().unwrap().len(), 0);
        assert_eq!(copy_content(&from, &to, 4, &mut |_| {}).unwrap(), 4);
    }
}
