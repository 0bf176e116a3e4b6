//! What a client is configured with, for a sandbox that sees none of its files: everything that says where packages come
//! from, so that none is asked of a registry that the user's own client would not ask. The client is asked once; the
//! answer is kept for as long as all that it was read from is the same.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_policy::{ProfileName, profile};
use serde::{Deserialize, Serialize};

use super::client::ClientError;
use super::surroundings::Surroundings;
use super::url::without_credentials;
use super::{npm, pip};
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;

const KEPT: &str = "registries.json";

/// Settings by their names, as the client's own file has them, without credentials.
pub(crate) type Settings = BTreeMap<String, String>;

/// A client that installs packages for a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Pip,
    Npm,
}

/// What a client says, and the files that it would read.
pub(super) struct Configuration {
    pub(super) settings: Settings,
    pub(super) files: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Known {
    /// A hash of all that the settings were read from.
    from: String,
    files: Vec<PathBuf>,
    settings: Settings,
}

/// The settings in force outside of any project: a project's own are a sandbox's to write.
pub(crate) fn configured(places: &Places, client: Client) -> Result<Settings, ServiceError> {
    let surroundings = Surroundings::of_process(places, &profile(ProfileName::Restrictive));
    let problem = |error: ClientError| client.problem(&error);
    client.check_belief(&surroundings).map_err(problem)?;
    let program = client.program(&surroundings).map_err(problem)?;
    let mut kept = read_kept(places);
    if let Some(known) = kept.remove(client.as_str())
        && client.fingerprint(&surroundings, &program, &known.files) == known.from
    {
        return Ok(known.settings);
    }
    let Configuration { settings, files } = client.ask(&surroundings, &program).map_err(problem)?;
    let settings = clean(settings).map_err(problem)?;
    let from = client.fingerprint(&surroundings, &program, &files);
    let _lock = places.state.lock("registries.lock")?;
    kept = read_kept(places);
    kept.insert(client.as_str().to_owned(), Known { from, files, settings: settings.clone() });
    if let Ok(text) = serde_json::to_vec(&kept) {
        places.state.replace(KEPT, &text)?;
    }
    Ok(settings)
}

impl Client {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
        }
    }

    fn program(self, surroundings: &Surroundings) -> Result<PathBuf, ClientError> {
        match self {
            Self::Pip => pip::python(surroundings),
            Self::Npm => surroundings.program("npm").ok_or(ClientError::Missing("npm")),
        }
    }

    fn ask(self, surroundings: &Surroundings, program: &Path) -> Result<Configuration, ClientError> {
        match self {
            Self::Pip => pip::configuration(surroundings, program),
            Self::Npm => npm::configuration(surroundings, program),
        }
    }

    /// How its variables begin, in lower case and with hyphens.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Pip => "pip-",
            Self::Npm => "npm-config-",
        }
    }

    /// Parts of the names of settings that say where packages come from.
    const fn sources(self) -> &'static [&'static str] {
        match self {
            Self::Pip => &["index-url", "find-links", "no-index"],
            Self::Npm => &["registry"],
        }
    }

    /// Parts of the names of variables that say which files to read.
    const fn locators(self) -> &'static [&'static str] {
        match self {
            Self::Pip => &["config-file"],
            Self::Npm => &["userconfig", "globalconfig", "prefix"],
        }
    }

    const fn user_files(self) -> &'static [&'static str] {
        match self {
            Self::Pip => &[".config/pip/pip.conf", ".pip/pip.conf"],
            Self::Npm => &[".npmrc"],
        }
    }

    /// What the client is not given because a sandbox may have written it must not say where packages come from: without
    /// it they would come from somewhere else.
    fn check_belief(self, surroundings: &Surroundings) -> Result<(), ClientError> {
        let names_one = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
        for name in surroundings.withheld() {
            let plain = normal(&name.to_string_lossy());
            let says = plain.starts_with(self.prefix())
                && (names_one(&plain, self.sources()) || names_one(&plain, self.locators()));
            if says {
                return Err(ClientError::NotBelieved { what: name.to_string_lossy().into_owned() });
            }
        }
        for file in self.user_files().iter().map(|name| surroundings.home.join(name)) {
            // One that can't be read says nothing to the client either.
            let text = read_if_there(&file).ok().flatten().unwrap_or_default();
            if surroundings.is_hostile(&file) && names_one(&normal(&text), self.sources()) {
                return Err(ClientError::NotBelieved { what: file.display().to_string() });
            }
        }
        Ok(())
    }

    /// Of everything that the answer depends on.
    fn fingerprint(self, surroundings: &Surroundings, program: &Path, files: &[PathBuf]) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(program.as_os_str().as_bytes());
        let facts = program.metadata().map(|facts| (facts.size(), facts.mtime(), facts.mtime_nsec()));
        field(format!("{facts:?}").as_bytes());
        field(surroundings.path().as_bytes());
        field(surroundings.safe_home().as_os_str().as_bytes());
        for (name, value) in surroundings.variables() {
            let plain = normal(&name.to_string_lossy());
            if plain.starts_with(self.prefix()) || plain.starts_with("xdg-") || plain == "virtual-env" {
                field(name.as_bytes());
                field(value.as_bytes());
            }
        }
        for file in files {
            field(file.as_os_str().as_bytes());
            field(format!("{:?}", read_if_there(file).map_err(|error| error.kind())).as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    fn problem(self, error: &ClientError) -> ServiceError {
        let hint = match error {
            ClientError::NotBelieved { .. } => {
                "start ringfence in another directory, or set a variable for it that leads nowhere a sandbox writes"
            }
            ClientError::Missing(_) => "install it with your package manager, or run with --no-deps",
            _ => "correct that, or run with --no-deps",
        };
        let message = format!("{} can't say where packages come from: {error}", self.as_str());
        let code =
            if matches!(error, ClientError::Missing(_)) { ErrorCode::Missing } else { ErrorCode::BadRequest };
        ServiceError::new(code, message, hint)
    }
}

/// Without credentials, and only what can be written into a line.
fn clean(settings: Settings) -> Result<Settings, ClientError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || "@:._~/-".contains(c);
    let fits = |name: &str, value: &str| name.chars().all(letters) && !value.contains(char::is_control);
    settings
        .into_iter()
        .map(|(name, value)| match fits(&name, &value) {
            true => Ok((name, without_credentials(&value))),
            false => Err(ClientError::Setting(name)),
        })
        .collect()
}

fn normal(text: &str) -> String {
    text.to_ascii_lowercase().replace('_', "-")
}

/// A file that can't be read is one that knows nothing.
fn read_kept(places: &Places) -> BTreeMap<String, Known> {
    let text = read_if_there(&places.state.path().join(KEPT)).ok().flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
