//! Gemini CLI: `tools.exclude` (`excludeTools` before that), and the rules of `policies/*.toml`.

use std::path::Path;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::read::texts;
use super::{Pattern, Rule, RuleRefusal, RuleSet, unreadable};

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

/// As far as they are about the shell: of those that match the highest priority decides, of two alike the first. A rule by a
/// regular expression is not read here: `setup` says that such rules remain open. One that names a server is about its tools
/// alone, and Gemini CLI holds it itself.
pub(super) fn policies(file: &Path, text: &str) -> Result<Vec<RuleSet>, RuleRefusal> {
    let settings: Table = toml::from_str(text).map_err(|error| unreadable(file, error.message()))?;
    let rules = match settings.get("rule") {
        None => return Ok(Vec::new()),
        Some(Value::Array(rules)) => rules,
        Some(_) => return Err(unreadable(file, "`rule` is not a list of tables")),
    };
    let mut found: Vec<(f64, Rule)> = Vec::new();
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
        let priority = match rule.get("priority") {
            None => 0.0,
            Some(Value::Integer(number)) => *number as f64,
            Some(Value::Float(number)) => *number,
            Some(_) => return Err(unreadable(file, "the `priority` of a rule is no number")),
        };
        let tools = one_or_more("toolName")?;
        let prefixes = one_or_more("commandPrefix")?;
        let by_pattern = rule.get("commandRegex").is_some() || rule.get("argsPattern").is_some();
        let of_shell = tools.iter().any(|tool| tool == TOOL || tool == "*") || !prefixes.is_empty();
        if rule.get("mcpName").is_some() || !of_shell || (by_pattern && (!denies || prefixes.is_empty())) {
            continue;
        }
        let mut add = |text: String, pattern| found.push((priority, Rule { text, pattern, denies }));
        for prefix in &prefixes {
            add(format!("commandPrefix = {prefix}"), Pattern::Begins(prefix.clone()));
        }
        if prefixes.is_empty() {
            add(format!("deny {}", tools.join(", ")), Pattern::Glob("*".into()));
        }
    }
    // The last that matches decides.
    found.reverse();
    found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let rules = found.into_iter().map(|(_, rule)| rule).collect();
    Ok(vec![RuleSet { file: file.to_owned(), rules }])
}
