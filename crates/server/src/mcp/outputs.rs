//! What commands wrote: collected as it comes, and kept whole for a while where an answer has only parts of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Of each stream: this much of its beginning, and of its end.
const HEAD: usize = 4 << 20;
const TAIL: usize = 4 << 20;
/// Of one connection.
const MOST_KEPT: usize = 16;
/// Where no quota says otherwise.
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

/// What is kept for all connections of one user together; the oldest goes first.
#[derive(Debug)]
pub(super) struct OutputStore {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    connections: u64,
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    connection: u64,
    number: u64,
    bytes: Vec<u8>,
}

impl Default for OutputStore {
    fn default() -> Self {
        Self::of(MOST_BYTES)
    }
}

impl OutputStore {
    pub(super) fn of(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The latest outputs of a connection that were cut.
#[derive(Debug, Default)]
pub(super) struct Outputs(OnceLock<Own>);

#[derive(Debug)]
struct Own {
    store: Arc<OutputStore>,
    connection: u64,
    next: Mutex<u64>,
}

impl Own {
    fn new(store: Arc<OutputStore>) -> Self {
        let connection = {
            let mut kept = store.lock();
            kept.connections += 1;
            kept.connections
        };
        Self { store, connection, next: Mutex::default() }
    }
}

impl Outputs {
    /// It is known whose they are.
    pub(super) fn belong_to(&self, store: impl FnOnce() -> Arc<OutputStore>) {
        self.0.get_or_init(|| Own::new(store()));
    }

    fn own(&self) -> &Own {
        self.0.get_or_init(|| Own::new(Arc::default()))
    }

    /// Keep it; its number.
    pub(super) fn keep(&self, bytes: Vec<u8>) -> u64 {
        let own = self.own();
        let number = {
            let mut next = own.next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        let connection = own.connection;
        let mut kept = own.store.lock();
        kept.entries.push_back(Entry { connection, number, bytes });
        while kept.entries.iter().filter(|one| one.connection == connection).count() > MOST_KEPT {
            let oldest = kept.entries.iter().position(|one| one.connection == connection);
            kept.entries.remove(oldest.expect("there are some"));
        }
        while kept.entries.len() > 1
            && kept.entries.iter().map(|one| one.bytes.len()).sum::<usize>() > own.store.most
        {
            kept.entries.pop_front();
        }
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<Vec<u8>> {
        let own = self.own();
        let is_it = |one: &&Entry| one.connection == own.connection && one.number == number;
        own.store.lock().entries.iter().find(is_it).map(|one| one.bytes.clone())
    }

    /// Number and size of each.
    pub(super) fn list(&self) -> Vec<(u64, usize)> {
        let own = self.own();
        let kept = own.store.lock();
        let ours = kept.entries.iter().filter(|one| one.connection == own.connection);
        ours.map(|one| (one.number, one.bytes.len())).collect()
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if let Some(own) = self.0.get() {
            own.store.lock().entries.retain(|one| one.connection != own.connection);
        }
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

    #[test]
    fn connections_of_a_user_share_what_is_kept() {
        let store = Arc::new(OutputStore::of(100));
        let of = |store: &Arc<OutputStore>| {
            let outputs = Outputs::default();
            outputs.belong_to(|| Arc::clone(store));
            outputs
        };
        let (one, other) = (of(&store), of(&store));
        assert_eq!((one.keep(vec![1; 60]), other.keep(vec![2; 30])), (1, 1));
        assert_eq!((one.get(1), other.get(1)), (Some(vec![1; 60]), Some(vec![2; 30])));
        // The oldest goes, whoever's connection it is.
        other.keep(vec![3; 50]);
        assert_eq!((one.get(1), other.list()), (None, vec![(1, 30), (2, 50)]));
        drop(other);
        assert!(store.lock().entries.is_empty());
        let nobody = Outputs::default();
        nobody.keep(vec![4; 500]);
        assert!(one.list().is_empty());
    }
}
