//! The records of a zip: what is in them, and which of it is refused.

use super::error::{ArchiveError, Reason};
use super::source::Source;

pub(super) const LOCAL_SIGNATURE: [u8; 4] = *b"PK\x03\x04";
pub(super) const CENTRAL_SIGNATURE: [u8; 4] = *b"PK\x01\x02";
pub(super) const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
const DESCRIPTOR_SIGNATURE: [u8; 4] = *b"PK\x07\x08";
const ZIP64_LOCATOR_SIGNATURE: [u8; 4] = *b"PK\x06\x07";

pub(super) const LOCAL_BYTES: usize = 30;
pub(super) const CENTRAL_BYTES: usize = 46;
pub(super) const END_BYTES: usize = 22;
const ZIP64_LOCATOR_BYTES: u64 = 20;

pub(super) const STORED: u16 = 0;
pub(super) const DEFLATED: u16 = 8;
pub(super) const FLAG_UTF8: u16 = 1 << 11;
const FLAG_DESCRIPTOR: u16 = 1 << 3;
const FLAG_PATCH: u16 = 1 << 5;
/// Encrypted, strongly encrypted, headers masked.
const FLAGS_ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;

const EXTRA_ZIP64: u16 = 0x0001;
const EXTRA_UNICODE_PATH: u16 = 0x7075;

/// The end record: where the central directory is.
pub(super) struct End {
    pub(super) position: u64,
    pub(super) directory_start: u64,
    pub(super) entries: u16,
}

impl End {
    pub(super) fn find(source: Source<'_>) -> Result<Self, ArchiveError> {
        let most =
            (END_BYTES + usize::from(u16::MAX)).min(usize::try_from(source.size).unwrap_or(usize::MAX));
        let tail_start = source.size - most as u64;
        let tail = source.bytes_at(tail_start, most)?;
        let mut refusal = Reason::Truncated;
        for at in (0..tail.len().saturating_sub(3)).rev().filter(|at| tail[*at..].starts_with(&END_SIGNATURE))
        {
            let record = &tail[at..];
            if record.len() < END_BYTES {
                continue;
            }
            let comment = &record[END_BYTES..];
            let declared = usize::from(u16_at(record, 20));
            if declared < comment.len() {
                refusal = Reason::TrailingData;
            }
            if declared != comment.len() {
                continue;
            }
            // Text such as a commit id is fine; anything else could be an archive of its own.
            if comment.iter().any(|byte| !matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')) {
                return Err(Reason::TrailingData.whole());
            }
            return Self::check(source, tail_start + at as u64, record);
        }
        Err(refusal.whole())
    }

    fn check(source: Source<'_>, position: u64, record: &[u8]) -> Result<Self, ArchiveError> {
        let refuse = |reason: Reason| Err(reason.whole());
        let (entries_here, entries) = (u16_at(record, 8), u16_at(record, 10));
        let (bytes, start) = (u32_at(record, 12), u32_at(record, 16));
        let locator = position.checked_sub(ZIP64_LOCATOR_BYTES);
        let has_locator = match locator {
            Some(at) => source.bytes_at(at, 4)? == ZIP64_LOCATOR_SIGNATURE,
            None => false,
        };
        if has_locator || entries == u16::MAX || bytes == u32::MAX || start == u32::MAX {
            return refuse(Reason::Zip64);
        }
        if u16_at(record, 4) != 0 || u16_at(record, 6) != 0 || entries_here != entries {
            return refuse(Reason::BadHeader);
        }
        let directory_start = u64::from(start);
        let directory_end = directory_start + u64::from(bytes);
        if directory_end > position {
            return refuse(Reason::Truncated);
        }
        if directory_end < position {
            // Moved as a whole: something was put before it.
            let moved = position - u64::from(bytes);
            let is_moved = bytes > 0 && source.bytes_at(moved, 4)? == CENTRAL_SIGNATURE;
            return refuse(if is_moved { Reason::DataBefore } else { Reason::HiddenData });
        }
        if entries == 0 {
            return refuse(if position == 0 { Reason::Empty } else { Reason::HiddenData });
        }
        Ok(Self { position, directory_start, entries })
    }
}

/// An entry of the central directory.
pub(super) struct Central {
    pub(super) name: Vec<u8>,
    flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) packed: u32,
    pub(super) size: u32,
    pub(super) attributes: u32,
    pub(super) local_start: u32,
    name_bytes: u16,
    extra_bytes: u16,
    comment_bytes: u16,
    disk: u16,
}

