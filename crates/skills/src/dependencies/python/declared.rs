//! What one place declares, and how a requirement gets into it.

use super::super::origin::{Origin, Remarks};
use super::requirement::{self, Parsed};
use super::version::VersionRange;
use super::{DeclaredIn, Requirement, RequirementSource};

/// More are not installed for one skill.
const MOST_REQUIREMENTS: usize = 1_000;

#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) source: DeclaredIn,
    pub(super) requires_python: Option<VersionRange>,
    pub(super) requirements: Vec<Requirement>,
    pub(super) constraints: Vec<Requirement>,
}

impl Declared {
    pub(super) fn new(source: DeclaredIn) -> Self {
        Self { source, requires_python: None, requirements: Vec::new(), constraints: Vec::new() }
    }
}

/// Take a requirement by its text, or say why not.
pub(super) fn add_requirement(
    list: &mut Vec<Requirement>,
    text: &str,
    from: RequirementSource,
    origin: Origin,
    remarks: &mut Remarks,
) {
    match requirement::parse(text) {
        Ok(parsed) => add(list, &parsed, Vec::new(), from, remarks),
        Err(why) => remarks.refuse(text, why, origin),
    }
}

/// Take one that was read.
pub(super) fn add(
    list: &mut Vec<Requirement>,
    parsed: &Parsed,
    hashes: Vec<String>,
    from: RequirementSource,
    remarks: &mut Remarks,
) {
    if list.len() == MOST_REQUIREMENTS {
        remarks.note(format!("only the first {MOST_REQUIREMENTS} requirements are taken"));
        return;
    }
    list.push(Requirement { name: parsed.name.clone(), text: parsed.text(), hashes, from });
}

/// In the order of their names, each line once; one that says only a name goes where another says more.
pub(super) fn sorted(mut list: Vec<Requirement>) -> Vec<Requirement> {
    list.sort_by(|one, other| {
        (&one.name, &one.text, &one.hashes).cmp(&(&other.name, &other.text, &other.hashes))
    });
    list.dedup_by(|one, other| one.text == other.text && one.hashes == other.hashes);
    let says_more = |one: &Requirement| one.text != one.name && !one.text.contains(';');
    let names: std::collections::HashSet<String> =
        list.iter().filter(|one| says_more(one)).map(|one| one.name.clone()).collect();
    list.retain(|one| one.text != one.name || !names.contains(&one.name));
    list
}
