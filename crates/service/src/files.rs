//! Reading small files that may be anything: a bound on the size, and neither a FIFO nor a device is waited for.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Far above any policy that a person writes.
pub(crate) const MOST: u64 = 1 << 20;

/// Open a regular file to read, and nothing else.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        // Opening a FIFO would wait for its writer otherwise.
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// The text of a regular file of at most [`MOST`] bytes; `None` if there is none.
pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let facts = file.metadata()?;
    let mut bytes = Vec::with_capacity(facts.len().min(MOST) as usize + 1);
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_small_regular_text_is_read() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("good"), "x = 1").unwrap();
        fs::write(path("large"), vec![b'x'; MOST as usize + 1]).unwrap();
        fs::write(path("binary"), [0xff, 0xfe]).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read_if_there(&path("good")).unwrap().as_deref(), Some("x = 1"));
        assert_eq!(read_if_there(&path("none")).unwrap(), None);
        assert_eq!(read_if_there(&path("good/below")).unwrap(), None);
        for bad in ["large", "binary", "fifo", "."] {
            assert!(read_if_there(&path(bad)).is_err(), "{bad}");
        }
    }
}
