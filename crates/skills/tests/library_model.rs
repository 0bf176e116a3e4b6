//! Random operations on a library, against a model of it that is a map.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use ringfence_skills::{
    Add, Create, Digest, Domain, Edits, Library, LibraryError, Reference, Replace, SkillName, SkillOrigin,
    Status,
};

#[derive(Clone, Debug)]
enum Operation {
    Add { skill: usize, content: u8, replace: Option<Edits> },
    Edit { skill: usize, content: u8 },
    Publish { skill: usize },
    Rollback { skill: usize, entry: usize, edits: Edits },
    Remove { skill: usize, edits: Edits },
    Reopen,
    Clear,
}

/// What a skill should be: contents stand for versions.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    folder: Option<u8>,
    published: Option<u8>,
    /// Every version that was ever published, in order, with a removal as nothing.
    history: Vec<Option<u8>>,
}

impl Model {
    fn is_edited(&self) -> bool {
        self.folder.is_some() && self.folder != self.published
    }

    fn record(&mut self, content: Option<u8>) {
        self.published = content;
        self.history.push(content);
    }

    /// False if the change is refused. An edit that is the same as what comes is none.
    fn spare(&mut self, edits: Edits, by: Option<u8>) -> bool {
        if self.is_edited() && self.folder != by {
            match edits {
                Edits::Refuse => return false,
                Edits::Discard => {}
                Edits::Keep => self.record(self.folder),
            }
        }
        true
    }
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let skill = 0..3_usize;
    let content = 0..4_u8;
    let keep = || prop_oneof![Just(Edits::Refuse), Just(Edits::Keep), Just(Edits::Discard)];
    let one = prop_oneof![
        4 => (skill.clone(), content.clone(), proptest::option::of(keep()))
            .prop_map(|(skill, content, replace)| Operation::Add { skill, content, replace }),
        3 => (skill.clone(), content).prop_map(|(skill, content)| Operation::Edit { skill, content }),
        2 => skill.clone().prop_map(|skill| Operation::Publish { skill }),
        3 => (skill.clone(), 0..8_usize, keep())
            .prop_map(|(skill, entry, edits)| Operation::Rollback { skill, entry, edits }),
        2 => (skill, keep()).prop_map(|(skill, edits)| Operation::Remove { skill, edits }),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Clear),
    ];
    proptest::collection::vec(one, 1..25)
}

fn at(skill: usize) -> Reference {
    let (domain, name) = [("docs", "pdf"), ("docs", "Ünïcode_2"), ("work", "pdf")][skill];
    Reference { domain: Domain::parse(domain).unwrap(), name: SkillName::parse(name).unwrap() }
}

fn write(at: &Path, content: u8) {
    let _ = fs::remove_dir_all(at);
    fs::create_dir_all(at.join("scripts")).unwrap();
    fs::write(at.join("SKILL.md"), format!("{content}")).unwrap();
    for file in 0..content {
        fs::write(at.join(format!("scripts/{file}")), "x").unwrap();
    }
}

