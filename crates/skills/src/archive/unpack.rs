//! Unpacking: the whole list of entries is read and judged first, then directories are made, then files, then links. So
//! nothing is written that is refused by its name, and no file can be written through a link.

use std::fs::File;
use std::os::fd::BorrowedFd;

use super::Format;
use super::error::{ArchiveError, Reason};
use super::limits::UnpackLimits;
use super::place::Place;
use super::plan::{Member, MemberKind, Plan, plan};
use super::source::Source;
use super::stream::{GZIP_MAGIC, Stream, ZSTD_MAGIC};
use super::tar_header::{BLOCK, is_tar};
use super::tar_read::Tar;
use super::zip_headers::{END_SIGNATURE, End, LOCAL_SIGNATURE};
use super::zip_read::Zip;

/// What was unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    pub format: Format,
    /// The directory that all was in; nothing for a flat archive.
    pub name: Option<String>,
    /// Files and links.
    pub files: usize,
    pub bytes: u64,
    /// Entries that are no part of a skill's version and were not written.
    pub left_out: Vec<String>,
}

/// Unpack an archive into an empty directory: the skill itself, without the directory that it was wrapped in. The format
/// is what the content says. On an error the directory is empty again.
///
/// Nothing is flushed to disk: who needs that syncs the directory it unpacked into.
pub fn unpack(archive: &File, into: BorrowedFd<'_>, limits: &UnpackLimits) -> Result<Unpacked, ArchiveError> {
    let source = Source::new(archive, limits)?;
    let format = find_format(source)?;
    let mut place = Place::new(into)?;
    let (plan, members) = match format {
        Format::Zip => unpack_zip(source, &mut place, limits)?,
        Format::Tar | Format::TarGz | Format::TarZst => unpack_tar(source, format, &mut place, limits)?,
    };
    let mut unpacked = Unpacked { format, name: plan.wrapper, files: 0, bytes: 0, left_out: plan.left_out };
    for (member, path) in members.iter().zip(&plan.places) {
        let Some(path) = path else { continue };
        unpacked.files += 1;
        match &member.kind {
            MemberKind::Link { to } => place.link(path, to)?,
            MemberKind::File { size, .. } => unpacked.bytes += size,
            MemberKind::Directory => {}
        }
    }
    place.keep();
    Ok(unpacked)
}

/// Which format a file has, by its first bytes.
pub(super) fn find_format(source: Source<'_>) -> Result<Format, ArchiveError> {
    let count = usize::try_from(source.size).unwrap_or(BLOCK).min(BLOCK);
    let head = source.bytes_at(0, count)?;
    if head.is_empty() {
        return Err(Reason::Empty.whole());
    }
    if head.starts_with(&LOCAL_SIGNATURE) || head.starts_with(&END_SIGNATURE) {
        return if is_tar(&head) { Err(Reason::Polyglot.whole()) } else { Ok(Format::Zip) };
    }
    if head.starts_with(&GZIP_MAGIC) {
        return Ok(Format::TarGz);
    }
    if head.starts_with(&ZSTD_MAGIC) {
        return Ok(Format::TarZst);
    }
    let is_end_of_tar = head.len() == BLOCK && head.iter().all(|byte| *byte == 0);
    if is_tar(&head) || is_end_of_tar {
        return Ok(Format::Tar);
    }
    // A program or an image with a zip behind it opens as a zip elsewhere.
    match End::find(source) {
        Ok(_) | Err(ArchiveError::Refused { reason: Reason::DataBefore, .. }) => {
            Err(Reason::DataBefore.whole())
        }
        Err(_) => Err(Reason::UnknownFormat.whole()),
    }
}

fn unpack_zip(
    source: Source<'_>,
    place: &mut Place<'_>,
    limits: &UnpackLimits,
) -> Result<(Plan, Vec<Member>), ArchiveError> {
    let zip = Zip::read(source, limits)?;
    let plan = plan(&zip.members, limits)?;
    make_directories(&plan, place)?;
    for (index, (member, path)) in zip.members.iter().zip(&plan.places).enumerate() {
        if let (MemberKind::File { executable, .. }, Some(path)) = (&member.kind, path) {
            let mut file = place.file(path, *executable)?;
            zip.copy(index, path, &mut file)?;
        }
    }
    Ok((plan, zip.members))
}

/// A tar has no directory: it is read once for the list, and again for the contents, which must still have that list.
fn unpack_tar(
    source: Source<'_>,
    format: Format,
    place: &mut Place<'_>,
    limits: &UnpackLimits,
) -> Result<(Plan, Vec<Member>), ArchiveError> {
    let open = || Stream::new(source, format, limits).map(|stream| Tar::new(stream, limits));
    let mut tar = open()?;
    let mut members = Vec::new();
    while let Some(member) = tar.next()? {
        members.push(member);
    }
    tar.end()?;
    let plan = plan(&members, limits)?;
    make_directories(&plan, place)?;
    let changed = || ArchiveError::Changed("the archive".to_owned());
    let mut tar = open()?;
    for (member, path) in members.iter().zip(&plan.places) {
        if tar.next()?.as_ref() != Some(member) {
            return Err(changed());
        }
        if let (MemberKind::File { executable, .. }, Some(path)) = (&member.kind, path) {
            let mut file = place.file(path, *executable)?;
            tar.copy(path, &mut file)?;
        }
    }
    if tar.next()?.is_some() {
        return Err(changed());
    }
    Ok((plan, members))
}

fn make_directories(plan: &Plan, place: &mut Place<'_>) -> Result<(), ArchiveError> {
    plan.directories.iter().try_for_each(|path| place.directory(path))
}
