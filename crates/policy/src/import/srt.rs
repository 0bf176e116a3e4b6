//! srt (`@anthropic-ai/sandbox-runtime`): everything may be read but `denyRead`, nothing written but `allowWrite`, nothing
//! reached but `allowedDomains`. Claude Code's own sandbox speaks the same words.

use serde_json::{Map, Value};

use super::draft::Draft;
use super::json::{boolean, object, section, texts};
use super::place::{Place, place};
use super::{ImportError, ImportPlaces};

pub(super) fn read<'a>(text: &str, places: &'a ImportPlaces) -> Result<Draft<'a>, ImportError> {
    let settings = object(text)?;
    let mut draft = Draft::new(places);
    draft.reads_all("(reads are open)");
    protected_names(&mut draft);
    let resolve = |text: &str| place(text, &places.current, &places.home);
    for (key, value) in &settings {
        match key.as_str() {
            "filesystem" => filesystem(&mut draft, section(value, key)?, "filesystem", &resolve)?,
            "network" => network(&mut draft, section(value, key)?, "network")?,
            "credentials" => credentials(&mut draft, section(value, key)?, "credentials", &resolve)?,
            _ => other(&mut draft, key, value),
        }
    }
    Ok(draft)
}

/// What srt keeps read-only in the current directory beside Ringfence's own list.
pub(super) fn protected_names(draft: &mut Draft) {
    let names = [".gitmodules", ".ripgreprc"];
    draft.layer.filesystem.protect.extend(names.map(str::to_owned));
    draft.carried(
        "(names that are never writable)",
        "filesystem.protect = [\".gitmodules\", \".ripgreprc\"]",
        "the others are protected in every workspace",
    );
    draft.not_expressible(
        "(the same names in directories below)",
        "names are protected at the top of the workspace, and git's in every repository in it",
    );
}

pub(super) fn filesystem(
    draft: &mut Draft,
    settings: &Map<String, Value>,
    prefix: &str,
    resolve: &dyn Fn(&str) -> Option<Place>,
) -> Result<(), ImportError> {
    for (key, value) in settings {
        let setting = format!("{prefix}.{key}");
        let each = || -> Result<Vec<(String, Option<Place>)>, ImportError> {
            let named = |text: String| (format!("{setting}: {text}"), resolve(&text));
            Ok(texts(value, &setting)?.into_iter().map(named).collect())
        };
        match key.as_str() {
            "denyRead" => each()?.into_iter().try_for_each(|(name, place)| draft.hide(&name, place))?,
            "allowRead" => each()?.into_iter().for_each(|(name, place)| draft.reopen(&name, place)),
            "allowWrite" => each()?.into_iter().for_each(|(name, place)| draft.write(&name, place)),
            "denyWrite" => {
                each()?.into_iter().try_for_each(|(name, place)| draft.unwritable(&name, place))?
            }
            "disabled" if boolean(value, &setting)? => {
                draft.tightened(&setting, "", "files stay within the fence");
            }
            "allowGitConfig" if boolean(value, &setting)? => {
                draft.tightened(&setting, "", ".git/config stays protected but for branch tracking");
            }
            "disabled" | "allowGitConfig" => draft.carried(&setting, "", ""),
            "allowManagedReadPathsOnly" => {
                draft.not_expressible(&setting, "it says whose settings count; import the managed ones");
            }
            _ => draft.not_expressible(&setting, UNKNOWN),
        }
    }
    Ok(())
}

pub(super) const UNKNOWN: &str =
    "this version does not know it, and grants nothing for it; look whether it forbids something";

