//! What is in the library, what a reference means, and reading a skill's files.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::FileType;
use serde::Serialize;

use crate::{Loaded, MANIFEST_NAMES, Tree, Unloadable, left_out, load};

use super::name::{Domain, Reference, SkillName, Wanted};
use super::{Library, LibraryError, SkillOrigin, Unreadable, beneath};

/// More is not a library.
const MOST_SKILLS: usize = 250_000;
/// More is not a manifest.
const MOST_MANIFEST_BYTES: u64 = 1 << 20;

/// Something in the library that is no skill and no domain: ignored, and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stray {
    pub path: String,
    pub what: &'static str,
}

/// The skills of a library, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listing {
    pub skills: Vec<Reference>,
    pub strays: Vec<Stray>,
    /// Domains that could not be looked into.
    pub unreadable: Vec<Unreadable>,
}

impl Library {
    /// Every skill's folder. Reads directories only; what is in a folder is not looked at.
    pub fn list(&self) -> Result<Listing, LibraryError> {
        let mut listing = Listing::default();
        let domains = beneath::entries(self.root.as_fd())
            .map_err(LibraryError::io("list the library", self.path().display().to_string()))?;
        for (name, kind) in domains {
            // Ours, what filesystems and version control put at the top, and a team's README.
            if name.starts_with('.') || kind == FileType::RegularFile {
                continue;
            }
            match (Domain::parse(&name), stray(kind)) {
                (Ok(domain), None) => {
                    if let Err(error) = self.list_domain(&domain, &mut listing) {
                        listing.unreadable.push(error.unreadable(&domain)?);
                    }
                    if listing.skills.len() + listing.strays.len() > MOST_SKILLS {
                        let why = format!("more than {MOST_SKILLS} skills");
                        return Err(LibraryError::Unfit { path: self.path().display().to_string(), why });
                    }
                }
                (_, Some(what)) => listing.strays.push(Stray { path: name, what }),
                (Err(_), None) => {
                    listing.strays.push(Stray { path: name, what: "a directory that is no domain" })
                }
            }
        }
        listing.skills.sort();
        Ok(listing)
    }

    /// The skill that a person means: `name`, if only one domain has it, or `domain/name`.
    pub fn find(&self, wanted: &str) -> Result<Reference, LibraryError> {
        let parsed = Wanted::parse(wanted)?;
        if let Some(domain) = parsed.domain {
            let reference = Reference { domain, name: parsed.name };
            return if self.has(&reference)? {
                Ok(reference)
            } else {
                Err(LibraryError::NotFound(wanted.to_owned()))
            };
        }
        let mut candidates = Vec::new();
        let mut unreadable = Vec::new();
        let domains = beneath::entries(self.root.as_fd())
            .map_err(LibraryError::io("list the library", self.path().display().to_string()))?;
        for (name, kind) in domains {
            let Ok(domain) = Domain::parse(&name) else { continue };
            let reference = Reference { domain, name: parsed.name.clone() };
            if kind != FileType::Directory {
                continue;
            }
            match self.has(&reference) {
                Ok(true) => candidates.push(reference),
                Ok(false) => {}
                Err(error) => unreadable.push(error.unreadable(&reference)?),
            }
        }
        match candidates.len() {
            0 if unreadable.is_empty() => Err(LibraryError::NotFound(wanted.to_owned())),
            0 => Err(LibraryError::NotSeen { wanted: wanted.to_owned(), unreadable }),
            1 => Ok(candidates.remove(0)),
            _ => Err(LibraryError::Ambiguous { wanted: wanted.to_owned(), candidates }),
        }
    }

    /// The folder that people see.
    pub fn folder_path(&self, reference: &Reference) -> PathBuf {
        self.path().join(reference.path())
    }

    /// The folder as a tree, in one state of it.
    pub fn tree(&self, reference: &Reference) -> Result<Tree, LibraryError> {
        self.with_folder(reference, |folder| {
            Tree::read_at(folder, self.limits(), left_out).map_err(LibraryError::tree(reference.to_string()))
        })
    }

    /// A file of a skill. Links are followed as far as they stay in the skill.
    pub fn read(&self, reference: &Reference, path: &str, most: u64) -> Result<Vec<u8>, LibraryError> {
        self.with_folder(reference, |folder| {
            beneath::open_file_through_inner_links(folder.as_fd(), path)
                .and_then(|file| beneath::read_whole(file, most))
                .map_err(LibraryError::io("read", format!("{reference}/{path}")))
        })
    }

    /// The bytes of a skill's manifest.
    pub fn manifest_bytes(&self, reference: &Reference) -> Result<Vec<u8>, LibraryError> {
        self.with_folder(reference, |folder| {
            for name in MANIFEST_NAMES {
                match beneath::read_file(folder.as_fd(), name, MOST_MANIFEST_BYTES) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    other => return other.map_err(LibraryError::io("read", format!("{reference}/{name}"))),
                }
            }
            Err(LibraryError::NoManifest(reference.to_string()))
        })
    }

    /// What a skill's manifest says, as clients read it.
    pub fn manifest(&self, reference: &Reference) -> Result<Result<Loaded, Unloadable>, LibraryError> {
        Ok(load(&self.manifest_bytes(reference)?, reference.name.as_str()))
    }

    /// Where the published version came from.
    pub fn origin(&self, reference: &Reference) -> Result<Option<SkillOrigin>, LibraryError> {
        let (history, _) = self.consistent(reference)?;
        let published = history.published().and_then(|record| record.digest.clone());
        Ok(published.map(|digest| history.origin_of(&digest).cloned().unwrap_or(SkillOrigin::Here)))
    }

    fn has(&self, reference: &Reference) -> Result<bool, LibraryError> {
        match self.with_folder(reference, |_| Ok(())) {
            Ok(()) | Err(LibraryError::Restless(_)) => Ok(true),
            Err(LibraryError::NotFound(_)) => Ok(false),
            // A link or a file of that name is no skill.
            Err(LibraryError::Io { source, .. })
                if matches!(source.raw_os_error(), Some(LOOP | NOT_A_DIRECTORY)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn list_domain(&self, domain: &Domain, listing: &mut Listing) -> Result<(), LibraryError> {
        let entries = match self.domain(domain)? {
            Some(directory) => beneath::entries(directory.as_fd())
                .map_err(LibraryError::io("list the domain", domain.as_str()))?,
            None => return Ok(()),
        };
        for (name, kind) in entries {
            if kind == FileType::RegularFile {
                continue;
            }
            let path = format!("{domain}/{name}");
            match (SkillName::parse(&name), stray(kind)) {
                (Ok(parsed), None) if parsed.as_str() == name => {
                    listing.skills.push(Reference { domain: domain.clone(), name: parsed });
                }
                (_, Some(what)) => listing.strays.push(Stray { path, what }),
                (_, None) if name.starts_with('.') => {}
                (_, None) => {
                    listing.strays.push(Stray { path, what: "a directory whose name no skill can have" })
                }
            }
        }
        Ok(())
    }
}

const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();
const NOT_A_DIRECTORY: i32 = rustix::io::Errno::NOTDIR.raw_os_error();

fn stray(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::Directory => None,
        FileType::Symlink => Some("a link, which is not followed"),
        FileType::Unknown => Some("a name that is not UTF-8"),
        _ => Some("a device, a pipe or a socket"),
    }
}
