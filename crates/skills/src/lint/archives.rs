//! Archives in a skill. Lint does not open them; it says that they are there, and whether they are locked.

use super::disguise::contains;
use super::file::{Sample, extension};
use super::report::Report;
use super::rules::{ARCHIVE, ENCRYPTED_ARCHIVE};

/// Zip files under another name, which applications open and people know.
const DOCUMENTS: [&str; 12] =
    ["docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "jar", "apk", "dotx", "xltx", "potx"];

pub(super) fn check(report: &mut Report, path: &str, sample: &Sample) {
    let Some((kind, locked)) = archive(sample) else { return };
    if locked {
        report.add(&ENCRYPTED_ARCHIVE, path, None, &format!("an encrypted {kind} archive"));
    } else if !DOCUMENTS.contains(&extension(path).to_ascii_lowercase().as_str()) {
        report.add(&ARCHIVE, path, None, &format!("a {kind} archive"));
    }
}

/// What it is, and whether it needs a password.
fn archive(sample: &Sample) -> Option<(&'static str, bool)> {
    let head = sample.head.as_slice();
    match head {
        [b'P', b'K', 3, 4, ..] => Some(("zip", zip_is_locked(head) || zip_is_locked(&sample.tail))),
        // The id of AES-256 as a coder; also seen where the list of names is encrypted.
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => {
            Some(("7z", contains(sample.end(), &[0x06, 0xf1, 0x07, 0x01])))
        }
        [b'R', b'a', b'r', b'!', 0x1a, 7, rest @ ..] => Some(("rar", rar_is_locked(rest))),
        [0x1f, 0x8b, ..] => Some(("gzip", false)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(("zstd", false)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(("xz", false)),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Some(("bzip2", false)),
        _ if head.get(257..262) == Some(b"ustar") => Some(("tar", false)),
        _ => None,
    }
}

/// Bit 0 of the flags in a header of a file, local or central.
fn zip_is_locked(bytes: &[u8]) -> bool {
    let headers = |mark: &'static [u8], version: usize| {
        memchr::memmem::find_iter(bytes, mark).any(move |at| {
            let field = |offset: usize| {
                Some(u16::from_le_bytes(bytes.get(at + offset..at + offset + 2)?.try_into().ok()?))
            };
            // The version that is needed and the method must make sense: the mark may stand in data by chance.
            let (Some(needed), Some(flags), Some(method)) =
                (field(version), field(version + 2), field(version + 4))
            else {
                return false;
            };
            needed & 0xff <= 63 && matches!(method, 0 | 8 | 9 | 12 | 14 | 93 | 95 | 98 | 99) && flags & 1 == 1
        })
    };
    headers(b"PK\x03\x04", 4) || headers(b"PK\x01\x02", 6)
}

/// Version 5: the first header is the one of encryption. Version 4: a flag of the main or of the first file's header.
fn rar_is_locked(rest: &[u8]) -> bool {
    match rest {
        // Checksum of 4 bytes, size of 1 to 3, type.
        [1, 0, _, _, _, _, size @ ..] => {
            let length = size.iter().take(3).position(|byte| byte & 0x80 == 0).map_or(3, |last| last + 1);
            size.get(length) == Some(&4)
        }
        [0, _, _, 0x73, low, _, more @ ..] => {
            // 7 bytes follow in the main header; then checksum, type and flags of the first file.
            low & 0x80 != 0 || matches!(more.get(8..13), Some([_, _, 0x74, flags, _]) if flags & 4 != 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zip(flags: u8) -> Vec<u8> {
        let mut bytes = b"PK\x03\x04\x14\x00".to_vec();
        bytes.extend([flags, 0, 8, 0]);
        bytes.resize(64, 7);
        bytes
    }

    #[test]
    fn a_locked_archive_is_told_from_an_open_one() {
        assert!(zip_is_locked(&zip(1)));
        assert!(!zip_is_locked(&zip(8)));
        assert!(!zip_is_locked(b"PK\x03\x04"));
        assert!(rar_is_locked(&[1, 0, 9, 9, 9, 9, 0x21, 4, 0]));
        assert!(!rar_is_locked(&[1, 0, 9, 9, 9, 9, 0x0b, 1, 0]));
        assert!(!rar_is_locked(&[1, 0]));
    }
}
