//! Reading a tar so strictly that every program sees the same entries in it: plain headers, and extended ones only where
//! they say what a plain one can't.

use std::io::Write;

use super::error::{ArchiveError, Reason};
use super::limits::{Budget, UnpackLimits};
use super::name::safe_path;
use super::pax::{Extended, check_global, parse_extended};
use super::plan::{Member, MemberKind};
use super::stream::Stream;
use super::tar_header::{BLOCK, Header};

/// Of an extended header or a long name.
const EXTENDED_BYTES: u64 = 64 * 1024;
/// The longest name that a plain header holds.
const PLAIN_NAME_BYTES: usize = 100;

pub(super) struct Tar<'a> {
    stream: Stream<'a>,
    limits: &'a UnpackLimits,
    budget: Budget<'a>,
    /// What of the last member's content was not read yet, and the padding after it.
    content: u64,
    padding: u64,
}

impl<'a> Tar<'a> {
    pub(super) fn new(stream: Stream<'a>, limits: &'a UnpackLimits) -> Self {
        Self { stream, limits, budget: Budget::new(limits), content: 0, padding: 0 }
    }

    /// The next entry; nothing at the end of the archive, which is two blocks of zeros.
    pub(super) fn next(&mut self) -> Result<Option<Member>, ArchiveError> {
        match self.next_entry()? {
            Some(entry) => self.member(entry).map(Some),
            None => Ok(None),
        }
    }

    /// The same, its name and kind not judged yet.
    pub(super) fn next_entry(&mut self) -> Result<Option<TarEntry>, ArchiveError> {
        self.skip(self.content + self.padding)?;
        (self.content, self.padding) = (0, 0);
        let mut said = Said::default();
        loop {
            let Some(header) = self.header()? else {
                return if said.is_empty() { Ok(None) } else { Err(Reason::BadHeader.whole()) };
            };
            match header.kind {
                b'x' => said.extended(parse_extended(&self.extension(&header)?)?)?,
                b'g' => check_global(&self.extension(&header)?)?,
                b'L' => said.long_name(self.extension(&header)?)?,
                b'K' => said.long_link(self.extension(&header)?)?,
                _ => return entry(header, said).map(Some),
            }
        }
    }

    /// Write out the content of the member that `next` gave.
    pub(super) fn copy(&mut self, path: &str, out: &mut impl Write) -> Result<(), ArchiveError> {
        let mut buffer = [0; 32 * 1024];
        while self.content > 0 {
            let most = buffer.len().min(usize::try_from(self.content).unwrap_or(usize::MAX));
            let count = self.stream.read(&mut buffer[..most])?;
            if count == 0 {
                return Err(Reason::Truncated.whole());
            }
            out.write_all(&buffer[..count]).map_err(|error| ArchiveError::io(path, error))?;
            self.content -= count as u64;
        }
        Ok(())
    }

