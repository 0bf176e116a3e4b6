//! What a command writes, collected up to a bound.

use tokio::io::{AsyncRead, AsyncReadExt};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What is collected of each of stdout and stderr where nobody says how much.
pub(crate) const OUTPUT: usize = 1 << 20;
const CHUNK: usize = 64 << 10;

/// Read to the end; what goes beyond `most` is read and dropped. The command never waits for us to make room.
pub(crate) async fn collect(mut from: impl AsyncRead + Unpin, most: usize) -> (Vec<u8>, bool) {
    let (mut kept, mut truncated) = (Vec::new(), false);
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        let fits = read.min(most - kept.len());
        kept.extend_from_slice(&chunk[..fits]);
        truncated |= fits < read;
    }
    (kept, truncated)
}

/// The bytes as text, and as base64 where text would lose some.
pub(crate) fn text(bytes: Vec<u8>) -> (String, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let bytes = error.into_bytes();
            (String::from_utf8_lossy(&bytes).into_owned(), Some(STANDARD.encode(bytes)))
        }
    }
}

/// Bytes as they come, cut where no character is torn: what is left waits for the next ones.
#[derive(Debug, Default)]
pub(crate) struct Characters(Vec<u8>);

impl Characters {
    /// What can be told now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Ok(_) => self.0.len(),
            // An end that may still become a character.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.0.len(),
        };
        let rest = self.0.split_off(whole);
        std::mem::replace(&mut self.0, rest)
    }

    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_beyond_the_bound_is_dropped() {
        assert_eq!(collect(&b"hello"[..], 3).await, (b"hel".to_vec(), true));
        assert_eq!(collect(&b"hello"[..], 5).await, (b"hello".to_vec(), false));
    }

    #[test]
    fn no_character_is_torn() {
        let euro = "€".as_bytes();
        let mut characters = Characters::default();
        assert_eq!(characters.push(&euro[..2]), b"");
        assert_eq!(characters.push(&euro[2..]), euro);
        assert_eq!(characters.push(&[0xff, b'a']), [0xff, b'a']);
        assert_eq!(characters.push(&[b'b', 0xe2]), b"b");
        assert_eq!(characters.rest(), [0xe2]);
    }
}
