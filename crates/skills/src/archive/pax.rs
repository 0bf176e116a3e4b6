//! Extended headers of a tar (pax): records of `length key=value`. Those that make a file something else are refused.

use super::error::{ArchiveError, Reason};

/// What one extended header says of the next entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

pub(super) fn parse_extended(bytes: &[u8]) -> Result<Extended, ArchiveError> {
    let mut extended = Extended::default();
    for record in records(bytes) {
        let (key, value) = record?;
        match key {
            b"path" => set(&mut extended.path, value.to_vec())?,
            b"linkpath" => set(&mut extended.link, value.to_vec())?,
            b"size" => set(&mut extended.size, decimal(value).ok_or(Reason::BadNumber.whole())?)?,
            key if key.starts_with(b"GNU.sparse.") => return Err(Reason::Sparse.whole()),
            // Times, owners, attributes, comments: of no use here.
            _ => {}
        }
    }
    Ok(extended)
}

/// A global header holds for every entry after it: git puts the commit there as a comment, and that is all it may be.
pub(super) fn check_global(bytes: &[u8]) -> Result<(), ArchiveError> {
    for record in records(bytes) {
        if record?.0 != b"comment" {
            return Err(Reason::GlobalHeader.whole());
        }
    }
    Ok(())
}

fn set<Value>(place: &mut Option<Value>, value: Value) -> Result<(), ArchiveError> {
    if place.replace(value).is_some() { Err(Reason::BadHeader.whole()) } else { Ok(()) }
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), ArchiveError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((record, after)) = split_record(rest) else {
            rest = &[];
            return Some(Err(Reason::BadHeader.whole()));
        };
        rest = after;
        Some(Ok(record))
    })
}

type Record<'a> = (&'a [u8], &'a [u8]);

/// The first record and what follows it. The length counts itself and the newline.
fn split_record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let space = bytes.iter().take(8).position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(&bytes[..space])?).ok()?;
    if length > bytes.len() || length < space + 4 {
        return None;
    }
    let (record, after) = bytes.split_at(length);
    let record = record[space + 1..].strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some(((&record[..equals], &record[equals + 1..]), after))
}

fn decimal(bytes: &[u8]) -> Option<u64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    if digits { std::str::from_utf8(bytes).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_to_the_byte() {
        let extended = parse_extended(b"12 path=abc\n10 size=7\n11 mtime=1\n").unwrap();
        assert_eq!(extended, Extended { path: Some(b"abc".to_vec()), link: None, size: Some(7) });
    }

    #[test]
    fn odd_records_are_refused() {
        for (bytes, code) in [
            (&b"12 path=abcd\n"[..], "bad-header"),
            (b"99 path=abc\n", "bad-header"),
            (b"99999999999999999999 path=abc\n", "bad-header"),
            (b"+12 path=abc\n", "bad-header"),
            (b" path=abc\n", "bad-header"),
            (b"5 ab\n", "bad-header"),
            (b"0 ", "bad-header"),
            (b"12 path=abc\n12 path=abc\n", "bad-header"),
            (b"11 size=-1\n", "bad-number"),
            (b"29 size=99999999999999999999\n", "bad-number"),
            (b"22 GNU.sparse.major=1\n", "sparse"),
        ] {
            assert_eq!(parse_extended(bytes).unwrap_err().code(), code, "{}", String::from_utf8_lossy(bytes));
        }
        assert!(check_global(b"16 comment=abcd\n").is_ok());
        assert_eq!(check_global(b"12 path=abc\n").unwrap_err().code(), "global-header");
    }
}
