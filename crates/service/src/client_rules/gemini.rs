//! Gemini CLI: `tools.exclude` (`excludeTools` before that), and the rules of `policies/*.toml`.

use std::path::Path;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::read::texts;
use super::{Pattern, RuleRefusal, RuleSet, unreadable};

const TOOL: &str = "run_shell_command";

pub(super) fn settings(file: &Path, settings: &Json) -> Result<Vec<RuleSet>, RuleRefusal> {
    let mut found = Vec::new();
    for place in [&settings["tools"]["exclude"], &settings["excludeTools"]] {
        for text in texts(file, "tools.exclude", place)? {
            // The tool without a command is what `setup` itself writes.
            let of_tool = text.strip_prefix(TOOL).or_else(|| text.strip_prefix("ShellTool"));
            if let Some(prefix) = of_tool.and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'))
                && !prefix.trim().is_empty()
            {
                let pattern = Pattern::Begins(prefix.trim().to_owned());
                found.push(RuleSet::denying(file, text.clone(), pattern));
            }
        }
    }
    Ok(found)
}

/// A rule by a regular expression is not read here: `setup` says that such rules remain open.
pub(super) fn policies(file: &Path, text: &str) -> Result<Vec<RuleSet>, RuleRefusal> {
    let settings: Table = toml::from_str(text).map_err(|error| unreadable(file, error.message()))?;
    let mut found = Vec::new();
    let rules = match settings.get("rule") {
        None => return Ok(found),
        Some(Value::Array(rules)) => rules,
        Some(_) => return Err(unreadable(file, "`rule` is not a list of tables")),
    };
    for rule in rules {
        let one_or_more = |name: &str| -> Result<Vec<String>, RuleRefusal> {
            let wrong = || unreadable(file, format!("`{name}` of a rule is not a text or a list of texts"));
            match rule.get(name) {
                None => Ok(Vec::new()),
                Some(Value::String(text)) => Ok(vec![text.clone()]),
                Some(Value::Array(list)) => {
                    list.iter().map(|text| text.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
                }
                Some(_) => Err(wrong()),
            }
        };
        let denies = match rule.get("decision").and_then(Value::as_str) {
            Some("deny") => true,
            Some("allow" | "ask_user") => false,
            _ => {
                return Err(unreadable(file, "the `decision` of a rule is none of allow, ask_user and deny"));
            }
        };
        let tools = one_or_more("toolName")?;
        let prefixes = one_or_more("commandPrefix")?;
        let by_pattern = rule.get("commandRegex").is_some() || rule.get("argsPattern").is_some();
        let of_shell = tools.iter().any(|tool| tool == TOOL || tool == "*") || !prefixes.is_empty();
        if !denies || !of_shell {
            continue;
        }
        for prefix in &prefixes {
            let pattern = Pattern::Begins(prefix.clone());
            found.push(RuleSet::denying(file, format!("commandPrefix = {prefix}"), pattern));
        }
        if prefixes.is_empty() && !by_pattern {
            let text = format!("deny {}", tools.join(", "));
            found.push(RuleSet::denying(file, text, Pattern::Glob("*".into())));
        }
    }
    Ok(found)
}
