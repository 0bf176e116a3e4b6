//! A library in the index: its keys are `domain/name`, its stamps are fingerprints.

use std::collections::BTreeMap;

use crate::library::{Depth, Fingerprint, Library, Reference, Stamp, Unreadable, Wanted};
use crate::load;

use super::find::Hit;
use super::index::{SearchError, SearchIndex};
use super::sync::{Step, Synced};
use super::text::SkillText;

/// What a library has for a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// Best first.
    pub hits: Vec<Hit>,
    /// What could not be looked at.
    pub unreadable: Vec<Unreadable>,
}

impl SearchIndex {
    /// Bring the index up to date with a library, and ask it.
    pub fn search_library(
        &mut self,
        library: &Library,
        text: &str,
        most: usize,
    ) -> Result<Searched, SearchError> {
        let mut synced = self.sync_library(library)?;
        let hits = match self.search(text, most) {
            Err(SearchError::Damaged) => {
                synced = self.sync_library(library)?;
                self.search(text, most)
            }
            other => other,
        }?;
        Ok(Searched { hits, unreadable: synced.unreadable })
    }

    /// Read what changed in a library since the last time, in this process or another.
    pub fn sync_library(&mut self, library: &Library) -> Result<Synced, SearchError> {
        match self.sync_library_now(library) {
            Err(error) if error.is_damage() => {
                self.make_anew()?;
                self.sync_library_now(library)
            }
            other => other,
        }
    }

    fn sync_library_now(&mut self, library: &Library) -> Result<Synced, SearchError> {
        let mut unknown = Vec::new();
        let mut known = Vec::new();
        for (key, stamp) in self.stamps()? {
            match (reference(&key), Fingerprint::parse(&stamp)) {
                (Some(reference), Some(fingerprint)) => known.push((reference, fingerprint)),
                _ => unknown.push(Step::Remove { key }),
            }
        }
        let before = Stamp::from_skills(Depth::Manifest, known);
        let changes = library.changes_since(&before)?;
        let mut steps = unknown;
        let references: BTreeMap<String, &Reference> = changes
            .added
            .iter()
            .chain(&changes.changed)
            .map(|reference| (reference.to_string(), reference))
            .collect();
        for (reference, fingerprint) in changes.stamp.skills() {
            let key = reference.to_string();
            if references.contains_key(&key) {
                steps.push(Step::Write { key, stamp: fingerprint.to_string() });
            } else if before.get(reference) != Some(fingerprint) {
                steps.push(Step::Restamp { key, stamp: fingerprint.to_string() });
            }
        }
        steps.extend(changes.removed.iter().map(|reference| Step::Remove { key: reference.to_string() }));
        let synced =
            self.carry_out(&steps, |key| references.get(key).and_then(|reference| text(library, reference)))?;
        Ok(Synced { unreadable: changes.unreadable, ..synced })
    }
}

fn reference(key: &str) -> Option<Reference> {
    let Wanted { domain, name } = Wanted::parse(key).ok()?;
    Some(Reference { domain: domain?, name })
}

/// Nothing for a folder without a manifest.
fn text(library: &Library, reference: &Reference) -> Option<SkillText> {
    let bytes = library.manifest_bytes(reference).ok()?;
    let folder = reference.name.as_str();
    let Ok(loaded) = load(&bytes, folder) else { return Some(SkillText::of_unreadable(folder, &bytes)) };
    let mut text = SkillText::of(&loaded.manifest);
    if text.name != folder {
        // Both are names that people know it by.
        text.tags.push(folder.to_owned());
    }
    Some(text)
}
