//! The values of secrets, fetched before privileges are dropped and kept in this process only.
//!
//! Nothing here prints a value, and no error holds one, not even a part.

mod fetch;

use ringfence_policy::{SecretRule, SecretSource};
use secrecy::{ExposeSecret, SecretString};

use crate::setup::{SecretSetup, Setup, StartError};

/// A shorter value would be found, and masked, where it only looks like the secret.
const SHORTEST: usize = 8;
const LONGEST: usize = 64 << 10;

/// One secret that was fetched.
pub(crate) struct Secret {
    pub(crate) placeholder: String,
    pub(crate) value: SecretString,
    /// Index into `Network::secrets`, by which rules say where it may go.
    pub(crate) rule: usize,
    /// Look into request bodies, too.
    pub(crate) body: bool,
}

pub(crate) struct Secrets(Vec<Secret>);

impl Secrets {
    pub(crate) fn into_inner(self) -> Vec<Secret> {
        self.0
    }

    #[cfg(test)]
    pub(crate) fn of(list: Vec<Secret>) -> Self {
        Self(list)
    }
}

/// Fetch every value. For a process that leaves no core dump and can't be looked into: see `privileges::hide`.
pub(crate) fn load(setup: &Setup) -> Result<Secrets, StartError> {
    let fetched = setup.secrets.iter().map(|secret| {
        let rule = setup.network.secrets.get(secret.rule);
        load_one(secret, rule, setup).map_err(|problem| StartError {
            what: format!("fetch the secret `{}` from {}", secret.name, place(secret)),
            why: problem.why,
            fix: problem.fix,
        })
    });
    fetched.collect::<Result<_, _>>().map(Secrets)
}

fn load_one(secret: &SecretSetup, rule: Option<&SecretRule>, setup: &Setup) -> Result<Secret, Problem> {
    let rule = rule.ok_or_else(|| Problem::new("the policy has no rule for it", "report this as a bug"))?;
    let value = fetch::fetch(&secret.from, &setup.secret_store, &setup.written)?;
    check(value.expose_secret(), &secret.placeholder)?;
    Ok(Secret { placeholder: secret.placeholder.clone(), value, rule: secret.rule, body: rule.body })
}

/// Why a value can't be had or used.
#[derive(Debug)]
struct Problem {
    why: String,
    fix: String,
}

impl Problem {
    fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into() }
    }
}

/// A command may have the secret's parts on its line; the other sources are names.
fn place(secret: &SecretSetup) -> String {
    match &secret.from {
        SecretSource::Command(_) => "its command".to_owned(),
        source => format!("`{source}`"),
    }
}

/// Can this be sent in a header, and be told from other text in an answer?
fn check(value: &str, placeholder: &str) -> Result<(), Problem> {
    let problem = |why: &str, fix: &str| Err(Problem::new(why, fix));
    if value.is_empty() {
        return problem("it is empty", "set it before the run");
    }
    if value.len() < SHORTEST {
        return problem("it has fewer than 8 bytes, too few to find it in answers", "use a longer value");
    }
    if value.len() > LONGEST {
        return problem("it is larger than 64 KiB", "use a smaller value");
    }
    if value.chars().any(char::is_control) {
        return problem(
            "it has line breaks or control characters, which no header can carry",
            "give a value of one line",
        );
    }
    if placeholder.is_empty() || value.contains(placeholder) || placeholder.contains(value) {
        return problem(
            "it can't be told from its placeholder",
            "check that the source holds the value itself",
        );
    }
    Ok(())
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
