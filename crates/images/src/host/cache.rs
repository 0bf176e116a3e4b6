//! The loader's list of libraries, `/etc/ld.so.cache`: read to find what a program is linked with, and written for an image with
//! the libraries that are in it.

use std::cmp::Ordering;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// In the header: numbers are little-endian.
const LITTLE: u8 = 2;
const MOST: usize = 100_000;

/// A library by the name that programs ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) name: String,
    pub(super) path: String,
    /// For which kind of program.
    pub(super) flags: u32,
}

/// Those for any processor. What can't be read is no entry: the search goes on elsewhere.
pub(super) fn read_cache(bytes: &[u8]) -> Vec<Cached> {
    // An older list may come before it.
    let Some(start) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else {
        return Vec::new();
    };
    let bytes = &bytes[start..];
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let text = |at: u32| {
        let rest = bytes.get(at as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(std::str::from_utf8(&rest[..end]).ok()?.to_owned())
    };
    let count = word(20).unwrap_or(0) as usize;
    let entry = |index: usize| {
        let at = HEADER + index * ENTRY;
        // One for newer processors only has a number here.
        let plain = word(at + 16)? == 0 && word(at + 20)? == 0;
        let cached = Cached { flags: word(at)?, name: text(word(at + 4)?)?, path: text(word(at + 8)?)? };
        plain.then_some(cached)
    };
    (0..count.min(MOST)).filter_map(entry).filter(|cached| cached.path.starts_with('/')).collect()
}

pub(super) fn write_cache(mut libraries: Vec<Cached>) -> Vec<u8> {
    // The loader halves the list, from the highest name down.
    libraries.sort_by(|one, other| {
        compare(other.name.as_bytes(), one.name.as_bytes()).then_with(|| other.path.cmp(&one.path))
    });
    libraries.dedup();
    let mut strings = Vec::new();
    let mut entries = Vec::new();
    let base = HEADER + libraries.len() * ENTRY;
    let mut keep = |text: &str| {
        let at = (base + strings.len()) as u32;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        at
    };
    for library in &libraries {
        let (name, path) = (keep(&library.name), keep(&library.path));
        entries.extend([library.flags, name, path, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    }
    let mut out = MAGIC.to_vec();
    out.extend((libraries.len() as u32).to_le_bytes());
    out.extend((strings.len() as u32).to_le_bytes());
    out.extend([LITTLE, 0, 0, 0]);
    out.extend([0; 16]);
    out.extend(entries);
    out.extend(strings);
    out
}

/// As the loader compares: numbers in names by their value.
fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let (mut a, mut b) = (0, 0);
    loop {
        let digit = |text: &[u8], at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
        match (digit(one, a), digit(other, b)) {
            (true, true) => {
                let number = |text: &[u8], at: &mut usize| {
                    let mut value = 0_u64;
                    while digit(text, *at) {
                        value = value.saturating_mul(10).saturating_add(u64::from(text[*at] - b'0'));
                        *at += 1;
                    }
                    value
                };
                match number(one, &mut a).cmp(&number(other, &mut b)) {
                    Ordering::Equal => {}
                    unequal => return unequal,
                }
            }
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => match (one.get(a), other.get(b)) {
                (None, None) => return Ordering::Equal,
                (x, y) if x == y => {
                    a += 1;
                    b += 1;
                }
                (x, y) => return x.cmp(&y),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_the_loaders_order() {
        let cached =
            |name: &str| Cached { name: name.into(), path: format!("/usr/lib/{name}"), flags: 0x303 };
        let names = ["libb.so.9", "libb.so.10", "liba.so.1", "libz.so"];
        let written = write_cache(names.iter().map(|name| cached(name)).collect());
        let found: Vec<String> = read_cache(&written).into_iter().map(|cached| cached.name).collect();
        assert_eq!(found, ["libz.so", "libb.so.10", "libb.so.9", "liba.so.1"]);
        for cut in 0..written.len() {
            read_cache(&written[..cut]);
        }
    }

    #[test]
    fn the_hosts_own_list_is_read() {
        if let Ok(bytes) = std::fs::read("/etc/ld.so.cache") {
            let found = read_cache(&bytes);
            assert!(found.iter().any(|cached| cached.name.starts_with("libc.so")), "{} entries", found.len());
            let again = read_cache(&write_cache(found.clone()));
            assert_eq!(again.len(), found.len());
        }
    }
}
