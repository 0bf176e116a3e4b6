//! Codex: `sandbox_mode` with `[sandbox_workspace_write]`, or `default_permissions` with `[permissions.<name>]`. Codex uses
//! the first where both are there, and so does this.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::draft::Draft;
use super::extends::{with_chosen, with_inherited};
use super::json::wrong;
use super::place::{Place, place};
use super::srt::UNKNOWN;
use super::{ImportError, ImportPlaces};

/// Read-only in every writable root.
pub(crate) const PROTECTED: [&str; 3] = [".agents/", ".codex/", ".git/"];
const SYSTEM: &str = "system directories are in every sandbox, no program starts without them";
const ROOTS: &str = "Codex protects .git, .agents and .codex in every writable root, Ringfence in the workspace alone: \
    run there, or grant it yourself with --write";

pub(super) fn read<'a>(text: &str, places: &'a ImportPlaces) -> Result<Draft<'a>, ImportError> {
    let settings: Table =
        toml::from_str(text).map_err(|error| ImportError::Unreadable(error.message().to_owned()))?;
    let mut draft = Draft::new(places);
    let (settings, chosen) = with_chosen(settings)?;
    if let Some(name) = &chosen {
        draft.carried(&format!("profile: {name}"), "", "what [profiles] says of it counts for more");
    }
    let mode = settings.get("sandbox_mode");
    if let (None, Some(name)) = (mode, settings.get("default_permissions")) {
        profile(&mut draft, &settings, name, places)?;
    } else {
        legacy(&mut draft, &settings, mode, places)?;
        for key in ["default_permissions", "permissions"] {
            if settings.contains_key(key) {
                draft.carried(key, "", "Codex does not use it where sandbox_mode is set");
            }
        }
    }
    for (key, why) in [
        ("approval_policy", "what is asked about stays with Codex"),
        ("shell_environment_policy", "variables are not passed unless `environment.pass` names them"),
        ("profiles", "import a profile by itself: write its keys at the top of a file"),
    ] {
        if settings.contains_key(key) && !(key == "profiles" && chosen.is_some()) {
            draft.not_expressible(key, why);
        }
    }
    Ok(draft)
}

fn legacy(
    draft: &mut Draft,
    settings: &Table,
    mode: Option<&Value>,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    let mode = match mode {
        None => "read-only",
        Some(value) => value.as_str().ok_or_else(|| wrong("sandbox_mode", "it is not a text"))?,
    };
    let setting = format!("sandbox_mode: {mode}");
    draft.reads_all("(reads are open)");
    match mode {
        "read-only" => {
            draft.carried(&setting, "filesystem.workspace = \"private\"", "the directory can be read")
        }
        "workspace-write" => workspace(draft, &setting, places),
        "danger-full-access" => {
            workspace(draft, &setting, places);
            draft.tightened(&setting, "", "there is no run without a sandbox");
            draft.open_network(&format!("{setting} (network)"));
        }
        _ => {
            return Err(wrong(
                "sandbox_mode",
                "it is none of read-only, workspace-write and danger-full-access",
            ));
        }
    }
    let Some(section) = settings.get("sandbox_workspace_write") else { return Ok(()) };
    let section = section.as_table().ok_or_else(|| wrong("sandbox_workspace_write", "it is not a table"))?;
    for (key, value) in section {
        let setting = format!("sandbox_workspace_write.{key}");
        match (key.as_str(), value) {
            (_, _) if mode != "workspace-write" => {
                draft.carried(&setting, "", "Codex uses it with sandbox_mode \"workspace-write\" only");
            }
            ("writable_roots", Value::Array(roots)) => {
                for root in roots {
                    let text = root.as_str().ok_or_else(|| wrong(&setting, "it holds more than texts"))?;
                    writable_root(draft, &format!("{setting}: {text}"), resolve(text, places));
                }
            }
            ("network_access", Value::Boolean(true)) => draft.open_network(&setting),
            ("network_access", Value::Boolean(false)) => {
                draft.carried(&setting, "network.mode = \"off\"", "")
            }
            ("exclude_slash_tmp" | "exclude_tmpdir_env_var", Value::Boolean(_)) => {
                draft.tightened(&setting, "", "/tmp is the sandbox's own");
            }
            ("writable_roots" | "network_access" | "exclude_slash_tmp" | "exclude_tmpdir_env_var", _) => {
                return Err(wrong(&setting, "it has another type"));
            }
            _ => draft.not_expressible(&setting, UNKNOWN),
        }
    }
    Ok(())
}

