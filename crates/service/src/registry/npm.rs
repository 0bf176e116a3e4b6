//! npm: `npm config list` for its registries, `npm view` for where one of its packages is downloaded from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::client::{Call, ClientError};
use super::configured::Configuration;
use super::found::Found;
use super::npmrc::{from_npmrc, to_npmrc};
use super::surroundings::Surroundings;
use crate::files::read_if_there;

/// Settings beside the registries that npm inside needs to reach them.
const ALSO: [&str; 2] = ["cafile", "strict-ssl"];
const REGISTRY: &str = "registry";
/// A file of our own inside.
const NPMRC: &str = "/run/ringfence/npmrc";

pub(super) fn ask(surroundings: &Surroundings) -> Result<Found<'_>, ClientError> {
    let npm = surroundings.program("npm").ok_or(ClientError::Missing("npm"))?;
    let config = Config::ask(surroundings, &npm)?;
    let mut found = Found::new(surroundings);
    let mut scopes = BTreeMap::new();
    for (name, url) in config.registries() {
        found.grant(&url)?;
        // Inside, a variable is stronger than the project's own file, which is there too and keeps its say.
        if !config.is_hidden(&name) || config.in_project(&name) {
            continue;
        }
        if name == REGISTRY {
            found.set(format!("npm_config_{name}"), &url);
        } else {
            scopes.insert(name, url);
        }
    }
    set_scopes(&mut found, &config, scopes);
    for name in ALSO {
        if let Some(value) = config.text(name).filter(|_| config.is_hidden(name)) {
            found.set(format!("npm_config_{}", name.replace('-', "_")), &value);
        }
    }
    if let Some(path) = config.text("cafile") {
        found.show(Path::new(&path));
    }
    if ["proxy", "https-proxy"].iter().any(|name| config.own(name).is_some()) {
        found
            .note("npm's own proxy setting is not used; set HTTPS_PROXY for ringfence to go through a proxy");
    }
    match tarball(surroundings, &npm) {
        Ok(url) => found.grant_linked(&url),
        Err(error) => found.note(format!(
            "the registry could not be asked where its downloads are ({error}); only its own host is granted"
        )),
    }
    Ok(found)
}

/// In a file, because a shell drops variables with names like `npm_config_@scope:registry`. It is npm's in the place of
/// one that npm inside would not see.
fn set_scopes(found: &mut Found<'_>, config: &Config, scopes: BTreeMap<String, String>) {
    let Some(place) = config.unseen.filter(|_| !scopes.is_empty()) else {
        for (name, url) in scopes {
            found.note(format!("{name} is set as a variable, which a shell may drop: write it to an .npmrc"));
            found.set(format!("npm_config_{name}"), &url);
        }
        return;
    };
    let plain = scopes.into_iter().map(|(name, url)| {
        let url = found.plain(&name, &url);
        (name, url)
    });
    let text = to_npmrc(&plain.collect());
    found.write(NPMRC, text);
    found.set(format!("npm_config_{place}"), NPMRC);
}

/// The settings that are in force outside of any project, whoever may see the files that they are in.
pub(super) fn configuration(surroundings: &Surroundings, npm: &Path) -> Result<Configuration, ClientError> {
    let config = Config::ask(surroundings, npm)?;
    let also =
        ALSO.into_iter().filter_map(|name| Some((name.to_owned(), config.own(name).and(config.text(name))?)));
    let settings = config.registries().into_iter().chain(also);
    let files =
        ["userconfig", "globalconfig"].into_iter().filter_map(|name| config.text(name).map(PathBuf::from));
    // The one that npm was installed with.
    let beside = npm.canonicalize().ok().and_then(|real| Some(real.parent()?.parent()?.join("npmrc")));
    Ok(Configuration { settings: settings.collect(), files: files.chain(beside).collect() })
}

