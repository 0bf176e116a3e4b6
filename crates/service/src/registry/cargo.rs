//! cargo: its configuration file says which registries there are; cargo itself, in a home of its own that is thrown
//! away, says where the one it comes with is, and fetches each index's `config.json`, which names the downloads' host.
//!
//! Only `CARGO_HOME` counts: a project's `.cargo/config.toml` may be the sandbox's own work, and can name programs that
//! cargo would run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml_edit::{DocumentMut, Item, TableLike};

use super::client::{Call, ClientError};
use super::found::Found;
use super::surroundings::Surroundings;
use crate::files::read_if_there;

/// The name of the registry that cargo comes with.
const BUILT_IN: &str = "crates-io";
/// A crate without dependencies, so that one lookup is enough. That a registry doesn't have it is no matter.
const CRATE: &str = "cfg-if";
/// Registries that are asked; one after the other, each up to the client's deadline.
const MOST_ASKED: usize = 8;
/// What a directory for one question is called, before the number of its process.
const SCRATCH: &str = "registry-";

pub(super) fn ask(surroundings: &Surroundings) -> Result<Found<'_>, ClientError> {
    let cargo = surroundings.program("cargo").ok_or(ClientError::Missing("cargo"))?;
    let mut found = Found::new(surroundings);
    let home = Home::of(surroundings);
    let config = home.config()?;
    let named = registries(surroundings, &config);
    let built_in = built_in(&config)?;
    let mut asked = Vec::new();
    match &built_in {
        Source::Own => asked.push(BUILT_IN),
        Source::Registry(url) => {
            grant_index(&mut found, url)?;
            asked.extend(is_sparse(url).then_some(BUILT_IN));
        }
        Source::Local => {}
    }
    for (name, url) in &named {
        grant_index(&mut found, url)?;
        if is_sparse(url) {
            asked.push(name);
        }
    }
    asked.truncate(MOST_ASKED);
    for name in asked {
        match ask_index(surroundings, &cargo, &home, name)? {
            Index::Known { host, downloads } => {
                // Its own host is known from the configuration where that names it, with the port.
                if name == BUILT_IN && matches!(built_in, Source::Own) {
                    found.grant(&format!("https://{host}/"))?;
                }
                found.grant_linked(&downloads);
            }
            Index::Silent(said) => found.note(format!(
                "the index of {name} could not be asked where its downloads are ({said}); only its own host is granted"
            )),
        }
    }
    make_visible(&mut found, surroundings, &home, &config);
    Ok(found)
}

/// Let cargo inside find the same registries.
fn make_visible(found: &mut Found<'_>, surroundings: &Surroundings, home: &Home, config: &DocumentMut) {
    let says_something =
        ["source", "registries", "registry", "http", "net"].iter().any(|key| config.contains_key(key));
    if let Some(file) = home.file.as_deref().filter(|file| says_something && !surroundings.is_shown(file)) {
        if has_token(config) {
            found.note(format!("{} holds a token and stays outside", file.display()));
        } else {
            found.show(file);
        }
    }
    if let Some(path) = text(config.get("http"), "cainfo") {
        found.show(Path::new(&path));
    }
    for (name, value) in surroundings.variables() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let of_registry = name.starts_with("CARGO_REGISTRIES_")
            && (name.ends_with("_INDEX") || name.ends_with("_PROTOCOL"));
        if of_registry || name == "CARGO_REGISTRY_DEFAULT" {
            found.set(name, value);
        } else if name == "CARGO_HTTP_CAINFO" {
            found.set(name, value);
            found.show(Path::new(value));
        }
    }
    if text(config.get("http"), "proxy").is_some() || surroundings.variable("CARGO_HTTP_PROXY").is_some() {
        found.note(
            "cargo's own proxy setting is not used; set HTTPS_PROXY for ringfence to go through a proxy",
        );
        found.set("CARGO_HTTP_PROXY", "");
    }
}

fn grant_index(found: &mut Found<'_>, url: &str) -> Result<(), ClientError> {
    if !is_sparse(url) {
        found.note(format!(
            "the index {} is a git repository, which is not read here: if its downloads are on another host, name that \
             with --allow-host",
            super::url::without_credentials(url)
        ));
    }
    found.grant(url)
}

fn is_sparse(url: &str) -> bool {
    url.starts_with("sparse+")
}

/// Cargo's own directory, if it is one to be trusted.
struct Home {
    file: Option<PathBuf>,
    credentials: Option<PathBuf>,
}

impl Home {
    fn of(surroundings: &Surroundings) -> Self {
        let directory = surroundings.variable("CARGO_HOME").map(PathBuf::from);
        let directory = directory.unwrap_or_else(|| surroundings.safe_home().join(".cargo"));
        let first = |names: [&str; 2]| {
            let mut paths = names.into_iter().map(|name| directory.join(name));
            paths.find(|path| path.is_file() && !surroundings.is_hostile(path))
        };
        // Cargo prefers the names without an ending.
        Self {
            file: first(["config", "config.toml"]),
            credentials: first(["credentials", "credentials.toml"]),
        }
    }

    fn config(&self) -> Result<DocumentMut, ClientError> {
        let Some(file) = &self.file else { return Ok(DocumentMut::new()) };
        let wrong = |why: String| ClientError::Answer { program: file.display().to_string(), why };
        let text = read_if_there(file).map_err(|error| wrong(error.to_string()))?.unwrap_or_default();
        text.parse().map_err(|error: toml_edit::TomlError| wrong(error.message().to_owned()))
    }
}

/// Where the crates of the built-in registry come from.
enum Source {
    /// Cargo's own default.
    Own,
    Registry(String),
    /// Vendored.
    Local,
}

