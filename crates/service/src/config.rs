//! The policy of a run: config files, the project's file, variables and flags, in order, with the rule of trust.
//!
//! `/etc/ringfence/config.toml` < the user's `config.toml` < the project's `ringfence.toml` < `RINGFENCE_PROFILE` and
//! `RINGFENCE_POLICY` < `--policy` < flags. Where no file exists this costs a few failed opens and nothing else.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ringfence_policy::{
    Layer, Loosening, Merged, NetworkMode, Origin, Policy, ProfileName, SecretSource, Workspace, merge,
    project_loosens,
};
use ringfence_sandbox::AttachedFile;

use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;
use crate::project::{ProjectFile, find_project};
use crate::registry::{self, Registry};
use crate::trust::is_trusted;

/// What a caller says about the policy of one run.
#[derive(Clone, Debug, Default)]
pub struct PolicySpec {
    /// The file of `--policy`.
    pub file: Option<PathBuf>,
    /// One layer a flag, each with the flag as its origin.
    pub flags: Vec<(Origin, Layer)>,
    /// Package clients whose registries are granted.
    pub registries: Vec<Registry>,
    /// See what is tried: a network that is off becomes one that grants nothing.
    pub learn: bool,
    /// The flags are the whole policy: no file and no variable of this machine adds to it.
    pub alone: bool,
    /// Somebody else may have set the variables: like a project's file they may only tighten.
    pub variables_tighten: bool,
}

/// The policy of a run, and what a person should know of how it came about.
#[derive(Clone, Debug)]
pub struct LoadedPolicy {
    pub merged: Merged,
    /// Of our own, for what is granted.
    pub files: Vec<AttachedFile>,
    pub notes: Vec<String>,
}

type Layers = Vec<(Origin, Layer)>;

/// Read every layer, check the project's against the rule of trust, and merge.
pub fn load_policy(places: &Places, spec: PolicySpec) -> Result<LoadedPolicy, ServiceError> {
    if spec.alone {
        let merged = merge(ProfileName::default(), &spec.flags).map_err(bad_merge)?;
        return Ok(LoadedPolicy { merged, files: Vec::new(), notes: Vec::new() });
    }
    let mut layers = Layers::new();
    for (path, label) in [(&places.system_config, "system config"), (&places.user_config, "user config")] {
        if let Some(text) = read_if_there(path).map_err(|error| unreadable(path, &error.to_string()))? {
            layers.push((Origin::file(path, label), layer_of_file(places, path, &without_skills(&text))?));
        }
    }
    let flags =
        spec.flags.into_iter().map(|(origin, layer)| (origin, resolved(layer, places, &places.current)));
    let flags: Layers = flags.collect();
    let start = project_start(places, &flags);
    let project = find_project(&start, &places.home)?;
    let project_at = layers.len();
    if let Some(project) = &project {
        let layer = layer_of_file(places, &project.path, &project.text)?;
        layers.push((Origin::file(&project.path, "project"), layer));
    }
    let variables_at = layers.len();
    layers.extend(environment_layers(places)?);
    let variables = variables_at..layers.len();
    if let Some(path) = &spec.file {
        let path = places.absolute(path, &places.current);
        layers.push((Origin::file(&path, "--policy"), read_policy(places, &path)?));
    }
    let flags_at = layers.len();
    layers.extend(flags);
    let base = ProfileName::default();
    let (mut files, mut notes) = (Vec::new(), Vec::new());
    if !spec.registries.is_empty() {
        let granted = registry::ask(places, &without_network(base, &layers)?, &spec.registries)?;
        // Below the other flags: an `--env` of the caller's own wins.
        layers.splice(flags_at..flags_at, granted.layers);
        (files, notes) = (granted.files, granted.notes);
    }
    let mut of_project = Cow::Borrowed(&layers);
    if spec.variables_tighten {
        // Neither is measured by what the other gives.
        of_project.to_mut().drain(variables.clone());
        let mut own = of_project.clone().into_owned();
        own.drain(project_at..project_at + usize::from(project.is_some()));
        check_variables(base, own, &layers[variables], project_at)?;
    }
    if let Some(project) = &project {
        let loosened = project_loosens(base, &of_project, project_at).map_err(bad_merge)?;
        if !loosened.is_empty() && !is_trusted(&places.state, &project.path, &project.text)? {
            return Err(untrusted(project, &loosened));
        }
    }
    let mut merged = merge(base, &layers).map_err(bad_merge)?;
    if spec.learn && merged.policy.network.mode == NetworkMode::Off {
        let mut layer = Layer::default();
        layer.network.mode = Some(NetworkMode::Allow);
        layers.push((Origin::flag("--learn"), layer));
        merged = merge(base, &layers).map_err(bad_merge)?;
    }
    Ok(LoadedPolicy { merged, files, notes })
}

