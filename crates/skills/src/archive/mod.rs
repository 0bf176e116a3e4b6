//! Archives of skills: `.skill` and `.zip`, `.tar`, `.tar.gz`, `.tar.zst`.
//!
//! Packing is deterministic. Unpacking believes nothing: both formats are read by parsers of our own that refuse what two
//! programs could read in two ways, which libraries made to open everything do not. Only the compression is theirs.

mod error;
mod limits;
mod name;
mod pack;
mod pax;
mod place;
mod plan;
mod source;
mod stream;
mod tar_header;
mod tar_read;
mod tar_reader;
mod tar_write;
mod unpack;
mod zip_headers;
mod zip_read;
mod zip_write;

use serde::Serialize;

pub use error::{ArchiveError, Reason};
pub use limits::UnpackLimits;
pub use pack::{Packed, pack, pack_file};
pub use tar_read::TarEntry;
pub use tar_reader::TarReader;
pub use unpack::{Unpacked, unpack};

/// The kinds of archive. A `.skill` is a zip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    Zip,
    Tar,
    TarGz,
    TarZst,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::Zip, Self::Tar, Self::TarGz, Self::TarZst];

    /// The format that a file's name asks for. Unpacking does not go by it.
    pub fn of_name(name: &str) -> Option<Self> {
        const ENDINGS: &[(&str, Format)] = &[
            (".skill", Format::Zip),
            (".zip", Format::Zip),
            (".tar", Format::Tar),
            (".tar.gz", Format::TarGz),
            (".tgz", Format::TarGz),
            (".tar.zst", Format::TarZst),
            (".tzst", Format::TarZst),
        ];
        let name = name.to_ascii_lowercase();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
    }
}
