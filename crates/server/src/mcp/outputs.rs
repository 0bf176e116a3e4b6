//! What commands wrote: collected as it comes, and kept whole for a while where an answer has only parts of it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Of each stream: this much of its beginning, and of its end.
const HEAD: usize = 4 << 20;
const TAIL: usize = 4 << 20;
/// Of one connection.
const MOST_KEPT: usize = 16;
const MOST_BYTES: usize = 32 << 20;

/// One stream of a command.
#[derive(Debug, Default)]
pub(super) struct Collected {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Collected {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..fits]);
        self.tail.extend(&bytes[fits..]);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    pub(super) fn written(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.dropped
    }

    /// All of it, but for what was too much.
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        if self.dropped > 0 {
            bytes.extend_from_slice(format!("\n[... {} bytes were not kept ...]\n", self.dropped).as_bytes());
        }
        bytes.extend(self.tail);
        bytes
    }
}

/// The latest outputs that were cut.
#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    entries: VecDeque<(u64, Vec<u8>)>,
}

impl Outputs {
    /// Keep it; its number.
    pub(super) fn keep(&self, bytes: Vec<u8>) -> u64 {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.next += 1;
        let number = kept.next;
        kept.entries.push_back((number, bytes));
        while kept.entries.len() > MOST_KEPT
            || (kept.entries.len() > 1
                && kept.entries.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > MOST_BYTES)
        {
            kept.entries.pop_front();
        }
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<Vec<u8>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entries.iter().find(|(one, _)| *one == number).map(|(_, bytes)| bytes.clone())
    }

    /// Number and size of each.
    pub(super) fn list(&self) -> Vec<(u64, usize)> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entries.iter().map(|(number, bytes)| (*number, bytes.len())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept() {
        let mut collected = Collected::default();
        collected.push(b"begin");
        for _ in 0..5 {
            collected.push(&vec![b'x'; 2 << 20]);
        }
        collected.push(b"end");
        assert_eq!(collected.written(), (10 << 20) + 8);
        let bytes = collected.bytes();
        assert!(bytes.starts_with(b"begin") && bytes.ends_with(b"end"));
        assert!(bytes.len() < HEAD + TAIL + 64);
        assert!(bytes.windows(14).any(|window| window == b"were not kept "));
    }

    #[test]
    fn only_the_latest_are_kept() {
        let outputs = Outputs::default();
        for number in 1..=20 {
            assert_eq!(outputs.keep(vec![number as u8]), number);
        }
        assert_eq!(outputs.get(4), None);
        assert_eq!(outputs.get(20), Some(vec![20]));
        outputs.keep(vec![0; MOST_BYTES + 1]);
        assert_eq!(outputs.list(), [(21, MOST_BYTES + 1)]);
    }
}
