//! Ours and the reference agree on what is valid.

use std::collections::BTreeSet;

use ringfence_skills::{Problem, PromptEntry, load, prompt_block, properties, validate};

use serde_json::{Map, Value};

use crate::cases;
use crate::generator::{Random, manifest};
use crate::reference::{self, Verdict};

/// How many are made; `RINGFENCE_PARITY=100000:7` for more, with another seed.
const COUNT: usize = 2_500;
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
            if let Some(difference) = difference(directory, bytes, theirs) {
                disagreements += 1;
                eprintln!("directory {directory:?}, manifest {:?}", String::from_utf8_lossy(bytes));
                eprintln!("    ours: {difference}");
            }
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

#[test]
fn every_character_is_judged_alike() {
    let Some(python) = reference::python() else { return };
    let characters = reference::characters(&python);
    assert!(characters.len() > 280_000);
    let mut disagreements = Vec::new();
    for (code, theirs) in characters {
        let Some(name) = char::from_u32(code) else { continue };
        let manifest = format!("---\nname: \"\\U{code:08x}\"\ndescription: d\n---\n");
        let ours = validate(manifest.as_bytes(), &name.to_string());
        let ours: BTreeSet<_> = ours.iter().map(|problem| problem.code).collect();
        let theirs = theirs.iter().map(|message| match message {
            message if message.contains("non-empty") => "name-empty",
            message if message.contains("lowercase") => "name-not-lower-case",
            message if message.contains("start or end") => "name-hyphen-at-end",
            message if message.contains("consecutive") => "name-double-hyphen",
            message if message.contains("invalid characters") => "name-characters",
            message if message.contains("Directory name") => "name-not-directory",
            message if message.contains("exceeds") => "name-too-long",
            message => panic!("{message}"),
        });
        let theirs: BTreeSet<_> = theirs.collect();
        if ours != theirs {
            disagreements.push(format!("U+{code:04X}: {ours:?}, but theirs are {theirs:?}"));
        }
    }
    assert!(disagreements.is_empty(), "{disagreements:#?}");
}

/// What is valid loads, with the values that the reference reads; else what differs.
fn difference(directory: &str, bytes: &[u8], theirs: &Verdict) -> Option<String> {
    let shown = String::from_utf8_lossy(bytes);
    // Two things are done otherwise on purpose: NUL is refused, and a `---` in a line does not end the frontmatter.
    let text = shown.replace("\r\n", "\n").replace('\r', "\n");
    let end = text.get(3..).and_then(|rest| rest.find("---")).map_or(0, |at| at + 3);
    let ends_with_a_line = text[..end].ends_with('\n') && text[end + 3..].starts_with(['\n', ' ', '\t']);
    if bytes.contains(&0) || !ends_with_a_line {
        return None;
    }
    let manifest = match load(bytes, directory) {
        Ok(loaded) => loaded.manifest,
        Err(error) => return Some(format!("valid, but does not load: {error:?}")),
    };
    // Halves of a surrogate pair and merged keys have no counterpart; `=` is no text that Python could print.
    if ["\\ud", "<<", " ="].iter().any(|exotic| shown.contains(exotic)) {
        return None;
    }
    let mut expected = theirs.properties.clone()?;
    let ours = properties(&manifest);
    // Nested metadata stays JSON with us.
    if let (Some(theirs), Some(ours)) = (expected["metadata"].as_object_mut(), ours["metadata"].as_object()) {
        for (key, value) in ours.iter().filter(|(_, value)| !value.is_string()) {
            theirs.insert(key.clone(), value.clone());
        }
    }
    let (ours, expected) = (ours.as_object()?, expected.as_object_mut()?);
    expected.retain(|_, value| !value.is_null());
    if ours != expected {
        let differ = |key: &&String| ours.get(*key) != expected.get(*key);
        let keys: Vec<_> = ours.keys().chain(expected.keys()).filter(differ).collect();
        let values =
            |of: &Map<String, Value>| keys.iter().map(|key| of.get(*key).cloned()).collect::<Vec<_>>();
        return Some(format!("{keys:?}: {:?}, but theirs are {:?}", values(ours), values(expected)));
    }
    let prompt = theirs.prompt.as_deref()?;
    let location = prompt.split("<location>\n").nth(1)?.split("\n</location>").next()?;
    let block =
        prompt_block(&[PromptEntry { name: &manifest.name, description: &manifest.description, location }]);
    // The reference does not escape the location, and writes what is not shown.
    let unseen = |character: char| !character.is_alphanumeric() && !block.contains(character);
    let differs = location.contains(['&', '<', '>', '"', '\'']) || prompt.contains(unseen);
    (block != prompt && !differs).then(|| format!("{block}\nbut theirs is\n{prompt}"))
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