fn run(operations: &[Operation]) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("library");
    let mut library = Library::open(&root, Create::Yes).unwrap();
    let mut models: BTreeMap<usize, Model> = (0..3).map(|skill| (skill, Model::default())).collect();
    let digests: Vec<Digest> = (0..4)
        .map(|content| {
            let source = directory.path().join(format!("source-{content}"));
            write(&source, content);
            ringfence_skills::digest_of(&source, Default::default()).unwrap()
        })
        .collect();

    for operation in operations {
        match operation {
            Operation::Add { skill, content, replace } => {
                let model = models.get_mut(skill).unwrap();
                let add = Add {
                    reference: at(*skill),
                    replace: replace.map_or(Replace::No, Replace::Yes),
                    expected: None,
                    // Not `Here`, so that a version's origin is told from an edit's.
                    origin: SkillOrigin::Archive { path: "x".into() },
                };
                let result = library.add(&directory.path().join(format!("source-{content}")), &add);
                let same = model.folder == Some(*content) && model.published == Some(*content);
                if same {
                    result.unwrap();
                    // Recorded again only where it had no origin yet: that is told by the library alone.
                    let length = library.history(&at(*skill)).unwrap().len();
                    if length > model.history.len() {
                        model.record(Some(*content));
                    }
                } else if model.folder.is_some() && replace.is_none() {
                    assert!(matches!(result, Err(LibraryError::Exists(_))), "{result:?}");
                } else if !model.spare(replace.unwrap_or(Edits::Refuse), Some(*content)) {
                    assert!(matches!(result, Err(LibraryError::Edited(_))), "{result:?}");
                } else {
                    assert_eq!(result.unwrap().digest, digests[*content as usize]);
                    model.folder = Some(*content);
                    model.record(Some(*content));
                }
            }
            Operation::Edit { skill, content } => {
                write(&library.folder_path(&at(*skill)), *content);
                models.get_mut(skill).unwrap().folder = Some(*content);
            }
            Operation::Publish { skill } => {
                let model = models.get_mut(skill).unwrap();
                let result = library.publish(&at(*skill));
                match model.folder {
                    None => assert!(matches!(result, Err(LibraryError::NotFound(_))), "{result:?}"),
                    Some(content) => {
                        assert_eq!(result.unwrap(), digests[content as usize]);
                        if model.is_edited() {
                            model.record(Some(content));
                        }
                    }
                }
            }
            Operation::Rollback { skill, entry, edits } => {
                let model = models.get_mut(skill).unwrap();
                let target = model.history.get(*entry).copied().flatten();
                let digest = target.map_or("0".repeat(64), |content| digests[content as usize].to_string());
                let result = library.rollback(&at(*skill), &digest, *edits);
                if target.is_none() {
                    assert!(matches!(result, Err(LibraryError::NoVersion { .. })), "{result:?}");
                } else if model.spare(*edits, target) {
                    result.unwrap();
                    model.folder = target;
                    model.record(target);
                } else {
                    assert!(matches!(result, Err(LibraryError::Edited(_))), "{result:?}");
                }
            }
            Operation::Remove { skill, edits } => {
                let model = models.get_mut(skill).unwrap();
                let result = library.remove(&at(*skill), *edits);
                if model.folder.is_none() {
                    assert!(matches!(result, Err(LibraryError::NotFound(_))), "{result:?}");
                } else if model.spare(*edits, None) {
                    result.unwrap();
                    model.folder = None;
                    model.record(None);
                } else {
                    assert!(matches!(result, Err(LibraryError::Edited(_))), "{result:?}");
                }
            }
            Operation::Reopen => library = Library::open(&root, Create::No).unwrap(),
            Operation::Clear => assert_eq!(library.gc().unwrap(), Default::default()),
        }
        compare(&library, &models, &digests);
    }
    let verified = library.verify().unwrap();
    assert_eq!(verified.troubles, []);
    let edited = models.iter().filter(|(_, model)| model.is_edited()).map(|(skill, _)| at(*skill));
    assert_eq!(verified.edited, sorted(edited.collect()));
}

fn compare(library: &Library, models: &BTreeMap<usize, Model>, digests: &[Digest]) {
    let digest = |content: u8| digests[content as usize].clone();
    for (skill, model) in models {
        let expected = match (model.folder, model.published) {
            (None, _) => None,
            (Some(folder), Some(published)) if folder == published => {
                Some(Status::Published { digest: digest(folder) })
            }
            (Some(folder), Some(published)) => {
                Some(Status::Edited { published: digest(published), now: digest(folder) })
            }
            (Some(folder), None) => Some(Status::Unpublished { now: digest(folder) }),
        };
        assert_eq!(library.status(&at(*skill)).ok(), expected);
        let history: Vec<_> = library.history(&at(*skill)).unwrap_or_default();
        let history: Vec<_> = history.into_iter().map(|record| record.digest).collect();
        assert_eq!(history, model.history.iter().map(|entry| entry.map(digest)).collect::<Vec<_>>());
    }
    let there = models.iter().filter(|(_, model)| model.folder.is_some()).map(|(skill, _)| at(*skill));
    assert_eq!(library.list().unwrap().skills, sorted(there.collect()));
}

fn sorted(mut references: Vec<Reference>) -> Vec<Reference> {
    references.sort();
    references
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_library_is_a_map_with_a_memory(operations in operations()) {
        run(&operations);
    }
}