pub(super) fn network(
    draft: &mut Draft,
    settings: &Map<String, Value>,
    prefix: &str,
) -> Result<(), ImportError> {
    for (key, value) in settings {
        let setting = format!("{prefix}.{key}");
        match key.as_str() {
            "allowedDomains" => {
                for text in texts(value, &setting)? {
                    draft.allow_host(&format!("{setting}: {text}"), &text);
                }
            }
            "deniedDomains" => {
                for text in texts(value, &setting)? {
                    draft.deny_host(&format!("{setting}: {text}"), &text);
                }
            }
            "deniedResolvedAddresses" => {
                for text in texts(value, &setting)? {
                    resolved_address(draft, &format!("{setting}: {text}"), &text);
                }
            }
            "strictAllowlist" => {
                draft.carried(&setting, "", "a host that is not granted is refused, not asked about")
            }
            "allowManagedDomainsOnly" => {
                draft.close_network(&setting, "it says that only managed settings count; import those");
            }
            "allowUnixSockets" | "allowAllUnixSockets" => {
                draft.tightened(&setting, "", "no socket of the host is reached, ever");
            }
            "allowLocalBinding" => {
                draft.carried(&setting, "", "the sandbox has a loopback of its own, on which it may listen");
            }
            "httpProxyPort" | "socksProxyPort" | "mitmProxy" | "parentProxy" | "filterRequest" => {
                draft.close_network(&setting, "what a proxy of yours decides is not known to a policy");
            }
            "tlsTerminate" => {
                draft.not_expressible(&setting, "TLS is ended for hosts with HTTP rules or secrets only");
            }
            "deniedDomainReasons" => draft.not_expressible(&setting, "denials have reasons of their own"),
            "allowMachLookup" => draft.not_expressible(&setting, "it is for macOS"),
            _ => draft.not_expressible(&setting, UNKNOWN),
        }
    }
    Ok(())
}

/// Ranges that no name may lead to: private ones are closed anyway.
fn resolved_address(draft: &mut Draft, setting: &str, text: &str) {
    let is_private = text.parse::<crate::network::AddressRange>().is_ok();
    if is_private {
        draft.carried(setting, "", "private addresses are closed to names, unless `private` opens them");
    } else if text.parse::<std::net::IpAddr>().is_ok() {
        let rule = if text.contains(':') { format!("[{text}]") } else { text.to_owned() };
        draft.deny_host(setting, &rule);
    } else {
        draft.close_network(setting, "a range of public addresses can't be denied");
    }
}

pub(super) fn credentials(
    draft: &mut Draft,
    settings: &Map<String, Value>,
    prefix: &str,
    resolve: &dyn Fn(&str) -> Option<Place>,
) -> Result<(), ImportError> {
    for (key, value) in settings {
        let setting = format!("{prefix}.{key}");
        let entries = value.as_array().cloned().unwrap_or_default();
        match key.as_str() {
            "files" => {
                for entry in entries {
                    let Some(path) = entry["path"].as_str() else {
                        return Err(super::json::wrong(&setting, "an entry has no path"));
                    };
                    draft.hide(&format!("{setting}: {path}"), resolve(path))?;
                    if entry["mode"] == "mask" {
                        let why = "a file is not masked but hidden; give the value with `network.secrets`";
                        draft.tightened(&format!("{setting}: {path} (mask)"), "", why);
                    }
                }
            }
            "envVars" => {
                for entry in entries {
                    let name = entry["name"].as_str().unwrap_or_default();
                    let setting = format!("{setting}: {name}");
                    // Set to nothing, where a profile would pass it.
                    if crate::profiles::profile(crate::ProfileName::Moderate).environment.passes(name) {
                        draft.layer.environment.set.insert(name.to_owned(), String::new());
                        draft.carried(&setting, format!("environment.set.{name} = \"\""), "");
                    } else {
                        draft.carried(&setting, "", "variables are not passed unless they are named");
                    }
                }
            }
            _ => draft.not_expressible(&setting, "credentials are given with `network.secrets`"),
        }
    }
    Ok(())
}

/// Settings that are about the tool, not about what a command may do.
fn other(draft: &mut Draft, key: &str, value: &Value) {
    let is_on = value != &Value::Bool(false);
    match key {
        "ignoreViolations" => draft.not_expressible(key, "every denial is told"),
        "enableWeakerNestedSandbox" | "enableWeakerNetworkIsolation" | "allowAppleEvents" if is_on => {
            draft.tightened(key, "", "there is no weaker sandbox");
        }
        "enableWeakerNestedSandbox" | "enableWeakerNetworkIsolation" | "allowAppleEvents" => {
            draft.carried(key, "", "");
        }
        "allowPty" => draft.carried(key, "", "terminals of its own; `-t` gives the command one"),
        "mandatoryDenySearchDepth" => {
            draft.not_expressible(key, "repositories are looked for 3 levels deep");
        }
        "ripgrep" | "seccomp" | "bwrapPath" | "socatPath" | "javaAgentJarPath" | "windows" | "git" => {
            draft.not_expressible(key, "it is about how srt itself works");
        }
        _ => draft.not_expressible(key, UNKNOWN),
    }
}
