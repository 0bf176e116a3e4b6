//! What a session's files were when they were last read, so that an unchanged one is not read again. A hint, kept apart
//! from the manifests and dropped when anything about it is wrong.
//!
//! Invariant: one for each session. What a tree inside a sandbox says of its files is not to be believed, and must not
//! give it the content of another session's.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::error::{During, Result};
use super::hash::ObjectHash;
use super::tree::{EntryStat, EntryTime};

const MAGIC: &[u8; 16] = b"ringfence-stat-1";
const RECORD: usize = 80;

/// Everything that changes when a file's content does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: u64,
    inode: u64,
    size: u64,
    modified: EntryTime,
    changed: EntryTime,
}

impl From<&EntryStat> for Key {
    fn from(stat: &EntryStat) -> Self {
        let EntryStat { device, inode, size, modified, changed, .. } = *stat;
        Self { device, inode, size, modified, changed }
    }
}

#[derive(Debug, Default)]
pub(super) struct StatCache {
    known: HashMap<Key, ObjectHash>,
}

impl StatCache {
    pub(super) fn get(&self, stat: &EntryStat) -> Option<ObjectHash> {
        self.known.get(&stat.into()).copied()
    }

    /// Only a file that was last changed before `started`, the beginning of the save: one that is written again in the
    /// same tick of the clock keeps its times.
    pub(super) fn add(&mut self, stat: &EntryStat, hash: ObjectHash, started: EntryTime) {
        if is_settled(stat.modified, started) && is_settled(stat.changed, started) {
            self.known.insert(stat.into(), hash);
        }
    }

    /// Empty when there is none, or when it is not whole.
    pub(super) fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|bytes| decode(&bytes)).unwrap_or_default()
    }

    pub(super) fn write(&self, path: &Path, beside: &Path) -> Result<()> {
        fs::write(beside, self.encode()).at("write", beside)?;
        fs::rename(beside, path).at("write", path)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.reserve(self.known.len() * RECORD + 32);
        for (key, hash) in &self.known {
            for number in [key.device, key.inode, key.size] {
                bytes.extend(number.to_le_bytes());
            }
            for time in [key.modified, key.changed] {
                bytes.extend(time.seconds.to_le_bytes());
                bytes.extend(time.nanoseconds.to_le_bytes());
            }
            bytes.extend(hash.as_bytes());
        }
        let check = ObjectHash::of(&bytes);
        bytes.extend(check.as_bytes());
        bytes
    }
}

fn decode(bytes: &[u8]) -> Option<StatCache> {
    let (content, check) = bytes.split_last_chunk::<32>()?;
    if ObjectHash::of(content).as_bytes() != check {
        return None;
    }
    let (records, rest) = content.strip_prefix(MAGIC)?.as_chunks::<RECORD>();
    rest.is_empty().then(|| StatCache { known: records.iter().map(decode_record).collect() })
}

fn decode_record(record: &[u8; RECORD]) -> (Key, ObjectHash) {
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| record[at + index]));
    let time = |at: usize| EntryTime {
        seconds: number(at).cast_signed(),
        nanoseconds: u32::from_le_bytes(std::array::from_fn(|index| record[at + 8 + index])),
    };
    let key =
        Key { device: number(0), inode: number(8), size: number(16), modified: time(24), changed: time(36) };
    (key, ObjectHash::from_bytes(std::array::from_fn(|index| record[48 + index])))
}

/// Whether the clock that stamps files had moved on from `time` at `now`, by a tick of 10 ms and as much again. A time
/// without a fraction may be of a file system that counts in whole or every other seconds.
fn is_settled(time: EntryTime, now: EntryTime) -> bool {
    const TICKS: i128 = 20_000_000;
    const SECONDS: i128 = 2_000_000_000;
    let whole = |time: EntryTime| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let margin = if time.nanoseconds == 0 { SECONDS } else { TICKS };
    whole(time) + margin < whole(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshots::tree::EntryKind;

    const OLD: EntryTime = EntryTime { seconds: 1_000, nanoseconds: 5 };
    const NOW: EntryTime = EntryTime { seconds: 2_000, nanoseconds: 7 };

    fn stat(changed: EntryTime) -> EntryStat {
        EntryStat { kind: EntryKind::File, mode: 0o644, size: 4, modified: OLD, changed, device: 1, inode: 2 }
    }

    #[test]
    fn survives_and_is_dropped_when_any_byte_is_wrong() {
        let mut cache = StatCache::default();
        cache.add(&stat(OLD), ObjectHash::of(b"text"), NOW);
        let bytes = cache.encode();
        assert_eq!(decode(&bytes).unwrap().get(&stat(OLD)), Some(ObjectHash::of(b"text")));
        assert_eq!(decode(&bytes).unwrap().get(&EntryStat { inode: 3, ..stat(OLD) }), None);
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(decode(&wrong).is_none(), "byte {at}");
            assert!(decode(&bytes[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn a_file_that_was_just_written_is_not_remembered() {
        let at = |seconds, nanoseconds| EntryTime { seconds, nanoseconds };
        for (changed, remembered) in [
            (NOW, false),
            (at(1_999, 999_999_999), false),
            (at(1_999, 900_000_000), true),
            (at(1_999, 0), false),
            (at(1_997, 0), true),
            (at(2_001, 1), false),
        ] {
            let mut cache = StatCache::default();
            cache.add(&stat(changed), ObjectHash::of(b"text"), NOW);
            assert_eq!(cache.get(&stat(changed)).is_some(), remembered, "{changed:?}");
        }
    }
}
