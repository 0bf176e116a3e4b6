//! Seeing that a library changed, by polling: cheap facts about each skill, no content. It works where notification is
//! blind (NFS, s3fs), and costs two `stat` calls a skill.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::{MANIFEST_NAMES, left_out};

use super::history::Folder;
use super::name::{Domain, Reference};
use super::{Library, LibraryError, Listing, Unreadable, beneath};

/// A file that was written so short a time ago may be written again without another time on it: clocks of filesystems
/// are coarse, and those of servers are not ours.
const FRESH: Duration = Duration::from_secs(3);

/// How closely a skill is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Its folder and its manifest: enough for a catalogue and for search.
    Manifest,
    /// Every file of it.
    Everything,
}

/// Facts that change when a skill does: inodes, sizes and times; of a file just written, its content too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    facts: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// A library as it was when it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub depth: Depth,
    skills: BTreeMap<Domain, BTreeMap<String, (Reference, Fingerprint)>>,
}

/// What became of a library since then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<Reference>,
    pub changed: Vec<Reference>,
    pub removed: Vec<Reference>,
    /// What could not be looked at: not in the stamp.
    pub unreadable: Vec<Unreadable>,
    /// To be compared with the next time.
    pub stamp: Stamp,
}

impl Fingerprint {
    /// As it was shown.
    pub fn parse(text: &str) -> Option<Self> {
        let (facts, content) = match text.split_once(' ') {
            Some((facts, content)) => (facts, Some(content.to_owned())),
            None => (text, None),
        };
        (!facts.is_empty()).then(|| Self { facts: facts.to_owned(), content })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.facts)?;
        self.content.as_ref().map_or(Ok(()), |content| write!(formatter, " {content}"))
    }
}

impl Stamp {
    /// Before anything was looked at: everything is new.
    pub fn nothing(depth: Depth) -> Self {
        Self { depth, skills: BTreeMap::new() }
    }

    pub fn skills(&self) -> impl Iterator<Item = (&Reference, &Fingerprint)> {
        self.skills
            .values()
            .flat_map(BTreeMap::values)
            .map(|(reference, fingerprint)| (reference, fingerprint))
    }

    pub fn get(&self, reference: &Reference) -> Option<&Fingerprint> {
        Some(&self.skills.get(&reference.domain)?.get(reference.name.as_str())?.1)
    }

    /// For who keeps fingerprints elsewhere.
    pub fn from_skills(depth: Depth, skills: impl IntoIterator<Item = (Reference, Fingerprint)>) -> Self {
        let mut stamp = Self::nothing(depth);
        for (reference, fingerprint) in skills {
            stamp.insert(reference, fingerprint);
        }
        stamp
    }

    fn insert(&mut self, reference: Reference, fingerprint: Fingerprint) {
        let domain = self.skills.entry(reference.domain.clone()).or_default();
        domain.insert(reference.name.as_str().to_owned(), (reference, fingerprint));
    }
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Library {
    /// What changed since a stamp. Only skills with a change need to be read again.
    pub fn changes_since(&self, before: &Stamp) -> Result<Changes, LibraryError> {
        let stamp = Stamp::nothing(before.depth);
        let Listing { skills, unreadable, .. } = self.list()?;
        let mut changes =
            Changes { added: Vec::new(), changed: Vec::new(), removed: Vec::new(), unreadable, stamp };
        for skills in skills.chunk_by(|one, other| one.domain == other.domain) {
            let domain = &skills[0].domain;
            match self.domain(domain) {
                Ok(Some(open)) => self.compare(open.as_fd(), skills, before, &mut changes)?,
                Ok(None) => {}
                Err(error) => changes.unreadable.push(error.unreadable(domain)?),
            }
        }
        let gone =
            before.skills().map(|(reference, _)| reference).filter(|old| changes.stamp.get(old).is_none());
        changes.removed = gone.cloned().collect();
        Ok(changes)
    }

    /// The skills of one domain.
    fn compare(
        &self,
        domain: BorrowedFd<'_>,
        skills: &[Reference],
        before: &Stamp,
        changes: &mut Changes,
    ) -> Result<(), LibraryError> {
        for reference in skills {
            let previous = before.get(reference);
            let (now, changed) = match self.examine(domain, reference, before.depth, previous) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(error) => {
                    changes.unreadable.push(error.unreadable(reference)?);
                    continue;
                }
            };
            match previous {
                None => changes.added.push(reference.clone()),
                Some(_) if changed => changes.changed.push(reference.clone()),
                Some(_) => {}
            }
            changes.stamp.insert(reference.clone(), now);
        }
        Ok(())
    }