/// Follow `replace-with`, as cargo does.
fn built_in(config: &DocumentMut) -> Result<Source, ClientError> {
    let mut name = BUILT_IN.to_owned();
    for _ in 0..16 {
        let source = config.get("source").and_then(|sources| sources.get(&name));
        match (text(source, "replace-with"), source) {
            (Some(next), _) => name = next,
            (None, None) if name == BUILT_IN => return Ok(Source::Own),
            // The replacement may also be one of [registries].
            (None, None) => {
                let index = text(config.get("registries").and_then(|all| all.get(&name)), "index");
                return index.map(Source::Registry).ok_or(ClientError::Url {
                    url: name,
                    why: "cargo's configuration replaces the registry with a source that it does not name"
                        .into(),
                });
            }
            (None, source) => {
                let url = text(source, "registry").or_else(|| text(source, "git"));
                return Ok(match url {
                    Some(url) => Source::Registry(url),
                    None if name == BUILT_IN => Source::Own,
                    None => Source::Local,
                });
            }
        }
    }
    Err(ClientError::Url { url: name, why: "cargo's configuration replaces it in a circle".into() })
}

/// Registries that have a name: of the file, and of variables.
fn registries(surroundings: &Surroundings, config: &DocumentMut) -> BTreeMap<String, String> {
    let table = config.get("registries").and_then(Item::as_table_like);
    let mut named: BTreeMap<String, String> = table
        .into_iter()
        .flat_map(TableLike::iter)
        .filter_map(|(name, item)| Some((name.to_owned(), text(Some(item), "index")?)))
        .collect();
    for (name, value) in surroundings.variables() {
        let name =
            name.to_str().and_then(|name| name.strip_prefix("CARGO_REGISTRIES_")?.strip_suffix("_INDEX"));
        if let (Some(name), Some(url)) = (name, value.to_str()) {
            named.insert(name.to_ascii_lowercase().replace('_', "-"), url.to_owned());
        }
    }
    named
}

fn text(table: Option<&Item>, key: &str) -> Option<String> {
    table?.get(key)?.as_str().map(str::to_owned)
}

fn has_token(config: &DocumentMut) -> bool {
    let of = |item: Option<&Item>| ["token", "secret-key"].iter().any(|key| text(item, key).is_some());
    let named = config.get("registries").and_then(Item::as_table_like);
    let urls = config.to_string().lines().any(super::url::has_credentials);
    of(config.get("registry")) || named.is_some_and(|all| all.iter().any(|(_, item)| of(Some(item)))) || urls
}

enum Index {
    Known {
        host: String,
        downloads: String,
    },
    /// What cargo said instead.
    Silent(String),
}

/// What every index has at its top.
#[derive(Deserialize)]
struct IndexConfig {
    dl: String,
}

/// Let cargo look one crate up in a registry, in a home that is thrown away, and read what it kept of the index.
fn ask_index(
    surroundings: &Surroundings,
    cargo: &Path,
    home: &Home,
    registry: &str,
) -> Result<Index, ClientError> {
    let scratch = Scratch::new(surroundings, home, registry)?;
    let call = Call::new(surroundings, cargo)
        .args(["generate-lockfile", "--quiet", "--manifest-path"])
        .path_arg(&scratch.path.join("Cargo.toml"))
        .variable("CARGO_HOME", scratch.path.join("home"))
        .variable("CARGO_NET_RETRY", "0")
        .variable("CARGO_HTTP_TIMEOUT", "10");
    let said = match call.finish() {
        Ok(ended) => ended.stderr,
        Err(error @ ClientError::Slow { .. }) => error.to_string(),
        Err(error) => return Err(error),
    };
    let indexes = fs::read_dir(scratch.path.join("home/registry/index"));
    for entry in indexes.into_iter().flatten().flatten() {
        let kept = read_if_there(&entry.path().join("config.json")).ok().flatten();
        let config = kept.and_then(|text| serde_json::from_str::<IndexConfig>(&text).ok());
        // The directory is named after the host: `index.example-0123456789abcdef`.
        let name = entry.file_name().to_string_lossy().into_owned();
        if let (Some(config), Some((host, _))) = (config, name.rsplit_once('-')) {
            return Ok(Index::Known { host: host.to_owned(), downloads: config.dl });
        }
    }
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("cargo says nothing");
    Ok(Index::Silent(super::url::without_credentials(line)))
}

/// A project and a home for one question.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(surroundings: &Surroundings, home: &Home, registry: &str) -> Result<Self, ClientError> {
        let path = surroundings.scratch.join(format!("{SCRATCH}{}", std::process::id()));
        let scratch = Self { path };
        scratch
            .fill(home, registry)
            .map_err(|error| ClientError::Scratch { path: scratch.path.display().to_string(), error })?;
        Ok(scratch)
    }

    fn fill(&self, home: &Home, registry: &str) -> std::io::Result<()> {
        sweep(self.path.parent().unwrap_or(&self.path));
        let _ = fs::remove_dir_all(&self.path);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.path.join("home"))?;
        let from = if registry == BUILT_IN { String::new() } else { format!(", registry = {registry:?}") };
        let manifest = format!(
            "[package]\nname = \"asks\"\nversion = \"0.0.0\"\nedition = \"2018\"\n[lib]\npath = \"lib.rs\"\n\
             [dependencies]\n{CRATE} = {{ version = \"*\"{from} }}\n[workspace]\n"
        );
        fs::write(self.path.join("Cargo.toml"), manifest)?;
        fs::write(self.path.join("lib.rs"), "")?;
        for file in [&home.file, &home.credentials].into_iter().flatten() {
            let name = file.file_name().unwrap_or_default();
            std::os::unix::fs::symlink(file, self.path.join("home").join(name))?;
        }
        Ok(())
    }
}

/// Take away what a killed process left.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
