//! What a request wants of a sandbox, from JSON to an order within the caller's ceiling.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_policy::{
    Bound, Compat, HostRule, Layer, NetworkMode, Policy, ProfileName, SecretRule, SecretSource, Span, capped,
};
use ringfence_service::workers::{FileOrder, SandboxOrder};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Answer, ApiError};

/// Where nobody says how long.
pub(crate) const TIMEOUT_MS: u64 = 30_000;
/// What a command is called inside, unless it asks for another name.
const GUEST: &str = "sandbox";
/// A file that comes with a request.
const DEFAULT_MODE: u32 = 0o644;

/// What a sandbox may do, and where it works.
#[derive(Debug, Default)]
pub(crate) struct SandboxWanted {
    /// Whose defaults to begin from; what they have beyond your role's ceiling is left out.
    pub(crate) compat: Option<String>,
    /// The policy to start from: restrictive, moderate or permissive. At most what your role may have.
    pub(crate) profile: Option<String>,
    /// The image whose system directories are shown. Only the one of your role's ceiling; without a name it is that one anyway.
    pub(crate) image: Option<String>,
    /// A policy as `ringfence policy schema` describes it. What goes beyond your role's ceiling is refused.
    pub(crate) policy: Option<Layer>,
    pub(crate) network: Option<NetworkWanted>,
    /// One of your workspaces, made when it is first named; without a name, `default`. `private`: one that is gone with
    /// the sandbox.
    pub(crate) workspace: Option<String>,
    /// Written to the workspace first.
    pub(crate) files: Vec<FileWanted>,
    /// Show what you may see of the skill library at `/skills`.
    pub(crate) skills: bool,
    pub(crate) secrets: Vec<SecretWanted>,
    /// Report every refused access to a file.
    pub(crate) trace: bool,
    /// A default limit that this host can't enforce is an error.
    pub(crate) strict: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetworkWanted {
    /// False: loopback only, whatever `allowed_domains` says.
    pub(crate) enabled: bool,
    /// Hosts, as in `network.allow` of a policy. None, with `enabled`: every public host.
    #[schema(example = json!(["api.example.com", "*.example.org:443"]))]
    pub(crate) allowed_domains: Vec<String>,
}

/// One of the caller's own secrets: inside, the variable of that name holds a placeholder; on the way to these hosts, which
/// must be allowed too, the value takes its place.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretWanted {
    #[schema(example = "API_TOKEN")]
    pub(crate) name: String,
    #[schema(example = json!(["api.example.com"]), min_items = 1)]
    pub(crate) hosts: Vec<String>,
}