    /// Nothing if it was removed since it was listed.
    fn examine(
        &self,
        domain: BorrowedFd<'_>,
        reference: &Reference,
        depth: Depth,
        previous: Option<&Fingerprint>,
    ) -> Result<Option<(Fingerprint, bool)>, LibraryError> {
        let failed = |error| LibraryError::io("look at the skill", reference.to_string())(error);
        let name = reference.name.as_str();
        let mut facts = Facts::new();
        let Some(folder) = beneath::facts(domain, name).map_err(failed)? else { return Ok(None) };
        facts.directory("", &folder);
        match depth {
            Depth::Manifest => {
                for manifest in MANIFEST_NAMES {
                    if let Some(found) =
                        beneath::facts(domain, &format!("{name}/{manifest}")).map_err(failed)?
                    {
                        facts.file(manifest, &found);
                        break;
                    }
                }
            }
            Depth::Everything => {
                let walked = beneath::open_directory(domain, name)
                    .and_then(|open| self.walk(open.as_fd(), "", 0, &mut facts));
                match walked {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    other => other.map_err(failed)?,
                }
            }
        }
        let fresh = facts.fresh;
        let facts = facts.hasher.finalize().to_hex().to_string();
        let same_facts = previous.is_some_and(|previous| previous.facts == facts);
        let known = previous.and_then(|previous| previous.content.as_ref());
        let content = if fresh || (same_facts && known.is_some()) {
            Some(self.content(reference, depth)?)
        } else {
            None
        };
        let same = same_facts && known.is_none_or(|known| Some(known) == content.as_ref());
        Ok(Some((Fingerprint { facts, content: content.filter(|_| fresh) }, !same)))
    }

    fn content(&self, reference: &Reference, depth: Depth) -> Result<String, LibraryError> {
        Ok(match depth {
            Depth::Manifest => match self.manifest_bytes(reference) {
                Ok(bytes) => blake3::hash(&bytes).to_hex().to_string(),
                Err(error) => error.to_string(),
            },
            Depth::Everything => match self.folder(reference)? {
                Folder::Holds(digest) => digest.to_string(),
                Folder::Missing => String::new(),
                Folder::Unfit(why) => why,
            },
        })
    }

    fn walk(
        &self,
        directory: BorrowedFd<'_>,
        prefix: &str,
        depth: usize,
        facts: &mut Facts,
    ) -> io::Result<()> {
        for (name, kind) in beneath::entries(directory)? {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            facts.count += 1;
            // As much as a version may have; what is beyond can't be one anyway.
            if facts.count > self.limits().entries || depth > self.limits().depth {
                facts.hasher.update(b"more");
                return Ok(());
            }
            if left_out(&path, kind == FileType::Directory) {
                continue;
            }
            let Some(found) = beneath::facts(directory, &name)? else { continue };
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                facts.directory(&path, &found);
                let inner = beneath::open_directory(directory, &name)?;
                self.walk(inner.as_fd(), &path, depth + 1, facts)?;
            } else {
                facts.file(&path, &found);
            }
        }
        Ok(())
    }
}

struct Facts {
    hasher: blake3::Hasher,
    fresh: bool,
    fresh_after: i64,
    count: usize,
}

impl Facts {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let fresh_after = now.saturating_sub(FRESH).as_secs() as i64;
        Self { hasher: blake3::Hasher::new(), fresh: false, fresh_after, count: 0 }
    }

    fn file(&mut self, path: &str, facts: &Stat) {
        self.fresh |= facts.st_mtime >= self.fresh_after || facts.st_ctime >= self.fresh_after;
        self.add(path, facts, facts.st_size);
    }

    /// A directory's size says nothing.
    fn directory(&mut self, path: &str, facts: &Stat) {
        self.add(path, facts, 0);
    }

    fn add(&mut self, path: &str, facts: &Stat, size: i64) {
        self.hasher.update(path.as_bytes()).update(&[0]);
        let numbers = [
            facts.st_ino,
            u64::from(facts.st_mode),
            size as u64,
            facts.st_mtime as u64,
            facts.st_mtime_nsec,
            facts.st_ctime as u64,
            facts.st_ctime_nsec,
        ];
        for number in numbers {
            self.hasher.update(&number.to_le_bytes());
        }
    }
}
