//! Reading a zip so strictly that no two programs can see two archives in it.
//!
//! Invariant: every byte of the file belongs to exactly one thing. The local entries follow each other from the first
//! byte to the central directory, that is followed by its end record, and the file ends there; each local header says
//! what the central one says. So nothing can hide before, between, within or after the entries.

use std::io::{BufReader, Read, Write};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::error::{ArchiveError, Reason};
use super::limits::{Budget, UnpackLimits};
use super::name::safe_path;
use super::plan::{Member, MemberKind};
use super::source::{Range, Source, read_error};
use super::zip_headers::{
    CENTRAL_BYTES, CENTRAL_SIGNATURE, Central, DEFLATED, End, LOCAL_BYTES, LOCAL_SIGNATURE,
    descriptor_matches,
};

pub(super) struct Zip<'a> {
    source: Source<'a>,
    pub(super) members: Vec<Member>,
    contents: Vec<Content>,
}

/// Where the content of a member is, and what it must come to.
struct Content {
    start: u64,
    packed: u64,
    size: u64,
    crc: u32,
    deflated: bool,
}

impl<'a> Zip<'a> {
    pub(super) fn read(source: Source<'a>, limits: &UnpackLimits) -> Result<Self, ArchiveError> {
        let end = End::find(source)?;
        if end.entries as usize > limits.entries {
            return Err(Reason::TooManyEntries.whole());
        }
        let centrals = read_directory(source, &end, limits)?;
        let starts = check_locals(source, &centrals, end.directory_start)?;
        let mut zip = Self { source, members: Vec::new(), contents: Vec::new() };
        let mut budget = Budget::new(limits);
        for (central, start) in centrals.iter().zip(starts) {
            let path = safe_path(&central.name, limits)?;
            budget.entry(&path, central.size.into())?;
            zip.contents.push(Content {
                start,
                packed: central.packed.into(),
                size: central.size.into(),
                crc: central.crc,
                deflated: central.method == DEFLATED,
            });
            let kind = zip.kind(central, &path, limits)?;
            zip.members.push(Member { path, kind });
        }
        limits.check_ratio(budget.bytes(), source.size)?;
        Ok(zip)
    }

    /// Write out the content of a member: exactly what was declared, or an error.
    pub(super) fn copy(&self, index: usize, path: &str, out: &mut impl Write) -> Result<(), ArchiveError> {
        let content = &self.contents[index];
        let mut packed = BufReader::new(self.source.range(content.start, content.start + content.packed));
        if !content.deflated {
            return copy_exactly(&mut packed, content, path, out);
        }
        let mut inflated = DeflateDecoder::new(packed);
        copy_exactly(&mut inflated, content, path, out)?;
        // The deflate stream knows where it ends; what follows it would be hidden.
        if inflated.total_in() != content.packed { Err(Reason::LyingSize.of(path)) } else { Ok(()) }
    }

    fn kind(&self, central: &Central, path: &str, limits: &UnpackLimits) -> Result<MemberKind, ArchiveError> {
        let mode = central.attributes >> 16;
        let named_directory = central.name.ends_with(b"/");
        let is_directory = match mode & 0o170_000 {
            0 => named_directory,
            0o040_000 => true,
            0o100_000 => false,
            0o120_000 => {
                if named_directory {
                    return Err(Reason::FileAndDirectory.of(path));
                }
                return self.link(path, limits);
            }
            0o010_000 => return Err(Reason::Pipe.of(path)),
            0o020_000 | 0o060_000 => return Err(Reason::Device.of(path)),
            0o140_000 => return Err(Reason::Socket.of(path)),
            _ => return Err(Reason::UnsupportedEntry.of(path)),
        };
        if is_directory != named_directory {
            return Err(Reason::FileAndDirectory.of(path));
        }
        if is_directory {
            // Two bytes are nothing, deflated.
            let nothing =
                central.size == 0 && central.packed <= if central.method == DEFLATED { 2 } else { 0 };
            return if nothing { Ok(MemberKind::Directory) } else { Err(Reason::EntryWithData.of(path)) };
        }
        if mode & 0o6000 != 0 {
            return Err(Reason::Setuid.of(path));
        }
        Ok(MemberKind::File { size: central.size.into(), executable: mode & 0o111 != 0 })
    }

    /// The content of the last entry, as the target of a link.
    fn link(&self, path: &str, limits: &UnpackLimits) -> Result<MemberKind, ArchiveError> {
        let index = self.contents.len() - 1;
        if self.contents[index].size > limits.path_bytes as u64 {
            return Err(Reason::PathTooLong.of(path));
        }
        let mut target = Vec::new();
        self.copy(index, path, &mut target)?;
        let to = String::from_utf8(target).map_err(|_| Reason::NotUtf8.of(path))?;
        Ok(MemberKind::Link { to })
    }
}

