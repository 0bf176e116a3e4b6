//! One block of a tar that announces an entry. Numbers are octal digits and nothing else: base 256 and signs are for
//! sizes that no skill has.

use super::error::{ArchiveError, Reason};

pub(super) const BLOCK: usize = 512;

pub(super) struct Header {
    /// With the ustar prefix, if there is one.
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: u8,
    pub(super) mode: u64,
    pub(super) size: u64,
}

impl Header {
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Self, ArchiveError> {
        let name = text(&block[..100]);
        if !has_checksum(block) {
            return Err(Reason::BadChecksum.of_raw(name));
        }
        let name = match &block[257..265] {
            b"ustar\x0000" => match text(&block[345..500]) {
                b"" => name.to_vec(),
                prefix => [prefix, b"/", name].concat(),
            },
            // GNU keeps other things where the prefix would be; the oldest tar has nothing there at all.
            b"ustar  \0" | b"\0\0\0\0\0\0\0\0" => name.to_vec(),
            _ => return Err(Reason::BadHeader.of_raw(name)),
        };
        let number = |field: &[u8]| octal(field).ok_or_else(|| Reason::BadNumber.of_raw(&name));
        Ok(Self {
            mode: number(&block[100..108])?,
            size: number(&block[124..136])?,
            kind: block[156],
            link: text(&block[157..257]).to_vec(),
            name,
        })
    }
}

/// Is this the first block of a tar?
pub(super) fn is_tar(block: &[u8]) -> bool {
    <&[u8; BLOCK]>::try_from(block).is_ok_and(has_checksum)
}

/// The sum of all bytes, those of the sum itself taken as spaces.
pub(super) fn checksum(block: &[u8; BLOCK]) -> u64 {
    let bytes = block.iter().enumerate();
    bytes.map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) }).sum()
}

fn has_checksum(block: &[u8; BLOCK]) -> bool {
    octal(&block[148..156]).is_some_and(|sum| sum == checksum(block))
}

/// Up to the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or(field)
}

/// Spaces, octal digits, then spaces and NULs only.
fn octal(field: &[u8]) -> Option<u64> {
    let start = field.iter().position(|byte| *byte != b' ')?;
    let field = &field[start..];
    let digits = field.iter().take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    if digits == 0 || field[digits..].iter().any(|byte| !matches!(byte, b' ' | 0)) {
        return None;
    }
    // Twelve digits at most: no overflow.
    Some(field[..digits].iter().fold(0, |number, digit| number * 8 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::octal;

    #[test]
    fn numbers_are_octal_digits() {
        assert_eq!(octal(b"0000644\0"), Some(0o644));
        assert_eq!(octal(b"   644 \0"), Some(0o644));
        assert_eq!(octal(b"777777777777"), Some(0o777_777_777_777));
        for odd in [
            &b"\x80\0\0\0\0\0\0\x01"[..],
            b"\xff\xff\xff\xff",
            b"-0000644",
            b"00a",
            b"",
            b"    ",
            b"7\x007",
            b"8",
        ] {
            assert_eq!(octal(odd), None, "{odd:?}");
        }
    }
}
