//! Whether two files hold the same.

use std::fs::File;
use std::io::{self, Read};

const CHUNK: usize = 64 << 10;

pub(super) fn is_same_content(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = fill(&mut one, &mut left)?;
        if fill(&mut other, &mut right)? != read || left[..read] != right[..read] {
            return Ok(false);
        }
        if read < CHUNK {
            return Ok(true);
        }
    }
}

fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