/// What the layers come to apart from the network, whose rules may need hosts that are yet to be found.
fn without_network(base: ProfileName, layers: &Layers) -> Result<Policy, ServiceError> {
    let bare = |(origin, layer): &(Origin, Layer)| {
        (origin.clone(), Layer { network: Default::default(), ..layer.clone() })
    };
    Ok(merge(base, &layers.iter().map(bare).collect::<Layers>()).map_err(bad_merge)?.policy)
}

/// Is this file a policy? Its layer, with paths as they would be taken.
pub fn check_policy_file(places: &Places, path: &Path) -> Result<Layer, ServiceError> {
    read_policy(places, &places.absolute(path, &places.current))
}

/// The section of a config file that is no part of a policy.
pub(crate) const SKILLS: &str = "skills";

/// A config file's text without `[skills]`, which is read apart.
pub(crate) fn without_skills(text: &str) -> Cow<'_, str> {
    let document = text.contains(SKILLS).then(|| text.parse::<toml_edit::DocumentMut>().ok()).flatten();
    let Some(mut document) = document else { return Cow::Borrowed(text) };
    document.remove(SKILLS);
    Cow::Owned(document.to_string())
}

/// The layer of a file's text: JSON by its name, else TOML.
pub(crate) fn parse_layer(path: &Path, text: &str) -> Result<Layer, ServiceError> {
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let parsed = if is_json { Layer::from_json(text) } else { Layer::from_toml(text) };
    parsed.map_err(|error| {
        ServiceError::new(
            ErrorCode::BadPolicy,
            format!("{}: {error}", path.display()),
            "correct the file; `ringfence policy schema` prints what it may hold",
        )
    })
}

fn read_policy(places: &Places, path: &Path) -> Result<Layer, ServiceError> {
    match read_if_there(path) {
        Ok(Some(text)) => layer_of_file(places, path, &text),
        Ok(None) => Err(unreadable(path, "no such file")),
        Err(error) => Err(unreadable(path, &error.to_string())),
    }
}

fn layer_of_file(places: &Places, path: &Path, text: &str) -> Result<Layer, ServiceError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    Ok(resolved(parse_layer(path, text)?, places, directory))
}

/// The same layer with its paths absolute.
fn resolved(mut layer: Layer, places: &Places, directory: &Path) -> Layer {
    let filesystem = &mut layer.filesystem;
    for path in [&mut filesystem.read, &mut filesystem.write, &mut filesystem.hide].into_iter().flatten() {
        // Left for the policy's own checks, which name the key.
        if !path.as_os_str().is_empty() {
            *path = places.absolute(path, directory);
        }
    }
    if let Some(Workspace::Path(path)) = &mut filesystem.workspace
        && !path.as_os_str().is_empty()
    {
        *path = places.absolute(path, directory);
    }
    for secret in &mut layer.network.secrets {
        if let SecretSource::File(path) = &mut secret.from {
            *path = places.absolute(path, directory);
        }
    }
    layer
}

/// The workspace that a flag names is where its project is looked for; else the current directory.
fn project_start(places: &Places, flags: &Layers) -> PathBuf {
    flags
        .iter()
        .rev()
        .find_map(|(_, layer)| match &layer.filesystem.workspace {
            // Above `a/../b`, and above a link, are other directories than the text says.
            Some(Workspace::Path(path)) => Some(path.canonicalize().unwrap_or_else(|_| path.clone())),
            _ => None,
        })
        .unwrap_or_else(|| places.current.clone())
}

fn environment_layers(places: &Places) -> Result<Layers, ServiceError> {
    let mut layers = Layers::new();
    if let Some(path) = &places.policy {
        let path = places.absolute(path, &places.current);
        layers.push((Origin::Environment, read_policy(places, &path)?));
    }
    if let Some(name) = &places.profile {
        let profile = name.parse().map_err(|error| {
            ServiceError::new(
                ErrorCode::BadPolicy,
                format!("RINGFENCE_PROFILE: {error}"),
                "set it to restrictive, moderate or permissive, or unset it",
            )
        })?;
        layers.push((Origin::Environment, Layer { profile: Some(profile), ..Layer::default() }));
    }
    Ok(layers)
}