fn workspace(draft: &mut Draft, setting: &str, places: &ImportPlaces) {
    draft.write(setting, place(".", &places.current, &places.home));
    draft.layer.filesystem.protect.extend(PROTECTED.map(str::to_owned));
    let policy = "filesystem.protect = [\".agents/\", \".codex/\", \".git/\"]";
    draft.carried("(.git, .agents and .codex are never writable)", policy, "");
}

fn resolve(text: &str, places: &ImportPlaces) -> Option<Place> {
    place(text, places.file.parent().unwrap_or(Path::new("/")), &places.home)
}

/// One outside the workspace can be read.
fn writable_root(draft: &mut Draft, setting: &str, found: Option<Place>) {
    draft.read(setting, found);
    draft.tightened(setting, "", ROOTS);
}

fn profile(
    draft: &mut Draft,
    settings: &Table,
    name: &Value,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    let name = name.as_str().ok_or_else(|| wrong("default_permissions", "it is not a text"))?;
    let setting = format!("default_permissions: {name}");
    match name {
        ":read-only" => {
            draft.reads_all(&setting);
            return Ok(());
        }
        ":workspace" => {
            draft.reads_all("(reads are open)");
            workspace(draft, &setting, places);
            return Ok(());
        }
        ":danger-full-access" => {
            draft.reads_all("(reads are open)");
            workspace(draft, &setting, places);
            draft.tightened(&setting, "", "there is no run without a sandbox");
            draft.open_network(&format!("{setting} (network)"));
            return Ok(());
        }
        _ => {}
    }
    let (profile, own) = with_inherited(settings, name)?;
    let prefix = format!("permissions.{name}");
    let roots = further_roots(draft, &profile, &prefix, places)?;
    let root = profile.get("filesystem").and_then(|rules| rules.get(":root")).and_then(Value::as_str);
    let is_shut = matches!(root, Some("deny" | "none"));
    let setting = format!("{prefix}.extends: {}", own.as_deref().unwrap_or_default());
    match own.as_deref() {
        None => {}
        Some(own @ (":workspace" | ":read-only")) => {
            if !is_shut {
                draft.reads_all(&format!("{setting} (reads)"));
            }
            if own == ":workspace" {
                workspace(draft, &setting, places);
                for root in &roots {
                    writable_root(draft, &setting, Some(directory(root)));
                }
            }
        }
        Some(_) => draft.tightened(&setting, "", "what it inherits is not granted"),
    }
    for (key, value) in &profile {
        let setting = format!("{prefix}.{key}");
        match (key.as_str(), value) {
            ("extends", Value::String(base)) if !base.starts_with(':') => {
                draft.carried(&format!("{setting}: {base}"), "", "its rules are among those here");
            }
            ("extends" | "workspace_roots", _) => {}
            ("description", _) => draft.carried(&setting, "", ""),
            ("filesystem", Value::Table(rules)) => filesystem(draft, rules, &setting, places, &roots)?,
            ("network", Value::Table(rules)) => network(draft, rules, &setting)?,
            ("filesystem" | "network", _) => return Err(wrong(&setting, "it is not a table")),
            _ => draft.not_expressible(&setting, UNKNOWN),
        }
    }
    Ok(())
}

