//! Codex settings that build on others: a permission profile that `extends` another, and a config profile that is chosen by
//! `profile`. Both are laid over each other as Codex does it: key by key, tables with tables, the later one counts.

use toml::{Table, Value};

use super::ImportError;
use super::json::wrong;

/// What a chosen config profile may say of the sandbox.
const OF_PROFILE: [&str; 4] =
    ["sandbox_mode", "sandbox_workspace_write", "default_permissions", "permissions"];

/// `over` on `under`.
fn laid_over(mut under: Table, over: &Table) -> Table {
    for (key, value) in over {
        let value = match (under.remove(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => Value::Table(laid_over(below, above)),
            _ => value.clone(),
        };
        under.insert(key.clone(), value);
    }
    under
}

/// The settings with those of the profile that they choose, and its name.
pub(super) fn with_chosen(settings: Table) -> Result<(Table, Option<String>), ImportError> {
    let Some(name) = settings.get("profile") else { return Ok((settings, None)) };
    let name = name.as_str().ok_or_else(|| wrong("profile", "it is not a text"))?.to_owned();
    let chosen = settings.get("profiles").and_then(|all| all.get(&name)).and_then(Value::as_table);
    let chosen = chosen.ok_or_else(|| {
        wrong(
            "profile",
            "there is no [profiles.<name>] of that name here; put its keys at the top of the file",
        )
    })?;
    let mut of_sandbox = chosen.clone();
    of_sandbox.retain(|key, _| OF_PROFILE.contains(&key));
    if of_sandbox.contains_key("default_permissions")
        && !of_sandbox.contains_key("sandbox_mode")
        && settings.contains_key("sandbox_mode")
    {
        let why = "it names default_permissions, and sandbox_mode is set beside it: leave one of them out";
        return Err(wrong("profile", why));
    }
    let settings = laid_over(settings.clone(), &of_sandbox);
    Ok((settings, Some(name)))
}

/// A permission profile with all that it inherits, and the profile of Codex's own that it begins from.
pub(super) fn with_inherited(settings: &Table, name: &str) -> Result<(Table, Option<String>), ImportError> {
    let mut chain = Vec::new();
    let mut at = name.to_owned();
    loop {
        let profile = settings.get("permissions").and_then(|all| all.get(&at)).and_then(Value::as_table);
        let profile = profile.ok_or_else(|| {
            let setting =
                if chain.is_empty() { "default_permissions".into() } else { format!("extends: {at}") };
            wrong(&setting, "there is no [permissions.<name>] of that name")
        })?;
        let repeats = chain.iter().any(|seen: &&Table| std::ptr::eq(*seen, profile));
        if repeats {
            return Err(wrong(&format!("permissions.{at}.extends"), "it extends itself"));
        }
        chain.push(profile);
        match profile.get("extends") {
            None => break Ok((merged(&chain), None)),
            Some(Value::String(own)) if own.starts_with(':') => {
                break Ok((merged(&chain), Some(own.clone())));
            }
            Some(Value::String(base)) => at = base.clone(),
            Some(_) => return Err(wrong(&format!("permissions.{at}.extends"), "it is not a text")),
        }
    }
}

/// The last one is the base of all.
fn merged(chain: &[&Table]) -> Table {
    chain.iter().rev().fold(Table::new(), |under, over| laid_over(under, over))
}