/// Does one of `variables` give more than `others` and those before it?
fn check_variables(
    base: ProfileName,
    mut others: Layers,
    variables: &[(Origin, Layer)],
    at: usize,
) -> Result<(), ServiceError> {
    for (i, layer) in variables.iter().enumerate() {
        others.insert(at + i, layer.clone());
        let loosened = project_loosens(base, &others, at + i).map_err(bad_merge)?;
        if !loosened.is_empty() {
            return Err(ServiceError::new(
                ErrorCode::Untrusted,
                format!(
                    "RINGFENCE_POLICY or RINGFENCE_PROFILE would loosen the policy, and settings of a project can set them: {}",
                    listed(&loosened)
                ),
                "unset it; what a client's commands may have beyond the profile belongs into your own config file",
            ));
        }
    }
    Ok(())
}

fn listed(loosened: &[Loosening]) -> String {
    let list: Vec<String> =
        loosened.iter().map(|loosening| format!("{} ({})", loosening.clause, loosening.detail)).collect();
    list.join(", ")
}

fn unreadable(path: &Path, why: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadPolicy,
        format!("cannot read the policy {}: {why}", path.display()),
        "name a readable TOML or JSON file",
    )
}

fn bad_merge(error: ringfence_policy::MergeError) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadPolicy,
        error.to_string(),
        "correct it; `ringfence run --help` has examples",
    )
}

