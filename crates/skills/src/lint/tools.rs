//! `allowed-tools` that give more than a task needs.

use super::finding::excerpt;
use super::report::Report;
use super::rules::BROAD_TOOLS;

pub(super) fn check(report: &mut Report, manifest: &str, line: Option<u32>, tools: &[String]) {
    for tool in tools {
        if let Some(why) = breadth(tool) {
            report.add(&BROAD_TOOLS, manifest, line, &format!("{}: {why}", excerpt(tool.as_bytes())));
        }
    }
}

/// What an entry gives beyond measure.
fn breadth(tool: &str) -> Option<&'static str> {
    let tool = tool.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    let (name, pattern) = match tool.split_once('(') {
        Some((name, rest)) => (name.trim(), Some(rest.trim_end_matches(')').trim())),
        None => (tool.as_str(), None),
    };
    match (name, pattern) {
        ("*" | "all" | "any" | ".*", _) => Some("every tool"),
        (name, None)
            if name.starts_with("mcp__") && name.ends_with('*') && name.matches("__").count() < 2 =>
        {
            Some("every tool of every server")
        }
        (
            "bash" | "shell" | "powershell" | "run_shell_command" | "execute",
            None | Some("" | "*" | "*:*" | ":*" | "**"),
        ) => Some("every command"),
        ("bash" | "shell" | "powershell" | "run_shell_command" | "execute", Some(pattern)) => {
            interpreter(pattern)
        }
        ("write" | "edit" | "read", Some("/**" | "//**" | "~/**" | "/*" | "//*" | "~/*")) => {
            Some("every file of the user")
        }
        _ => None,
    }
}

/// A pattern whose command runs whatever follows it.
fn interpreter(pattern: &str) -> Option<&'static str> {
    const ANY_COMMAND: [&str; 20] = [
        "sudo",
        "su",
        "doas",
        "bash",
        "sh",
        "zsh",
        "dash",
        "eval",
        "exec",
        "env",
        "xargs",
        "ssh",
        "python",
        "python3",
        "node",
        "perl",
        "ruby",
        "npx",
        "uvx",
        "osascript",
    ];
    let (command, rest) = pattern.split_once([':', ' ']).unwrap_or((pattern, ""));
    let command = command.rsplit('/').next().unwrap_or(command);
    let open = rest.is_empty()
        || rest.trim_matches([' ', ':']) == "*"
        || matches!(rest, "-c:*" | "-c *" | "-e:*" | "-e *");
    // `sudo apt:*` is still root.
    let root = matches!(command, "sudo" | "su" | "doas");
    (ANY_COMMAND.contains(&command) && (root || (open && pattern.contains('*'))))
        .then_some("a command that runs any other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_told_from_something() {
        for tool in [
            "*",
            "Bash",
            "Bash(*)",
            "Bash(*:*)",
            "bash(:*)",
            "mcp__*",
            "Bash(sudo apt:*)",
            "Bash(python3:*)",
            "Bash(sh -c:*)",
            "Write(//**)",
        ] {
            assert!(breadth(tool).is_some(), "{tool}");
        }
        for tool in [
            "Read",
            "Bash(git status:*)",
            "Bash(python3 scripts/run.py:*)",
            "mcp__github__*",
            "Grep",
            "Write(./out/**)",
            "Bash(npm test)",
            "Bash(node scripts/x.js *)",
        ] {
            assert!(breadth(tool).is_none(), "{tool}");
        }
    }
}