/// The directories beside the current one that the profile's rules of `:workspace_roots` are for.
fn further_roots(
    draft: &mut Draft,
    profile: &Table,
    prefix: &str,
    places: &ImportPlaces,
) -> Result<Vec<PathBuf>, ImportError> {
    let setting = format!("{prefix}.workspace_roots");
    let roots = match profile.get("workspace_roots") {
        None => return Ok(Vec::new()),
        Some(Value::Table(roots)) => roots,
        Some(_) => return Err(wrong(&setting, "it is not a table")),
    };
    let mut found = Vec::new();
    for (root, is_one) in roots {
        match (resolve(root, places), is_one) {
            (_, Value::Boolean(false)) => draft.carried(&format!("{setting}: {root}"), "", "it is none"),
            (Some(Place::Path { path, .. }), _) => found.push(path),
            _ => draft.not_expressible(&format!("{setting}: {root}"), "name the directory"),
        }
    }
    Ok(found)
}

fn directory(path: &Path) -> Place {
    Place::Path { path: path.to_owned(), as_directory: true }
}

fn filesystem(
    draft: &mut Draft,
    rules: &Table,
    prefix: &str,
    places: &ImportPlaces,
    roots: &[PathBuf],
) -> Result<(), ImportError> {
    for (path, access) in rules {
        let setting = format!("{prefix}.{path}");
        match (path.as_str(), access) {
            (":workspace_roots" | ":project_roots" | ":cwd", Value::Table(below)) => {
                for (path, access) in below {
                    let access = access.as_str().ok_or_else(|| wrong(&setting, "an access is not a text"))?;
                    let setting = format!("{setting}.{path}: {access}");
                    in_workspace(draft, &setting, access, path, places)?;
                    for root in roots {
                        outside(draft, &setting, access, place(path, root, &places.home), places)?;
                    }
                }
            }
            (":workspace_roots" | ":project_roots" | ":cwd", Value::String(access)) => {
                let setting = format!("{setting}: {access}");
                in_workspace(draft, &setting, access, ".", places)?;
                for root in roots {
                    outside(draft, &setting, access, Some(directory(root)), places)?;
                }
            }
            (":root", Value::String(access)) if access == "read" || access == "write" => {
                draft.reads_all(&format!("{setting}: {access}"));
            }
            (":root", Value::String(access)) if access == "deny" || access == "none" => {
                draft.carried(&format!("{setting}: {access}"), "filesystem.host = \"system\"", SYSTEM);
            }
            (":minimal", Value::String(access)) if access != "deny" && access != "none" => {
                draft.carried(&format!("{setting}: {access}"), "filesystem.host = \"system\"", "");
            }
            (":minimal", _) => draft.not_expressible(&setting, SYSTEM),
            (":tmpdir" | ":slash_tmp", _) => draft.tightened(&setting, "", "/tmp is the sandbox's own"),
            ("glob_scan_max_depth", _) => {
                draft.not_expressible(&setting, "patterns are tightened to directories")
            }
            // What it gives is not given; what it may take away can't be left out.
            (special, Value::String(access))
                if special.starts_with(':') && matches!(&**access, "read" | "write") =>
            {
                draft.not_expressible(&setting, UNKNOWN);
            }
            (special, _) if special.starts_with(':') => return Err(wrong(&setting, "it is not known")),
            (_, Value::String(access)) => {
                outside(draft, &format!("{setting}: {access}"), access, resolve(path, places), places)?;
            }
            _ => return Err(wrong(&setting, "an access is not a text")),
        }
    }
    Ok(())
}

/// A place that is named by itself, which may lie in the workspace all the same.
fn outside(
    draft: &mut Draft,
    setting: &str,
    access: &str,
    found: Option<Place>,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    match access {
        "read" => {
            let within = found.as_ref().is_some_and(|found| match found {
                Place::Path { path, .. } => path.starts_with(&places.current),
                Place::Pattern { within } => {
                    within.starts_with(&places.current) || places.current.starts_with(within)
                }
            });
            if within {
                draft.unwritable(setting, found.clone())?;
            }
            draft.read(setting, found);
        }
        "write" => writable_root(draft, setting, found),
        "deny" | "none" => hide(draft, setting, found)?,
        _ => return Err(wrong(setting, "it is none of read, write and deny")),
    }
    Ok(())
}

