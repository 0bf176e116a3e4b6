//! pip: asked in its own Python, through the code that `pip install` uses to read its settings and its index.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::client::{Call, ClientError};
use super::configured::Configuration;
use super::found::Found;
use super::surroundings::Surroundings;

/// Run by pip's Python; prints an [`Answer`].
const SCRIPT: &str = include_str!("pip.py");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Answer {
    index_url: Option<String>,
    extra_index_url: Vec<String>,
    find_links: Vec<String>,
    trusted_host: Vec<String>,
    no_index: bool,
    cert: Option<String>,
    client_cert: Option<String>,
    proxy: Option<String>,
    configured: Vec<Setting>,
    /// Every file that could say something, whether it is there or not.
    files: Vec<PathBuf>,
    links: Vec<String>,
    /// Why the links are not all.
    problem: Option<String>,
}

/// One line of a configuration file.
#[derive(Debug, Deserialize)]
struct Setting {
    file: PathBuf,
    key: String,
}

pub(super) fn ask(surroundings: &Surroundings) -> Result<Found<'_>, ClientError> {
    read(surroundings, &answer(surroundings, &python(surroundings)?, "links")?)
}

/// The Python whose pip is asked.
pub(super) fn python(surroundings: &Surroundings) -> Result<PathBuf, ClientError> {
    let python = ["python3", "python"].into_iter().find_map(|name| surroundings.program(name));
    python.ok_or(ClientError::Missing("python3"))
}

/// The settings that are in force, whoever may see the files that they are in. No index is asked.
pub(super) fn configuration(
    surroundings: &Surroundings,
    python: &Path,
) -> Result<Configuration, ClientError> {
    let answer = answer(surroundings, python, "settings")?;
    let settings = settings(&answer).into_iter().map(|(key, value)| (key.to_owned(), value));
    Ok(Configuration { settings: settings.collect(), files: answer.files })
}

fn answer(surroundings: &Surroundings, python: &Path, what: &str) -> Result<Answer, ClientError> {
    // -I: neither the current directory nor the user's own modules come before pip's.
    let said = Call::new(surroundings, python).args(["-I", "-c", SCRIPT, what]).answer()?;
    let line = said.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
    serde_json::from_str(line).map_err(|error| ClientError::Answer {
        program: python.display().to_string(),
        why: error.to_string(),
    })
}

fn read<'a>(surroundings: &'a Surroundings, answer: &Answer) -> Result<Found<'a>, ClientError> {
    let mut found = Found::new(surroundings);
    let indexes = answer.index_url.iter().filter(|_| !answer.no_index).chain(&answer.extra_index_url);
    for url in indexes.chain(&answer.find_links) {
        found.grant(url)?;
    }
    for link in &answer.links {
        found.grant_linked(link);
    }
    if let Some(problem) = &answer.problem {
        found.note(format!(
            "the index could not be asked where its downloads are ({problem}); only its own host is granted"
        ));
    }
    for (key, value) in settings(answer) {
        if needs_variable(surroundings, answer, key) {
            found.set(format!("PIP_{}", key.replace('-', "_").to_uppercase()), &value);
        }
    }
    for path in answer.cert.iter().chain(&answer.find_links) {
        found.show(Path::new(path.strip_prefix("file://").unwrap_or(path)));
    }
    if answer.client_cert.is_some() {
        found.note("pip's client certificate holds a private key and stays outside");
    }
    if answer.proxy.as_deref().is_some_and(|proxy| !proxy.is_empty()) {
        found
            .note("pip's own proxy setting is not used; set HTTPS_PROXY for ringfence to go through a proxy");
        found.set("PIP_PROXY", "");
    }
    Ok(found)
}

/// The settings that pip inside must have to do the same, as it takes them from variables.
fn settings(answer: &Answer) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    settings.extend(answer.index_url.clone().map(|url| ("index-url", url)));
    for (key, list) in [
        ("extra-index-url", &answer.extra_index_url),
        ("find-links", &answer.find_links),
        ("trusted-host", &answer.trusted_host),
    ] {
        if !list.is_empty() {
            settings.push((key, list.join(" ")));
        }
    }
    if answer.no_index {
        settings.push(("no-index", "1".into()));
    }
    settings.extend(answer.cert.clone().map(|path| ("cert", path)));
    settings
}

/// Is the setting made where pip inside can't see it: in a variable, or in a file that is not shown? What a shown file
/// says is left to that file, credentials included: that it is shown is the policy's decision, not this flag's.
fn needs_variable(surroundings: &Surroundings, answer: &Answer, key: &str) -> bool {
    let variable = format!("PIP_{}", key.replace('-', "_").to_uppercase());
    let said = answer.configured.iter().filter(|setting| setting.key == key);
    surroundings.variable(&variable).is_some()
        || said.into_iter().any(|setting| !surroundings.is_shown(&setting.file))
}