fn untrusted(project: &ProjectFile, loosened: &[Loosening]) -> ServiceError {
    ServiceError::new(
        ErrorCode::Untrusted,
        format!(
            "{} would loosen the policy and is not trusted: {}",
            project.path.display(),
            listed(loosened)
        ),
        format!("read the file, then run `ringfence trust {}`", project.path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateDir;
    use std::fs;

    struct Fixture {
        _root: tempfile::TempDir,
        places: Places,
    }

    fn fixture() -> Fixture {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        for dir in ["etc", "home/config", "project/sub", "state"] {
            fs::create_dir_all(path.join(dir)).unwrap();
        }
        let places = Places {
            current: path.join("project/sub"),
            home: path.join("home"),
            system_config: path.join("etc/config.toml"),
            user_config: path.join("home/config/config.toml"),
            state: StateDir::new(path.join("state")),
            profile: None,
            policy: None,
            library: None,
            tenant: None,
        };
        Fixture { _root: root, places }
    }

    fn flag(name: &str, text: &str) -> PolicySpec {
        let flags = vec![(Origin::flag(name), Layer::from_toml(text).unwrap())];
        PolicySpec { flags, ..PolicySpec::default() }
    }

    #[test]
    fn no_file_is_the_default_profile() {
        let fixture = fixture();
        let merged = load_policy(&fixture.places, PolicySpec::default()).unwrap().merged;
        assert_eq!(merged, merge(ProfileName::Moderate, &[]).unwrap());
    }

    #[test]
    fn system_below_user_below_project_below_flags() {
        let Fixture { places, _root } = fixture();
        fs::write(&places.system_config, "[limits]\nmemory = '4G'\nprocesses = 400\ndisk = '400M'").unwrap();
        fs::write(&places.user_config, "[limits]\nprocesses = 300\ndisk = '300M'").unwrap();
        fs::write(places.current.join("../ringfence.toml"), "[limits]\ndisk = '200M'\nopen_files = 99")
            .unwrap();
        let merged = load_policy(&places, flag("--open-files", "[limits]\nopen_files = 98")).unwrap().merged;
        let limits = &merged.policy.limits;
        assert_eq!(limits.memory.unwrap().to_string(), "4G");
        assert_eq!(limits.processes, Some(300));
        assert_eq!(limits.disk.unwrap().to_string(), "200M");
        assert_eq!(limits.open_files, Some(98));
        assert_eq!(merged.origins.of("limits.memory"), &Origin::file(&places.system_config, "system config"));
    }

    #[test]
    fn what_the_user_allows_the_project_may_spell_out() {
        let Fixture { places, _root } = fixture();
        let project = places.current.join("ringfence.toml");
        fs::write(&project, "[syscalls]\nallow = ['ptrace']").unwrap();
        let refused = load_policy(&places, PolicySpec::default()).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Untrusted);
        assert!(load_policy(&places, flag("--allow-syscall", "[syscalls]\nallow = ['ptrace']")).is_ok());
        fs::write(&places.user_config, "[syscalls]\nallow = ['ptrace']").unwrap();
        assert!(load_policy(&places, PolicySpec::default()).is_ok());
    }

    #[test]
    fn a_named_workspace_has_its_own_project_whatever_way_it_is_written() {
        let Fixture { places, _root } = fixture();
        let other = places.home.join("../other");
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("ringfence.toml"), "[limits]\nprocesses = 7").unwrap();
        fs::write(places.current.join("ringfence.toml"), "[limits]\nprocesses = 8").unwrap();
        let merged = load_policy(&places, PolicySpec::default()).unwrap().merged;
        assert_eq!(merged.policy.limits.processes, Some(8));
        let mut spec = flag("--workspace", "");
        spec.flags[0].1.filesystem.workspace = Some(Workspace::Path("../../other".into()));
        let merged = load_policy(&places, spec).unwrap().merged;
        assert_eq!(merged.policy.limits.processes, Some(7));
    }

    #[test]
    fn learning_grants_nothing_and_takes_nothing() {
        let Fixture { places, _root } = fixture();
        let learn = |text: &str| {
            let spec = PolicySpec { learn: true, ..flag("--network", text) };
            load_policy(&places, spec).unwrap().merged
        };
        let merged = learn("");
        assert_eq!(merged.policy.network.mode, NetworkMode::Allow);
        assert!(merged.policy.network.allow.is_empty());
        assert_eq!(merged.origins.of("network.mode"), &Origin::flag("--learn"));
        assert_eq!(learn("[network]\nmode = 'open'").policy.network.mode, NetworkMode::Open);
    }

    #[test]
    fn variables_that_somebody_else_may_set_only_tighten() {
        let Fixture { mut places, _root } = fixture();
        let evil = places.current.join("evil.toml");
        fs::write(&evil, "profile = 'permissive'\n[network]\nmode = 'open'").unwrap();
        let good = places.current.join("good.toml");
        fs::write(&good, "[filesystem]\nhide = ['/srv']").unwrap();
        let load = |places: &Places, variables_tighten| {
            load_policy(places, PolicySpec { variables_tighten, ..PolicySpec::default() })
                .map(|loaded| loaded.merged.policy)
        };
        let refused = |places: &Places| {
            assert!(load(places, false).is_ok(), "the user's own say what they like");
            assert_eq!(load(places, true).unwrap_err().code, ErrorCode::Untrusted);
        };
        places.policy = Some(evil.clone());
        refused(&places);
        // Two that vouch for each other.
        places.profile = Some("permissive".into());
        refused(&places);
        places.policy = None;
        refused(&places);
        (places.policy, places.profile) = (Some(good), Some("restrictive".into()));
        let policy = load(&places, true).unwrap();
        assert_eq!((policy.profile, policy.filesystem.hide.len()), (ProfileName::Restrictive, 1));
        // And so a project's own file and a variable.
        places.profile = None;
        let toml = places.current.join("ringfence.toml");
        fs::write(&toml, "[network]\nmode = 'open'").unwrap();
        fs::write(&evil, "[network]\nmode = 'open'").unwrap();
        places.policy = Some(evil);
        assert_eq!(load(&places, true).unwrap_err().code, ErrorCode::Untrusted);
        fs::remove_file(&toml).unwrap();
        assert_eq!(load(&places, true).unwrap_err().code, ErrorCode::Untrusted);
    }

    #[test]
    fn a_secrets_file_is_beside_the_file_that_names_it() {
        let Fixture { places, _root } = fixture();
        let text = "[network]\nallow = ['a.example']\n[[network.secrets]]\nname = 'T'\nfrom = 'file:token'\nhosts = ['a.example']";
        fs::write(&places.user_config, text).unwrap();
        let merged = load_policy(&places, PolicySpec::default()).unwrap().merged;
        let expected = SecretSource::File(places.user_config.with_file_name("token"));
        assert_eq!(merged.policy.network.secrets[0].from, expected);
    }

    #[test]
    fn a_file_that_may_not_be_read_is_an_error_and_not_skipped() {
        let Fixture { places, _root } = fixture();
        fs::create_dir(&places.system_config).unwrap();
        assert_eq!(load_policy(&places, PolicySpec::default()).unwrap_err().code, ErrorCode::BadPolicy);
    }
}