/// Codex looks for the files of a pattern wherever it begins, at `/` too.
fn hide(draft: &mut Draft, setting: &str, found: Option<Place>) -> Result<(), ImportError> {
    if let Some(Place::Pattern { within }) = &found
        && within == Path::new("/")
    {
        return Err(ImportError::HidesSystem { setting: setting.to_owned(), path: "/".into() });
    }
    draft.hide(setting, found)
}

fn in_workspace(
    draft: &mut Draft,
    setting: &str,
    access: &str,
    path: &str,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    let found = place(path, &places.current, &places.home);
    let is_root = matches!(&found, Some(Place::Path { path, .. }) if *path == places.current);
    match access {
        "write" if is_root => workspace(draft, setting, places),
        "write" => writable_root(draft, setting, found),
        "read" if is_root => {
            draft.see_current();
            draft.unwritable(setting, found)?;
        }
        "read" => {
            draft.unwritable(setting, found.clone())?;
            draft.read(setting, found);
        }
        "deny" | "none" => hide(draft, setting, found)?,
        _ => return Err(wrong(setting, "it is none of read, write and deny")),
    }
    Ok(())
}

fn network(draft: &mut Draft, rules: &Table, prefix: &str) -> Result<(), ImportError> {
    if rules.get("enabled") != Some(&Value::Boolean(true)) {
        draft.carried(&format!("{prefix}.enabled"), "network.mode = \"off\"", "");
        return Ok(());
    }
    draft.carried(&format!("{prefix}.enabled"), "", "");
    let domains = rules.get("domains").and_then(Value::as_table);
    if domains.is_none_or(Table::is_empty) {
        draft.open_network(&format!("{prefix} (no domains are named)"));
    }
    for (key, value) in rules {
        let setting = format!("{prefix}.{key}");
        match (key.as_str(), value) {
            ("enabled", _) => {}
            ("domains", Value::Table(domains)) => {
                for (host, access) in domains {
                    domain(draft, &format!("{setting}.{host}: {access}"), host, access)?;
                }
            }
            ("mode", Value::String(mode)) if mode == "full" => draft.carried(&setting, "", ""),
            ("mode", _) => {
                draft.close_network(&setting, "methods are limited for named hosts only, with `network.http`")
            }
            ("proxy_url" | "socks_url" | "allow_upstream_proxy", _) => {
                draft.close_network(&setting, "what a proxy of yours decides is not known to a policy");
            }
            ("unix_sockets" | "dangerously_allow_all_unix_sockets", _) => {
                draft.tightened(&setting, "", "no socket of the host is reached, ever");
            }
            ("allow_local_binding", _) => {
                draft.carried(&setting, "", "the sandbox has a loopback of its own, on which it may listen");
            }
            ("enable_socks5" | "enable_socks5_udp" | "dangerously_allow_non_loopback_proxy", _) => {
                draft.not_expressible(&setting, "it is about how Codex's own proxy works");
            }
            _ => draft.not_expressible(&setting, UNKNOWN),
        }
    }
    Ok(())
}

fn domain(draft: &mut Draft, setting: &str, host: &str, access: &Value) -> Result<(), ImportError> {
    match access.as_str() {
        Some("allow") if host == "*" => draft.open_network(setting),
        Some("allow") => {
            let host = host.strip_prefix("**.").map_or(host.to_owned(), |below| format!("*.{below}"));
            draft.allow_host(setting, &host);
        }
        Some("deny" | "none") => match host.strip_prefix("**.") {
            Some(name) => {
                draft.deny_host(setting, name);
                draft.deny_host(setting, &format!("*.{name}"));
            }
            None => draft.deny_host(setting, host),
        },
        _ => return Err(wrong(setting, "it is neither allow nor deny")),
    }
    Ok(())
}
