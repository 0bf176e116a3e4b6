//! Claude Code: `sandbox` in settings.json, and the permission rules that its sandbox takes over: `Read(…)` and `Edit(…)`
//! paths and `WebFetch(domain:…)`. Rules about tools and commands stay with Claude Code, which still applies them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::draft::Draft;
use super::json::{boolean, object, section, texts};
use super::place::{Place, place};
use super::srt::{self, UNKNOWN};
use super::{ImportError, ImportPlaces};

pub(super) fn read<'a>(text: &str, places: &'a ImportPlaces) -> Result<Draft<'a>, ImportError> {
    let settings = object(text)?;
    let mut draft = Draft::new(places);
    draft.reads_all("(reads are open)");
    draft.write("(the working directory can be written)", place(".", &places.current, &places.home));
    srt::protected_names(&mut draft);
    let root = settings_root(places);
    for (key, value) in &settings {
        match key.as_str() {
            "sandbox" => sandbox(&mut draft, section(value, key)?, &root, places)?,
            "permissions" => permissions(&mut draft, section(value, key)?, &root, places)?,
            "env" => draft.not_expressible(key, "set variables with `environment.set`"),
            _ => {}
        }
    }
    Ok(draft)
}

/// What relative paths of this file begin at: the project of `.claude/settings.json`, else `~/.claude`.
fn settings_root(places: &ImportPlaces) -> PathBuf {
    let directory = places.file.parent().unwrap_or(Path::new("/"));
    match directory.file_name().is_some_and(|name| name == ".claude")
        && directory != places.home.join(".claude")
    {
        true => directory.parent().unwrap_or(Path::new("/")).to_path_buf(),
        false => directory.to_path_buf(),
    }
}

fn sandbox(
    draft: &mut Draft,
    settings: &Map<String, Value>,
    root: &Path,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    let resolve = |text: &str| place(text, root, &places.home);
    for (key, value) in settings {
        let setting = format!("sandbox.{key}");
        match key.as_str() {
            "filesystem" => srt::filesystem(draft, section(value, &setting)?, &setting, &resolve)?,
            "network" => srt::network(draft, section(value, &setting)?, &setting)?,
            "credentials" => srt::credentials(draft, section(value, &setting)?, &setting, &resolve)?,
            "enabled" if boolean(value, &setting)? => draft.carried(&setting, "", ""),
            "enabled" => draft.tightened(&setting, "", "commands of `ringfence run` are always in a sandbox"),
            "failIfUnavailable" => {
                draft.carried(&setting, "", "a sandbox that can't be made is an error, always")
            }
            "excludedCommands" => {
                for command in texts(value, &setting)? {
                    draft.tightened(
                        &format!("{setting}: {command}"),
                        "",
                        "no command is left out of the sandbox",
                    );
                }
            }
            "allowUnsandboxedCommands" => {
                draft.tightened(&setting, "", "a command can't ask to run outside");
            }
            "enableWeakerNestedSandbox"
            | "enableWeakerNetworkIsolation"
            | "allowAppleEvents"
            | "allowNestedUserNamespaces" => draft.tightened(&setting, "", "there is no weaker sandbox"),
            "autoAllowBashIfSandboxed" => {
                draft.not_expressible(&setting, "what is asked about stays with Claude Code");
            }
            "ignoreViolations" => draft.not_expressible(&setting, "every denial is told"),
            "ripgrep" => draft.not_expressible(&setting, "it is about how the tool itself works"),
            _ => draft.not_expressible(&setting, UNKNOWN),
        }
    }
    Ok(())
}

fn permissions(
    draft: &mut Draft,
    settings: &Map<String, Value>,
    root: &Path,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    for (key, value) in settings {
        let setting = format!("permissions.{key}");
        match key.as_str() {
            "allow" | "deny" | "ask" => {
                for rule in texts(value, &setting)? {
                    permission(draft, key, &format!("{setting}: {rule}"), &rule, root, places)?;
                }
            }
            "additionalDirectories" => {
                for text in texts(value, &setting)? {
                    draft.write(&format!("{setting}: {text}"), place(&text, &places.current, &places.home));
                }
            }
            "blockReadsOutsideWorkingDirectories" if boolean(value, &setting)? => {
                draft.layer.filesystem.host = Some(crate::HostFiles::System);
                draft.layer.filesystem.toolchains = Some(false);
                draft.carried(&setting, "filesystem.host = \"system\", filesystem.toolchains = false", "");
            }
            _ => draft.not_expressible(&setting, "what is asked about stays with Claude Code"),
        }
    }
    Ok(())
}

fn permission(
    draft: &mut Draft,
    list: &str,
    setting: &str,
    rule: &str,
    root: &Path,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    let (tool, content) = match rule.split_once('(') {
        Some((tool, rest)) => (tool, rest.strip_suffix(')')),
        None => (rule, None),
    };
    match (tool, list, content) {
        ("Read", "deny", Some(path)) => draft.hide(setting, rule_path(path, root, places))?,
        ("Edit", "deny", Some(path)) => draft.unwritable(setting, rule_path(path, root, places))?,
        ("Edit", "allow", Some(path)) => draft.write(setting, rule_path(path, root, places)),
        ("Read", "allow", Some(_)) => draft.carried(setting, "", "reads are open"),
        ("WebFetch", "allow", Some(content)) if content.starts_with("domain:") => {
            draft.allow_host(setting, &content["domain:".len()..]);
        }
        ("WebFetch", "deny", Some(content)) if content.starts_with("domain:") => {
            draft.deny_host(setting, &content["domain:".len()..]);
        }
        ("Bash", ..) => {
            draft.not_expressible(
                setting,
                "a command's words are no boundary; Claude Code still applies the rule",
            );
        }
        _ => draft.not_expressible(setting, "it is about a tool, and stays with Claude Code"),
    }
    Ok(())
}

/// `//x` is absolute, `/x` begins at the settings' own directory, the rest at the working directory.
fn rule_path(text: &str, root: &Path, places: &ImportPlaces) -> Option<Place> {
    match text.strip_prefix('/') {
        Some(rest) if rest.starts_with('/') => place(rest, root, &places.home),
        Some(rest) => place(if rest.is_empty() { "." } else { rest }, root, &places.home),
        None => place(text, &places.current, &places.home),
    }
}
