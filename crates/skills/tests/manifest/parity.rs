//! Ours and the reference agree on what is valid.

use std::collections::BTreeSet;

use ringfence_skills::{Problem, PromptEntry, load, prompt_block, properties, validate};

use crate::cases;
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
        if theirs.is_valid() {
            valid += 1;
            assert_same_values(directory, bytes, theirs);
        }
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

#[test]
fn the_table_is_right() {
    let Some(python) = reference::python() else { return };
    let cases = cases::all();
    let manifests: Vec<_> =
        cases.iter().map(|(manifest, _)| (cases::DIRECTORY.to_owned(), manifest.clone())).collect();
    for ((manifest, codes), verdict) in cases.iter().zip(reference::judge(&python, &manifests)) {
        assert_eq!(
            codes.is_empty(),
            verdict.is_valid(),
            "{:?}: {verdict:?}",
            String::from_utf8_lossy(manifest)
        );
    }
}

/// What is valid loads, with the values that the reference reads.
fn assert_same_values(directory: &str, bytes: &[u8], theirs: &Verdict) {
    let shown = String::from_utf8_lossy(bytes);
    // Two things are done otherwise on purpose: NUL is refused, and a `---` in a line does not end the frontmatter.
    let text = shown.replace("\r\n", "\n").replace('\r', "\n");
    let end = text.get(3..).and_then(|rest| rest.find("---")).map_or(0, |at| at + 3);
    let ends_with_a_line = text[..end].ends_with('\n') && text[end + 3..].starts_with(['\n', ' ', '\t']);
    if bytes.contains(&0) || !ends_with_a_line {
        return;
    }
    let loaded = load(bytes, directory).unwrap_or_else(|error| panic!("valid, but: {error:?}: {shown:?}"));
    let mut expected = theirs.properties.clone().unwrap_or_else(|| panic!("no properties: {shown:?}"));
    let ours = properties(&loaded.manifest);
    // Nested metadata is JSON with us; halves of a surrogate pair and merged keys have no counterpart.
    if let (Some(theirs), Some(ours)) = (expected["metadata"].as_object_mut(), ours["metadata"].as_object()) {
        for (key, value) in ours.iter().filter(|(_, value)| !value.is_string()) {
            theirs.insert(key.clone(), value.clone());
        }
    }
    if !["\\ud", "<<"].iter().any(|exotic| shown.contains(exotic)) {
        assert_eq!(ours, expected, "{shown:?}");
    }
    let prompt = theirs.prompt.as_deref().unwrap_or_default();
    let location = prompt.split("<location>\n").nth(1).and_then(|rest| rest.split("\n</location>").next());
    let (name, description) = (&loaded.manifest.name, &loaded.manifest.description);
    let entry = PromptEntry { name, description, location: location.unwrap_or_default() };
    if !shown.contains("\\ud") && !directory.contains(['&', '<', '>', '"', '\'']) {
        assert_eq!(prompt_block(&[entry]), prompt, "{shown:?}");
    }
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