fn copy_exactly(
    reader: &mut impl Read,
    content: &Content,
    path: &str,
    out: &mut impl Write,
) -> Result<(), ArchiveError> {
    let mut crc = Crc::new();
    let mut left = content.size;
    let mut buffer = [0; 32 * 1024];
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.raw_os_error().is_some() => {
                return Err(ArchiveError::io("the archive", error));
            }
            // The file is whole, that was seen before: what is cut short here is the stream against its declared size.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(Reason::LyingSize.of(path));
            }
            Err(_) => return Err(Reason::BadCompression.of(path)),
        };
        if count == 0 {
            break;
        }
        left = left.checked_sub(count as u64).ok_or_else(|| Reason::LyingSize.of(path))?;
        crc.update(&buffer[..count]);
        out.write_all(&buffer[..count]).map_err(|error| ArchiveError::io(path, error))?;
    }
    if left != 0 {
        return Err(Reason::LyingSize.of(path));
    }
    if crc.sum() != content.crc {
        return Err(Reason::BadChecksum.of(path));
    }
    Ok(())
}

fn read_directory(
    source: Source<'_>,
    end: &End,
    limits: &UnpackLimits,
) -> Result<Vec<Central>, ArchiveError> {
    let mut reader = BufReader::new(source.range(end.directory_start, end.position));
    let mut centrals = Vec::with_capacity(end.entries.into());
    let mut position = end.directory_start;
    for _ in 0..end.entries {
        let fixed: [u8; CENTRAL_BYTES] = take(&mut reader)?;
        if fixed[..4] != CENTRAL_SIGNATURE {
            return Err(Reason::BadHeader.whole());
        }
        let mut central = Central::parse(&fixed);
        let variable = take_some(&mut reader, central.variable_bytes())?;
        central.take_variable(&variable)?;
        // Before it is kept: 20,000 names of 64 KiB would be too much to hold.
        if central.name.len() > limits.path_bytes {
            return Err(Reason::PathTooLong.of_raw(&central.name));
        }
        position += (CENTRAL_BYTES + variable.len()) as u64;
        centrals.push(central);
    }
    // Entries beyond those that are counted.
    if position != end.position {
        return Err(Reason::HiddenData.whole());
    }
    Ok(centrals)
}

/// Walk through the local entries in the order of the file; where the content of each central entry begins.
fn check_locals(
    source: Source<'_>,
    centrals: &[Central],
    directory_start: u64,
) -> Result<Vec<u64>, ArchiveError> {
    let mut order: Vec<usize> = (0..centrals.len()).collect();
    order.sort_by_key(|index| centrals[*index].local_start);
    let mut starts = vec![0; centrals.len()];
    let mut expected = 0_u64;
    for (turn, index) in order.iter().enumerate() {
        let central = &centrals[*index];
        let refuse = |reason: Reason| reason.of_raw(&central.name);
        let local_start = u64::from(central.local_start);
        if local_start < expected {
            return Err(refuse(Reason::Overlap));
        }
        if local_start > expected {
            return Err(refuse(if turn == 0 { Reason::DataBefore } else { Reason::HiddenData }));
        }
        let mut reader = BufReader::with_capacity(1024, source.range(local_start, directory_start));
        let fixed: [u8; LOCAL_BYTES] = take(&mut reader).map_err(|error| match error {
            ArchiveError::Refused { .. } => refuse(Reason::Overlap),
            other => other,
        })?;
        if fixed[..4] != LOCAL_SIGNATURE {
            return Err(refuse(Reason::BadHeader));
        }
        let header_bytes = central.check_local(&fixed, |count| take_some(&mut reader, count))?;
        let start = local_start + header_bytes as u64;
        let content_end = start + u64::from(central.packed);
        starts[*index] = start;
        let next = order.get(turn + 1).map_or(directory_start, |next| centrals[*next].local_start.into());
        if content_end > next {
            return Err(refuse(Reason::Overlap));
        }
        expected = content_end;
        if central.has_descriptor() {
            let descriptor = match next - content_end {
                count @ (12 | 16) => source.bytes_at(content_end, count as usize)?,
                20 | 24 => return Err(refuse(Reason::Zip64)),
                _ => return Err(refuse(Reason::HiddenData)),
            };
            if !descriptor_matches(&descriptor, central) {
                return Err(refuse(Reason::HeaderMismatch));
            }
            expected = next;
        }
    }
    if expected != directory_start {
        return Err(Reason::HiddenData.whole());
    }
    Ok(starts)
}

fn take<const COUNT: usize>(reader: &mut BufReader<Range<'_>>) -> Result<[u8; COUNT], ArchiveError> {
    let mut bytes = [0; COUNT];
    reader.read_exact(&mut bytes).map_err(read_error)?;
    Ok(bytes)
}

fn take_some(reader: &mut BufReader<Range<'_>>, count: usize) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = vec![0; count];
    reader.read_exact(&mut bytes).map_err(read_error)?;
    Ok(bytes)
}
