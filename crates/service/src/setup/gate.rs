//! What stands in front of a client's shell where settings that come after ours took the fence away: a project that was
//! cloned has settings of its own, and some clients give them more weight than their user's.
//!
//! Invariant: each of them says no by itself. Claude Code's hook is a line that any shell ends with a refusal; only Ringfence,
//! started as the prefix that is in force, knows it and lets the command come to it. opencode's plugin lets nothing through.

use std::ffi::OsStr;

use serde_json::{Value, json};

use super::Client;

/// The command of the hook. A hook that can't be started does not stop a command; then neither is there a prefix that could
/// run it.
const LINE: &str = "echo 'ringfence: this command would run outside of the fence, so it does not run. Another setting has \
    replaced CLAUDE_CODE_SHELL_PREFIX: see env in .claude/settings.json of the project. Tell the user' >&2; exit 2";

/// Less than a person waits for: where it hangs, the command after it hangs in the same program.
const SECONDS: u32 = 10;

/// The member of `hooks.PreToolUse`.
pub(super) fn hook() -> Value {
    json!({ "matcher": "Bash|Monitor", "hooks": [{ "type": "command", "command": LINE, "timeout": SECONDS }] })
}

/// One that some `ringfence setup` wrote.
pub(super) fn is_hook(value: &Value) -> bool {
    let commands =
        value["hooks"].as_array().into_iter().flatten().filter_map(|hook| hook["command"].as_str());
    let mut commands = commands.peekable();
    commands.peek().is_some() && commands.all(|command| command.starts_with("echo 'ringfence: "))
}

/// The client asks, through the prefix that is in force, whether a command may be run: it is ours, so it may.
pub fn is_gate(client: Client, command: &OsStr) -> bool {
    client == Client::ClaudeCode && command == LINE
}

/// A global plugin of opencode's: settings of a project can turn its bash on again, and no setting turns a plugin off.
pub(super) const OPENCODE_PLUGIN: &str = "// Written by `ringfence setup opencode`: commands run in a sandbox, by \
    sandbox_run, whatever a project's settings say.\nexport const Ringfence = async () => ({\n  \"tool.execute.before\": async \
    (input) => {\n    if (input.tool === \"bash\") {\n      throw new Error(\"ringfence: the bash tool is off, use \
    ringfence_sandbox_run\")\n    }\n  },\n})\n";
