//! What the folder of a skill is, compared with what was published.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::FileType;
use serde::Serialize;

use crate::{Digest, Tree, left_out};

use super::history::{Folder, History};
use super::name::Reference;
use super::{Library, LibraryError, Record, beneath};

/// Others change a library while it is read; this often is patience enough.
const TRIES: u32 = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "status")]
pub enum Status {
    /// The folder is what was published last.
    Published { digest: Digest },
    /// Somebody edited the folder: a new version that is not published.
    Edited { published: Digest, now: Digest },
    /// A folder that was made by hand.
    Unpublished { now: Digest },
}

impl Status {
    /// The version that the folder holds.
    pub fn digest(&self) -> &Digest {
        match self {
            Self::Published { digest } => digest,
            Self::Edited { now, .. } | Self::Unpublished { now } => now,
        }
    }

    pub fn is_published(&self) -> bool {
        matches!(self, Self::Published { .. })
    }
}

impl Library {
    /// What a skill's folder is. Reads every byte of it.
    pub fn status(&self, reference: &Reference) -> Result<Status, LibraryError> {
        let (history, folder) = self.consistent(reference)?;
        match folder {
            Folder::Missing => Err(LibraryError::NotFound(reference.to_string())),
            Folder::Unfit(source) => Err(LibraryError::Unfit { path: reference.to_string(), why: source }),
            Folder::Holds(now) => Ok(match history.published().and_then(|record| record.digest.clone()) {
                Some(digest) if digest == now => Status::Published { digest },
                Some(published) => Status::Edited { published, now },
                None => Status::Unpublished { now },
            }),
        }
    }

    /// What happened to a skill, oldest first; also to one that was removed.
    pub fn history(&self, reference: &Reference) -> Result<Vec<Record>, LibraryError> {
        let (history, folder) = self.consistent(reference)?;
        if history.records.is_empty() && folder == Folder::Missing {
            return Err(LibraryError::NotFound(reference.to_string()));
        }
        Ok(history.records)
    }

    /// Do something with a skill's folder that takes a while, on one state of it: done again if it was replaced.
    pub(super) fn with_folder<T>(
        &self,
        reference: &Reference,
        action: impl Fn(OwnedFd) -> Result<T, LibraryError>,
    ) -> Result<T, LibraryError> {
        for attempt in 0..=TRIES {
            let missing = || Err(LibraryError::NotFound(reference.to_string()));
            let Some(domain) = self.domain(&reference.domain)? else { return missing() };
            let folder = match beneath::open_directory(domain.as_fd(), reference.name.as_str()) {
                Ok(folder) => folder,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // A filesystem that can't exchange has it away for a moment.
                    if attempt < TRIES && self.is_between(reference) {
                        std::thread::sleep(Duration::from_millis(4));
                        continue;
                    }
                    return missing();
                }
                Err(error) => return Err(LibraryError::io("open the skill", reference.to_string())(error)),
            };
            let held =
                folder.try_clone().map_err(LibraryError::io("open the skill", reference.to_string()))?;
            let result = action(folder);
            let same = beneath::is_still(held.as_fd(), domain.as_fd(), reference.name.as_str())
                .map_err(LibraryError::io("open the skill", reference.to_string()))?;
            if same {
                return result;
            }
        }
        Err(LibraryError::Restless(reference.clone()))
    }

    /// History and folder as they were at one moment, with a change that was cut short judged.
    pub(super) fn consistent(&self, reference: &Reference) -> Result<(History, Folder), LibraryError> {
        for _ in 0..TRIES {
            let before = self.read_history(reference)?;
            let folder = self.folder(reference)?;
            if self.read_history(reference)? == before {
                return Ok((before.settled(&folder), folder));
            }
        }
        Err(LibraryError::Restless(reference.clone()))
    }

    /// Was what is said of this skill, where it came from too, written by this user?
    pub fn is_own_record(&self, reference: &Reference) -> Result<bool, LibraryError> {
        let writer = History::writer(self.histories.as_fd(), reference)
            .map_err(LibraryError::io("look at the history", reference.to_string()))?;
        Ok(writer == Some(rustix::process::geteuid().as_raw()))
    }

    pub(super) fn read_history(&self, reference: &Reference) -> Result<History, LibraryError> {
        History::read(self.histories.as_fd(), reference)
            .map(|history| history.unwrap_or_else(History::new))
            .map_err(LibraryError::io("read the history", reference.to_string()))
    }

    pub(super) fn folder(&self, reference: &Reference) -> Result<Folder, LibraryError> {
        let Some(domain) = self.domain(&reference.domain)? else { return Ok(Folder::Missing) };
        let facts = beneath::facts(domain.as_fd(), reference.name.as_str())
            .map_err(LibraryError::io("look at the skill", reference.to_string()))?;
        if facts.is_some_and(|facts| FileType::from_raw_mode(facts.st_mode) != FileType::Directory) {
            return Ok(Folder::Unfit("not a directory".into()));
        }
        let digest = self.with_folder(reference, |folder| {
            let read = || Tree::read_at(folder, self.limits(), left_out)?.digest();
            Ok(match read() {
                Ok(digest) => Folder::Holds(digest),
                Err(error) => Folder::Unfit(error.to_string()),
            })
        });
        match digest {
            Err(LibraryError::NotFound(_)) => Ok(Folder::Missing),
            other => other,
        }
    }

    fn is_between(&self, reference: &Reference) -> bool {
        self.read_history(reference).is_ok_and(|history| {
            history.published().is_some() && history.pending.is_some_and(|pending| pending.digest.is_some())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::library::{Add, Create, Edits, Replace, SkillOrigin};

    #[test]
    fn who_reads_a_folder_that_is_replaced_meanwhile_reads_again() {
        let directory = tempfile::tempdir().unwrap();
        let library = Library::open(&directory.path().join("library"), Create::Yes).unwrap();
        let reference = library_reference();
        let add = |text: &str| {
            let source = directory.path().join("source");
            std::fs::create_dir_all(&source).unwrap();
            std::fs::write(source.join("SKILL.md"), text).unwrap();
            let replace = Replace::Yes(Edits::Refuse);
            let add =
                Add { reference: reference.clone(), replace, expected: None, origin: SkillOrigin::Here };
            library.add(&source, &add).unwrap();
        };
        add("old");
        let rounds = Cell::new(0);
        let read = |last: bool| {
            rounds.set(0);
            library.with_folder(&reference, |folder| {
                rounds.set(rounds.get() + 1);
                if rounds.get() == 1 && last {
                    library.remove(&reference, Edits::Refuse)?;
                } else if rounds.get() == 1 {
                    add("new");
                }
                // What was open is being deleted: there is nothing left to read in it.
                beneath::read_file(folder.as_fd(), "SKILL.md", 10)
                    .map_err(LibraryError::io("read", "SKILL.md"))
            })
        };
        assert_eq!(read(false).unwrap(), b"new");
        assert_eq!(rounds.get(), 2);
        assert!(matches!(read(true), Err(LibraryError::NotFound(_))));
    }

    fn library_reference() -> Reference {
        Reference { domain: Default::default(), name: crate::library::SkillName::parse("pdf").unwrap() }
    }
}