impl Central {
    pub(super) fn parse(fixed: &[u8; CENTRAL_BYTES]) -> Self {
        Self {
            name: Vec::new(),
            flags: u16_at(fixed, 8),
            method: u16_at(fixed, 10),
            crc: u32_at(fixed, 16),
            packed: u32_at(fixed, 20),
            size: u32_at(fixed, 24),
            name_bytes: u16_at(fixed, 28),
            extra_bytes: u16_at(fixed, 30),
            comment_bytes: u16_at(fixed, 32),
            disk: u16_at(fixed, 34),
            attributes: u32_at(fixed, 38),
            local_start: u32_at(fixed, 42),
        }
    }

    pub(super) fn variable_bytes(&self) -> usize {
        usize::from(self.name_bytes) + usize::from(self.extra_bytes) + usize::from(self.comment_bytes)
    }

    /// Name, extra fields and comment, and what can be said once they are known.
    pub(super) fn take_variable(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let (name, rest) = bytes.split_at(self.name_bytes.into());
        self.name = name.to_vec();
        let refuse = |reason: Reason| Err(reason.of_raw(name));
        if self.flags & FLAGS_ENCRYPTED != 0 {
            return refuse(Reason::Encrypted);
        }
        if !matches!(self.method, STORED | DEFLATED) || self.flags & FLAG_PATCH != 0 {
            return refuse(Reason::CompressionMethod);
        }
        if [self.packed, self.size, self.local_start].contains(&u32::MAX) || self.disk == u16::MAX {
            return refuse(Reason::Zip64);
        }
        if self.disk != 0 {
            return refuse(Reason::BadHeader);
        }
        if self.method == STORED && self.packed != self.size {
            return refuse(Reason::LyingSize);
        }
        check_extra(&rest[..self.extra_bytes.into()], name)
    }

    pub(super) fn has_descriptor(&self) -> bool {
        self.flags & FLAG_DESCRIPTOR != 0
    }

    /// Does the local header say the same? How long it is.
    pub(super) fn check_local(
        &self,
        fixed: &[u8; LOCAL_BYTES],
        mut take: impl FnMut(usize) -> Result<Vec<u8>, ArchiveError>,
    ) -> Result<usize, ArchiveError> {
        let mismatch = || Reason::HeaderMismatch.of_raw(&self.name);
        let (name_bytes, extra_bytes) = (usize::from(u16_at(fixed, 26)), usize::from(u16_at(fixed, 28)));
        let flags_that_matter = FLAGS_ENCRYPTED | FLAG_DESCRIPTOR | FLAG_PATCH | FLAG_UTF8;
        if (u16_at(fixed, 6) ^ self.flags) & flags_that_matter != 0 || u16_at(fixed, 8) != self.method {
            return Err(mismatch());
        }
        let said = [u32_at(fixed, 14), u32_at(fixed, 18), u32_at(fixed, 22)];
        let facts = [self.crc, self.packed, self.size];
        if said[1..].contains(&u32::MAX) {
            return Err(Reason::Zip64.of_raw(&self.name));
        }
        // With a descriptor they are not known yet when the header is written.
        let unknown = |said: u32| self.has_descriptor() && said == 0;
        if said.iter().zip(facts).any(|(said, fact)| *said != fact && !unknown(*said)) {
            return Err(mismatch());
        }
        if name_bytes != self.name.len() || take(name_bytes)? != self.name {
            return Err(mismatch());
        }
        check_extra(&take(extra_bytes)?, &self.name)?;
        Ok(LOCAL_BYTES + name_bytes + extra_bytes)
    }
}

/// Does a data descriptor of 12 bytes, or 16 with its signature, repeat the central entry?
pub(super) fn descriptor_matches(descriptor: &[u8], central: &Central) -> bool {
    let fields = match descriptor.len() {
        16 if descriptor.starts_with(&DESCRIPTOR_SIGNATURE) => &descriptor[4..],
        12 => descriptor,
        _ => return false,
    };
    [u32_at(fields, 0), u32_at(fields, 4), u32_at(fields, 8)] == [central.crc, central.packed, central.size]
}

/// Extra fields can replace sizes and the name: those that do are refused, others have no meaning here.
fn check_extra(mut extra: &[u8], name: &[u8]) -> Result<(), ArchiveError> {
    while extra.len() >= 4 {
        let (id, count) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let Some(field) = extra.get(4..4 + count) else { return Err(Reason::BadHeader.of_raw(name)) };
        match id {
            EXTRA_ZIP64 => return Err(Reason::Zip64.of_raw(name)),
            // Version and checksum come before the name.
            EXTRA_UNICODE_PATH if field.get(5..) != Some(name) => {
                return Err(Reason::HeaderMismatch.of_raw(name));
            }
            _ => {}
        }
        extra = &extra[4 + count..];
    }
    // Some writers align contents with up to three zeros.
    if extra.iter().any(|byte| *byte != 0) { Err(Reason::BadHeader.of_raw(name)) } else { Ok(()) }
}

/// The callers have checked the lengths; a short slice reads as zero rather than panics.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}