impl SecretWanted {
    fn rule(self) -> Answer<SecretRule> {
        let wrong =
            |what: String| ApiError::bad(what, "correct `secrets`: a name, and hosts that get the value");
        let from = SecretSource::parse(&format!("store:{}", self.name));
        let from = from.map_err(|error| wrong(error.to_string()))?;
        let hosts = self.hosts.iter().map(|host| HostRule::parse(host));
        let hosts = hosts.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
        if hosts.is_empty() {
            return Err(wrong(format!("no host gets the secret `{}`", self.name.escape_debug())));
        }
        Ok(SecretRule { name: self.name, from, hosts, body: false })
    }
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileWanted {
    /// Relative to the workspace.
    #[schema(example = "data/input.txt")]
    pub(crate) path: String,
    pub(crate) content: Option<String>,
    /// In place of `content`, for what is not text.
    pub(crate) content_base64: Option<String>,
    /// Permission bits; 420 (octal 644) where none are given.
    #[schema(maximum = 511)]
    pub(crate) mode: Option<u32>,
}

impl SandboxWanted {
    /// The order, if the caller may have it.
    pub(crate) fn order(self, app: &App, caller: &Caller, timeout: Option<Duration>) -> Answer<SandboxOrder> {
        let rules = app.config.role(caller.role);
        let Some(ceiling) = &rules.ceiling else {
            return Err(ApiError::forbidden(
                format!("the role {} runs nothing", caller.role),
                "ask an admin for a key with the role operator",
            ));
        };
        let Self {
            compat: client,
            profile,
            image,
            policy,
            network,
            workspace,
            files,
            skills,
            secrets,
            trace,
            strict,
        } = self;
        let mut layer = policy.unwrap_or_default();
        let ceiling = &within_quotas(app, caller, ceiling, &layer);
        if let Some(profile) = profile {
            let profile: ProfileName = profile.parse().map_err(|error: ringfence_policy::ProfileError| {
                ApiError::bad(error.to_string(), "name one of the profiles")
            })?;
            layer.profile = Some(profile);
        }
        if let Some(image) = image {
            layer.image = Some(image);
        }
        let has_image = layer.image.is_some() || ceiling.image.is_some();
        let client =
            compat(client.as_deref())?.map(|client| client.layer_within(ceiling)).unwrap_or_default();
        // The ceiling is the most that may be asked for, and nobody's default.
        let usual = ProfileName::default().min(ceiling.profile);
        layer.profile = layer.profile.or(client.profile).or(Some(usual));
        if let Some(timeout) = timeout {
            layer.limits.wall_time = Some(Bound::At(Span::from_millis(timeout.as_millis() as u64)));
        }
        if let Some(network) = network {
            add_network(&mut layer, network)?;
        }
        let closed = layer.network.mode == Some(NetworkMode::Off)
            || layer.network.mode.is_none() && layer.network.allow.is_empty();
        if closed && !secrets.is_empty() {
            return Err(ApiError::bad(
                "a secret is for hosts, and this sandbox has no network",
                "allow the secret's hosts with `network`, or leave `secrets` out",
            ));
        }
        let mut layers = capped(ceiling, layer)
            .map_err(|found| {
                let found: Vec<String> =
                    found.iter().map(|one| format!("{}: {}", one.clause, one.detail)).collect();
                ApiError::new(
                    axum::http::StatusCode::FORBIDDEN,
                    "beyond_ceiling",
                    format!("this is more than the role {} may have: {}", caller.role, found.join("; ")),
                    "leave it out, or ask an admin to raise the ceiling of your role",
                )
            })?
            .to_vec();
        // Beneath what the request says itself: no name of the account that serves.
        layers[0].identity.user = Some(GUEST.into());
        layers.insert(1, client);
        let mut ours = Layer::default();
        ours.filesystem.hide = app.own_paths.clone();
        // Those of the host are made for the host's own libraries.
        ours.filesystem.toolchains = (ceiling.filesystem.toolchains && !has_image).then_some(true);
        // Of the caller's own store. Their hosts must be granted, and what is granted is within the ceiling.
        ours.network.secrets = secrets.into_iter().map(SecretWanted::rule).collect::<Answer<_>>()?;
        layers.push(ours);
        let files = files.into_iter().map(file).collect::<Answer<Vec<_>>>()?;
        Ok(SandboxOrder {
            tenant: Some(caller.user.clone()),
            disk: Some(rules.quotas.disk.bytes()),
            layers,
            own: None,
            compat: None,
            granted: false,
            workspace: workspace_name(caller, workspace.as_deref())?,
            files,
            argv: Vec::new(),
            directory: None,
            skills,
            domains: skills.then(|| seen_domains(app, caller)).transpose()?,
            trace,
            strict,
        })
    }
}

/// The ceiling for what nobody asked for: what a profile has beyond a quota could never be had, and would be refused for
/// ever. What is asked for is held against the quota itself.
fn within_quotas(app: &App, caller: &Caller, ceiling: &Policy, asked: &Layer) -> Policy {
    let (own, all) = (app.config.role(caller.role).quotas, app.config.server);
    let mut within = ceiling.clone();
    let limits = &mut within.limits;
    if asked.limits.memory.is_none() {
        limits.memory = [limits.memory, own.memory, all.memory].into_iter().flatten().min();
    }
    if asked.limits.cpus.is_none() {
        // What is shipped holds where the host can hold it, as a profile's limits do; what an admin wrote holds everywhere.
        if app.config.role(caller.role).shipped && !app.limits_processors {
            limits.cpus = None;
        }
        let quotas = [own.cpus, all.cpus].map(|cpus| cpus.map(f64::from));
        limits.cpus = quotas.into_iter().chain([limits.cpus]).flatten().min_by(f64::total_cmp);
    }
    within
}

/// A client by its name, for its defaults.
pub(crate) fn compat(name: Option<&str>) -> Answer<Option<Compat>> {
    let parsed = name.map(str::parse).transpose();
    parsed.map_err(|error: String| ApiError::bad(error, "name one of them in `compat`, or leave it out"))
}

/// The domains of the library that the caller may see.
fn seen_domains(app: &App, caller: &Caller) -> Answer<Vec<String>> {
    let rules = &app.config.role(caller.role).skills;
    let mut domains = ringfence_service::skills::shared_domains(&app.places)?;
    domains.retain(|domain| rules.sees(domain));
    Ok(domains)
}

/// The caller's own, by whatever name.
pub(crate) fn workspace_name(caller: &Caller, name: Option<&str>) -> Answer<Option<String>> {
    match name {
        Some("private") => Ok(None),
        Some(name) if name.contains('/') => Err(ApiError::bad(
            format!("`{}` is no name of a workspace", name.escape_debug()),
            "use up to 64 of a-z, 0-9, `.`, `_` and `-`: your workspaces are your own, and no path leads to others",
        )),
        name => Ok(Some(format!("{}/{}", caller.user, name.unwrap_or("default")))),
    }
}

fn add_network(layer: &mut Layer, network: NetworkWanted) -> Answer<()> {
    if !network.enabled {
        layer.network.mode = Some(NetworkMode::Off);
        layer.network.allow.clear();
        return Ok(());
    }
    for domain in &network.allowed_domains {
        let rule = HostRule::parse(domain)
            .map_err(|error| ApiError::bad(error.to_string(), "correct `network.allowed_domains`"))?;
        layer.network.allow.push(rule);
    }
    if network.allowed_domains.is_empty() && layer.network.allow.is_empty() {
        layer.network.mode = Some(NetworkMode::Open);
    }
    Ok(())
}

fn file(file: FileWanted) -> Answer<FileOrder> {
    let content = match (file.content, file.content_base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(coded)) => STANDARD.decode(coded).map_err(|error| {
            ApiError::bad(
                format!("the content of `{}` is not base64: {error}", file.path.escape_debug()),
                "code it again",
            )
        })?,
        _ => {
            return Err(ApiError::bad(
                format!("the file `{}` needs either content or content_base64", file.path.escape_debug()),
                "give one of them",
            ));
        }
    };
    Ok(FileOrder { path: file.path, content, mode: file.mode.unwrap_or(DEFAULT_MODE) })
}

/// Words of a command line and variables hold no NUL: nothing could be started with one.
pub(crate) fn without_nul<'a>(words: impl IntoIterator<Item = &'a str>, what: &str) -> Answer<()> {
    if words.into_iter().any(|word| word.contains('\0')) {
        return Err(ApiError::bad(format!("{what} has a NUL byte in it"), "leave it out"));
    }
    Ok(())
}

/// Variables as a request gives them.
pub(crate) fn check_variables(variables: &BTreeMap<String, String>) -> Answer<()> {
    without_nul(variables.keys().chain(variables.values()).map(String::as_str), "a variable")?;
    match variables.keys().find(|name| name.is_empty() || name.contains('=')) {
        Some(name) => Err(ApiError::bad(
            format!("`{}` is no name of a variable", name.escape_debug()),
            "a name is not empty and has no `=`",
        )),
        None => Ok(()),
    }
}

/// A directory inside.
pub(crate) fn directory(cwd: Option<String>) -> Answer<Option<PathBuf>> {
    without_nul(cwd.as_deref(), "`cwd`")?;
    Ok(cwd.map(PathBuf::from))
}
