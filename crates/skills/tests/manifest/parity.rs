//! Ours and the reference agree on what is valid.

use std::collections::BTreeSet;

use ringfence_skills::{Problem, validate};

use crate::generator::{Random, manifest};
use crate::reference::{self, Verdict};

/// How many are made; `RINGFENCE_PARITY=100000:7` for more, with another seed.
const COUNT: usize = 3_000;
const SEED: u64 = 4;

#[test]
fn every_verdict_is_that_of_the_reference() {
    let Some(python) = reference::python() else { return };
    let wanted = std::env::var("RINGFENCE_PARITY").ok();
    let wanted = wanted.as_deref().and_then(|wanted| wanted.split_once(':'));
    let (count, seed) =
        wanted.map_or((COUNT, SEED), |(count, seed)| (count.parse().unwrap(), seed.parse().unwrap()));
    let mut random = Random::new(seed);
    let manifests: Vec<_> = (0..count).map(|_| manifest(&mut random)).collect();
    let verdicts = reference::judge(&python, &manifests);
    let mut valid = 0;
    let mut disagreements = 0;
    for ((directory, bytes), theirs) in manifests.iter().zip(&verdicts) {
        let ours = validate(bytes, directory);
        valid += usize::from(theirs.is_valid());
        if ours.is_empty() != theirs.is_valid() || fields_of_ours(&ours) != fields_of_theirs(theirs) {
            disagreements += 1;
            eprintln!("directory {directory:?}, manifest {:?}", String::from_utf8_lossy(bytes));
            eprintln!("    ours: {ours:?}\n    theirs: {:?}, crash: {:?}", theirs.errors, theirs.crash);
        }
    }
    eprintln!("{count} manifests, {valid} of them valid");
    assert_eq!(disagreements, 0, "of {count} manifests");
    assert!(
        valid > count / 5 && valid < count * 4 / 5,
        "{valid} of {count} are valid: too one-sided to show much"
    );
}

/// Which fields are at fault.
fn fields_of_ours(problems: &[Problem]) -> BTreeSet<&'static str> {
    let field = |problem: &Problem| match problem.code.split('-').next() {
        Some("unknown") => "unknown",
        Some("name") => "name",
        Some("description") => "description",
        Some("compatibility") => "compatibility",
        _ => "frontmatter",
    };
    problems.iter().map(field).collect()
}

fn fields_of_theirs(verdict: &Verdict) -> BTreeSet<&'static str> {
    let field = |message: &String| {
        let starts = |with: &[&str]| with.iter().any(|with| message.starts_with(with));
        if starts(&["Unexpected fields"]) {
            "unknown"
        } else if starts(&[
            "Field 'name'",
            "Missing required field in frontmatter: name",
            "Skill name",
            "Directory name",
        ]) {
            "name"
        } else if starts(&[
            "Field 'description'",
            "Missing required field in frontmatter: description",
            "Description",
        ]) {
            "description"
        } else if starts(&["Field 'compatibility'", "Compatibility"]) {
            "compatibility"
        } else {
            "frontmatter"
        }
    };
    verdict.errors.iter().map(field).chain(verdict.crash.as_ref().map(|_| "frontmatter")).collect()
}