/// Where npm itself would be downloaded from: every registry that mirrors packages has it.
fn tarball(surroundings: &Surroundings, npm: &Path) -> Result<String, ClientError> {
    let call = Call::new(surroundings, npm).args(["view", "npm@latest", "dist.tarball", "--json"]);
    let said = call.variable("npm_config_fetch_retries", "0").answer()?;
    let value: Value = serde_json::from_str(&said).unwrap_or_default();
    let text = value.as_str().or_else(|| value.get(0)?.as_str()).map(str::to_owned);
    text.ok_or_else(|| ClientError::Answer {
        program: npm.display().to_string(),
        why: "it names no tarball".into(),
    })
}

/// npm's settings, and which of them come from where npm inside can't see them.
struct Config {
    values: BTreeMap<String, Value>,
    /// What variables and the user's file say themselves.
    hidden: BTreeMap<String, String>,
    shown: BTreeMap<String, String>,
    project: BTreeMap<String, String>,
    /// The setting that names a file which says nothing that npm inside could see.
    unseen: Option<&'static str>,
}

impl Config {
    fn ask(surroundings: &Surroundings, npm: &Path) -> Result<Self, ClientError> {
        let said = Call::new(surroundings, npm).args(["config", "list", "--json"]).answer()?;
        let values = serde_json::from_str(&said).map_err(|error| ClientError::Answer {
            program: npm.display().to_string(),
            why: error.to_string(),
        })?;
        Ok(Self::new(surroundings, values))
    }

    fn new(surroundings: &Surroundings, values: BTreeMap<String, Value>) -> Self {
        let path = |name: &str| values.get(name).and_then(Value::as_str).map(Path::new);
        let file = |path: Option<&Path>| {
            let text = path.and_then(|path| read_if_there(path).ok().flatten());
            from_npmrc(&text.unwrap_or_default())
        };
        let (mut hidden, mut shown) = (BTreeMap::new(), BTreeMap::new());
        let mut unseen = None;
        for name in ["globalconfig", "userconfig"] {
            let place = path(name).filter(|path| !surroundings.is_hostile(path));
            let settings = file(place);
            let is_shown = place.is_some_and(|path| surroundings.is_shown(path));
            // The global one first: a command inside may write the user's.
            if unseen.is_none() && (!is_shown || settings.is_empty()) {
                unseen = Some(name);
            }
            if is_shown { &mut shown } else { &mut hidden }.extend(settings);
        }
        let named = surroundings.variables().filter_map(|(name, value)| {
            let name = name.to_str()?.to_ascii_lowercase();
            let name = name.strip_prefix("npm_config_")?.replace('_', "-");
            Some((name, value.to_str()?.to_owned()))
        });
        hidden.extend(named);
        let project = surroundings
            .current
            .ancestors()
            .find_map(|directory| read_if_there(&directory.join(".npmrc")).ok().flatten());
        Self { values, hidden, shown, project: from_npmrc(&project.unwrap_or_default()), unseen }
    }

    /// The default registry and those of scopes, by the name of the setting.
    fn registries(&self) -> Vec<(String, String)> {
        let scoped = self.values.keys().chain(self.hidden.keys()).chain(self.shown.keys());
        let mut names: Vec<&String> = scoped.filter(|name| name.ends_with(":registry")).collect();
        names.sort();
        names.dedup();
        let names = names.into_iter().map(String::as_str).chain([REGISTRY]);
        names.filter_map(|name| Some((name.to_owned(), self.text(name)?))).collect()
    }

    /// The value in force. npm keeps one with credentials to itself: then it is what the strongest place says.
    fn text(&self, name: &str) -> Option<String> {
        match self.values.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Bool(flag)) => Some(flag.to_string()),
            _ => self.own(name).map(str::to_owned),
        }
    }

    fn own(&self, name: &str) -> Option<&str> {
        self.hidden.get(name).or_else(|| self.shown.get(name)).map(String::as_str)
    }

    fn is_hidden(&self, name: &str) -> bool {
        self.hidden.contains_key(name)
    }

    fn in_project(&self, name: &str) -> bool {
        self.project.contains_key(name)
    }
}
