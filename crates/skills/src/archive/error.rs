//! Why an archive is refused. Each reason has a stable code for programs and a sentence for people.

use std::fmt;
use std::io;

use crate::tree::TreeError;

macro_rules! reasons {
    ($($variant:ident $code:literal $text:literal)*) => {
        /// What is wrong with an archive.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason { $($variant),* }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Stable, for programs: `absolute-path`.
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $(Self::$variant => $text),* })
            }
        }
    };
}

reasons! {
    // Names.
    AbsolutePath "absolute-path" "an absolute path"
    ParentPath "parent-path" "a path with `..`"
    DriveLetter "drive-letter" "a path with a drive letter"
    NetworkPath "network-path" "a network path"
    Backslash "backslash" "a path with a backslash"
    ControlCharacter "control-character" "a name with a NUL or control character"
    NotUtf8 "not-utf8" "a name that is not UTF-8"
    EmptyName "empty-name" "an entry without a name"
    DotPart "dot-part" "a path with an empty part or a `.` in it"
    TrailingDotOrSpace "trailing-dot-or-space" "a name that ends in a dot or a space, which Windows drops"
    ReservedName "reserved-name" "a name that Windows reserves for a device"
    // Names together.
    DuplicateName "duplicate-name" "a name that occurs twice"
    NameCollision "name-collision" "a name that is another's where case or Unicode form does not count"
    FileAndDirectory "file-and-directory" "both a file and a directory"
    ThroughLink "through-link" "an entry that goes through a link of the archive"
    // Kinds.
    LinkOut "link-out" "a link that leads, or might lead, out of the skill"
    HardLink "hard-link" "a hard link (pack with `tar --hard-dereference`)"
    Device "device" "a device"
    Pipe "pipe" "a pipe"
    Socket "socket" "a socket"
    Setuid "setuid" "a setuid or setgid file"
    UnsupportedEntry "unsupported-entry" "an entry of an unknown kind"
    EntryWithData "entry-with-data" "a directory or link that carries data"
    // Amounts.
    ArchiveTooLarge "archive-too-large" "the archive is larger than the limit"
    TooManyBytes "too-many-bytes" "it unpacks to more bytes than the limit"
    FileTooLarge "file-too-large" "a file larger than the limit"
    TooManyEntries "too-many-entries" "more files and directories than the limit"
    TooDeep "too-deep" "more directories deep than the limit"
    PathTooLong "path-too-long" "a path or name longer than the limit"
    Ratio "ratio" "it unpacks to far more than it is: a bomb"
    // Structure of either format.
    UnknownFormat "unknown-format" "not a zip, tar, tar.gz or tar.zst"
    Polyglot "polyglot" "a zip that is a tar too"
    Empty "empty" "an archive with nothing in it"
    Truncated "truncated" "cut short"
    DataBefore "data-before" "data before the archive"
    TrailingData "trailing-data" "data after the archive"
    Concatenated "concatenated" "a second compressed stream after the first"
    BadCompression "bad-compression" "compressed data that is damaged, or needs too much memory"
    BadChecksum "bad-checksum" "a checksum that does not match"
    BadHeader "bad-header" "a malformed header"
    LyingSize "lying-size" "content of another size than declared"
    // Structure of a zip.
    HeaderMismatch "header-mismatch" "its two headers contradict each other"
    HiddenData "hidden-data" "data that belongs to no entry"
    Overlap "overlap" "entries that overlap"
    Zip64 "zip64" "zip64, which an archive of this size has no use for"
    Encrypted "encrypted" "an encrypted entry"
    CompressionMethod "compression-method" "a compression method other than stored and deflate"
    // Structure of a tar.
    BadNumber "bad-number" "a number that is not octal digits"
    NameOverride "name-override" "an extended header that renames what the plain header names"
    SizeOverride "size-override" "an extended header that contradicts the size"
    GlobalHeader "global-header" "a global extended header with more than a comment"
    Sparse "sparse" "a sparse file"
    // What makes it a skill.
    NoManifest "no-manifest" "no SKILL.md at the top or in the one top directory"
    SeveralManifests "several-manifests" "more than one SKILL.md that could be the skill's"
    TwoRoots "two-roots" "more than one directory or file at the top, and no SKILL.md among them"
}

/// What went wrong while packing or unpacking.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{}{reason}", Shown(.entry))]
    Refused { reason: Reason, entry: Option<String> },
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("the archive is not a regular file")]
    NotAFile,
    #[error("the directory to unpack into is not empty")]
    NotEmpty,
    #[error("{0}: changed meanwhile, try again")]
    Changed(String),
    #[error("{0}: the archive would lie in the directory that is packed, write it elsewhere")]
    OutputInside(String),
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl ArchiveError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { reason, .. } => reason.code(),
            Self::Io { .. } => "io",
            Self::NotAFile => "not-a-file",
            Self::NotEmpty => "not-empty",
            Self::Changed(_) => "changed",
            Self::OutputInside(_) => "output-inside",
            Self::Tree(TreeError::LinkOut { .. }) => Reason::LinkOut.code(),
            Self::Tree(_) => "tree",
        }
    }

    pub(super) fn io(path: &str, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), source: source.into() }
    }
}

impl Reason {
    /// Of the archive as a whole.
    pub(super) fn whole(self) -> ArchiveError {
        ArchiveError::Refused { reason: self, entry: None }
    }

    /// Of one entry of it.
    pub(super) fn of(self, entry: &str) -> ArchiveError {
        ArchiveError::Refused { reason: self, entry: Some(entry.to_owned()) }
    }

    /// Of an entry whose name is still raw.
    pub(super) fn of_raw(self, entry: &[u8]) -> ArchiveError {
        let shown = &entry[..entry.len().min(4 * SHOWN_CHARACTERS)];
        self.of(&String::from_utf8_lossy(shown))
    }
}

const SHOWN_CHARACTERS: usize = 200;

/// A name that the archive chose, fit for a terminal.
struct Shown<'a>(&'a Option<String>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(name) = self.0 else { return Ok(()) };
        for character in name.chars().take(SHOWN_CHARACTERS) {
            if character == '"' || character == '\'' {
                write!(formatter, "{character}")?;
            } else {
                write!(formatter, "{}", character.escape_debug())?;
            }
        }
        if name.chars().nth(SHOWN_CHARACTERS).is_some() {
            formatter.write_str("…")?;
        }
        formatter.write_str(": ")
    }
}