    /// After `next` gave nothing: is that all there is?
    pub(super) fn end(self) -> Result<(), ArchiveError> {
        self.stream.end()
    }

    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut block = [0; BLOCK];
        self.stream.read_exact(&mut block)?;
        if block.iter().any(|byte| *byte != 0) {
            return Header::parse(&block).map(Some);
        }
        self.stream.read_exact(&mut block)?;
        if block.iter().any(|byte| *byte != 0) { Err(Reason::TrailingData.whole()) } else { Ok(None) }
    }

    fn member(&mut self, header: TarEntry) -> Result<Member, ArchiveError> {
        let (name, link) = (header.name, header.link);
        let path = safe_path(&name, self.limits)?;
        let named_directory = name.ends_with(b"/") || path.is_empty();
        let kind = match header.kind {
            b'0' | 0 if named_directory && header.kind == 0 => MemberKind::Directory,
            b'0' | 0 if named_directory => return Err(Reason::FileAndDirectory.of(&path)),
            b'0' | 0 if header.mode & 0o6000 != 0 => return Err(Reason::Setuid.of(&path)),
            b'0' | 0 => MemberKind::File { size: header.size, executable: header.mode & 0o111 != 0 },
            b'5' => MemberKind::Directory,
            b'2' => MemberKind::Link { to: String::from_utf8(link).map_err(|_| Reason::NotUtf8.of(&path))? },
            b'1' => return Err(Reason::HardLink.of(&path)),
            b'3' | b'4' => return Err(Reason::Device.of(&path)),
            b'6' => return Err(Reason::Pipe.of(&path)),
            b'S' => return Err(Reason::Sparse.of(&path)),
            _ => return Err(Reason::UnsupportedEntry.of(&path)),
        };
        if header.size > 0 && !matches!(kind, MemberKind::File { .. }) {
            return Err(Reason::EntryWithData.of(&path));
        }
        self.take(&path, header.size)?;
        Ok(Member { path, kind })
    }

    /// The entry counts, and its content is what comes next.
    pub(super) fn take(&mut self, name: &str, size: u64) -> Result<(), ArchiveError> {
        self.budget.entry(name, size)?;
        self.content = size;
        self.padding = padding_after(size);
        Ok(())
    }

    /// The content of an extended header.
    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, ArchiveError> {
        if header.size > EXTENDED_BYTES {
            return Err(Reason::PathTooLong.of_raw(&header.name));
        }
        // Checked to be small just now.
        let mut bytes = vec![0; header.size as usize];
        self.stream.read_exact(&mut bytes)?;
        self.skip(padding_after(header.size))?;
        Ok(bytes)
    }

    fn skip(&mut self, mut count: u64) -> Result<(), ArchiveError> {
        let mut buffer = [0; 32 * 1024];
        while count > 0 {
            let most = buffer.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            self.stream.read_exact(&mut buffer[..most])?;
            count -= most as u64;
        }
        Ok(())
    }
}

/// One entry as its headers have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarEntry {
    pub name: Vec<u8>,
    pub link: Vec<u8>,
    /// The type flag.
    pub kind: u8,
    pub mode: u64,
    pub size: u64,
}

fn entry(header: Header, said: Said) -> Result<TarEntry, ArchiveError> {
    let name = override_name(said.path, &header.name)?;
    let link = override_name(said.link, &header.link)?;
    if said.size.is_some_and(|size| size != header.size) {
        return Err(Reason::SizeOverride.of_raw(&name));
    }
    Ok(TarEntry { name, link, kind: header.kind, mode: header.mode, size: header.size })
}

/// What extended headers have said of the entry to come, each thing once.
#[derive(Default)]
struct Said {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    has_extended: bool,
}

impl Said {
    fn is_empty(&self) -> bool {
        !self.has_extended && self.path.is_none() && self.link.is_none()
    }

    fn extended(&mut self, extended: Extended) -> Result<(), ArchiveError> {
        if std::mem::replace(&mut self.has_extended, true) {
            return Err(Reason::BadHeader.whole());
        }
        self.size = extended.size;
        once(&mut self.path, extended.path)?;
        once(&mut self.link, extended.link)
    }

    fn long_name(&mut self, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        once(&mut self.path, Some(without_end(bytes)))
    }

    fn long_link(&mut self, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        once(&mut self.link, Some(without_end(bytes)))
    }
}

fn once(place: &mut Option<Vec<u8>>, value: Option<Vec<u8>>) -> Result<(), ArchiveError> {
    match value {
        Some(value) if place.is_some() => Err(Reason::NameOverride.of_raw(&value)),
        Some(value) => {
            *place = Some(value);
            Ok(())
        }
        None => Ok(()),
    }
}

/// GNU ends a long name with one NUL. Any other NUL stays, and is refused with the name.
fn without_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

/// An extended name counts where the plain header can't hold it, or repeats it. Otherwise it is there to be seen by some
/// programs and not by others.
fn override_name(said: Option<Vec<u8>>, plain: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    match said {
        None => Ok(plain.to_vec()),
        Some(said) if said == plain || said.len() >= PLAIN_NAME_BYTES || !said.is_ascii() => Ok(said),
        Some(said) => Err(Reason::NameOverride.of_raw(&said)),
    }
}

fn padding_after(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}
