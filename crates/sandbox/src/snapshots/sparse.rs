//! Writing a file without its zeros: a program can make a file of terabytes that takes no space, and its copy must not
//! take any either.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

const BLOCK: usize = 128 * 1024;

/// All of `content` into a new file, by position: another process may share the descriptor. Gives its size.
pub(crate) fn write_sparse(content: &mut dyn Read, file: &File) -> io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    loop {
        let count = read_full(content, &mut block)?;
        if count == 0 {
            file.set_len(at)?;
            return Ok(at);
        }
        if block[..count].iter().any(|&byte| byte != 0) {
            file.write_all_at(&block[..count], at)?;
        }
        at += count as u64;
    }
}

/// Less than a whole block only at the end.
fn read_full(content: &mut dyn Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match content.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn zeros_take_no_space_and_nothing_is_lost() {
        let mut content = vec![0; 5 * BLOCK + 7];
        content[2 * BLOCK + 1] = 1;
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(write_sparse(&mut &*content, file.as_file()).unwrap(), content.len() as u64);
        assert_eq!(std::fs::read(file.path()).unwrap(), content);
        assert!(file.as_file().metadata().unwrap().blocks() * 512 <= 2 * BLOCK as u64);
    }
}
