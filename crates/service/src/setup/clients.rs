//! Where each client keeps its settings, and what they are to say.

use std::path::PathBuf;

use serde_json::json;

use super::edit::Edit;
use super::syntax::Syntax;
use super::{Client, SetupMode, SetupScope, SetupSpec};
use super::{gate, link};
use crate::places::Places;

/// A settings file and what it is to say.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) syntax: Syntax,
    pub(super) edits: Vec<Edit>,
}

/// A directory or file that a client's own variable names; a relative one begins where the client works, as we do.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    std::path::absolute(std::env::var_os(name)?).ok()
}

/// Where Gemini CLI looks for `.gemini`.
pub(crate) fn gemini_home(places: &Places) -> PathBuf {
    variable("GEMINI_CLI_HOME").unwrap_or_else(|| places.home.clone())
}

pub(super) fn files(places: &Places, spec: &SetupSpec) -> Vec<SettingsFile> {
    let is_user = spec.scope == SetupScope::User;
    let (home, project) = (&places.home, &places.current);
    let wraps = spec.mode != SetupMode::Mcp;
    // Where the client's own shell is off, the tool in its place is the server's.
    let serves = spec.mode != SetupMode::Wrap || matches!(spec.client, Client::Codex | Client::Gemini);
    let program = spec.program.to_string_lossy().into_owned();
    let arguments = server_arguments(spec.client);
    let server = json!({ "command": program, "args": arguments });
    let mut files = Vec::new();
    match spec.client {
        Client::ClaudeCode => {
            let own = variable("CLAUDE_CONFIG_DIR");
            let mut global = Vec::new();
            if wraps {
                let directory = own.clone().unwrap_or_else(|| home.join(".claude"));
                // It names a place on this machine, which is nothing for others who work on the project.
                let path = match is_user {
                    true => directory.join("settings.json"),
                    false => project.join(".claude/settings.local.json"),
                };
                // A stdio server is started through it too, and its client takes all of it for the name of a program then.
                let value = match serves {
                    true => json!(link::place(places, spec.client).to_string_lossy()),
                    false => json!(format!("{program} --wrap=claude-code")),
                };
                let prefix = Edit::Json { path: &["env", "CLAUDE_CODE_SHELL_PREFIX"], value };
                let hook = Edit::JsonItem { path: &["hooks", "PreToolUse"], item: gate::hook() };
                // A mistake that somebody makes in their settings later takes all of them away, but not this second place.
                global.push(prefix.clone());
                files.push(SettingsFile { path, syntax: Syntax::ClaudeSettings, edits: vec![prefix, hook] });
            }
            let server = Edit::Json { path: &["mcpServers", "ringfence"], value: server };
            if is_user {
                global.extend(serves.then_some(server));
                let path = own.unwrap_or_else(|| home.clone()).join(".claude.json");
                files.push(SettingsFile { path, syntax: Syntax::Json, edits: global });
            } else if serves {
                let path = project.join(".mcp.json");
                files.push(SettingsFile { path, syntax: Syntax::Json, edits: vec![server] });
            }
        }
        Client::Codex => {
            let directory = match is_user {
                true => variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
                false => project.join(".codex"),
            };
            let mut edits = Vec::new();
            if serves {
                let set = |path: &'static [&'static str], value| Edit::Toml { path, value };
                edits.push(set(&["mcp_servers", "ringfence", "command"], json!(program)));
                edits.push(set(&["mcp_servers", "ringfence", "args"], json!(arguments)));
                let mode = &["mcp_servers", "ringfence", "default_tools_approval_mode"];
                edits.push(set(mode, json!("approve")));
            }
            if wraps {
                edits.push(Edit::Toml { path: &["features", "shell_tool"], value: json!(false) });
                edits.push(Edit::Toml { path: &["features", "unified_exec"], value: json!(false) });
            }
            files.push(SettingsFile { path: directory.join("config.toml"), syntax: Syntax::Toml, edits });
        }
        Client::Gemini => {
            let directory = if is_user { gemini_home(places) } else { project.clone() }.join(".gemini");
            let mut edits = Vec::new();
            if serves {
                edits.push(Edit::Json { path: &["mcpServers", "ringfence"], value: server });
            }
            if wraps {
                edits.push(Edit::JsonItem { path: &["tools", "exclude"], item: json!("run_shell_command") });
            }
            let path = directory.join("settings.json");
            files.push(SettingsFile { path, syntax: Syntax::Comments, edits });
        }
        Client::Opencode => {
            let directory =
                variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("opencode");
            let path = match is_user {
                true => directory.join("opencode.json"),
                false => project.join("opencode.json"),
            };
            let mut edits = Vec::new();
            if serves || wraps {
                let command: Vec<&str> = std::iter::once(&*program).chain(arguments).collect();
                let value = json!({ "type": "local", "command": command, "enabled": true });
                edits.push(Edit::Json { path: &["mcp", "ringfence"], value });
            }
            if wraps {
                edits.push(Edit::Json { path: &["tools", "bash"], value: json!(false) });
            }
            files.push(SettingsFile { path, syntax: Syntax::CommentsAndCommas, edits });
            if wraps && is_user {
                let path = directory.join("plugin/ringfence.js");
                let edits = vec![Edit::Whole { text: gate::OPENCODE_PLUGIN }];
                files.push(SettingsFile { path, syntax: Syntax::Whole, edits });
            }
        }
    }
    files
}

/// How the client is to start the server: with its own deny rules, which it does not see match there.
pub(super) fn server_arguments(client: Client) -> [&'static str; 3] {
    ["mcp", "--rules-of", client.as_str()]
}

/// How a person sees for themselves that it holds.
pub fn how_to_check(client: Client) -> &'static str {
    match client {
        Client::ClaudeCode => {
            "to check: `claude doctor` lists settings files that it leaves out, and a Bash command \
            `echo $RINGFENCE` prints 1 in the fence"
        }
        Client::Codex | Client::Gemini | Client::Opencode => {
            "to check: ask the model which tools it has; its own shell is \
            not among them, and `echo $RINGFENCE` by sandbox_run prints 1"
        }
    }
}

/// Which of the client's own rules `ringfence mcp` does not know.
fn rules_that_remain(client: Client) -> &'static str {
    match client {
        Client::ClaudeCode => {
            "open: your deny rules `Bash(…)`, `Read(…)`, `Edit(…)` and `WebFetch(domain:…)` hold for the tools of ringfence \
            too, a pattern for the files that are there when a sandbox is made; `ask` rules, hooks, and rules or a mode \
            given by a flag do not"
        }
        Client::Codex => {
            "open: `forbidden` prefix rules of rules/*.rules and a read-only `sandbox_mode` or `default_permissions` of a \
            config.toml hold for the tools of ringfence; rules that ask (`prompt`), those of a requirements.toml, and a mode \
            given by a flag do not"
        }
        Client::Gemini => {
            "open: `run_shell_command(…)` in `tools.exclude` and deny rules by `commandPrefix` in policies/*.toml \
            hold for sandbox_run, and `write_file` or `read_file` in `tools.exclude` for all tools of ringfence; rules by \
            `commandRegex` or `argsPattern`, those about file tools, those that ask, and a `tools.core` that names some \
            commands only do not"
        }
        Client::Opencode => {
            "open: deny rules of `permission.bash`, `edit` and `read` hold for the tools of ringfence, a pattern for the \
            files that are there when a sandbox is made; those that ask, and those of a single agent, do not"
        }
    }
}

/// How the client is held, and what is not.
pub(super) fn notes(spec: &SetupSpec) -> Vec<String> {
    let mut notes = Vec::new();
    if (spec.client, spec.mode) != (Client::ClaudeCode, SetupMode::Wrap) {
        notes.push(rules_that_remain(spec.client).to_owned());
    }
    if spec.mode != SetupMode::Mcp {
        notes.push(match spec.client {
            Client::ClaudeCode if spec.mode == SetupMode::Both => "every Bash command of Claude Code is started by \
                `ringfence`; where it is missing or broken nothing runs. Your rules see the command as the model wrote it. Your \
                own hooks and your other stdio MCP servers run in the sandbox too",
            Client::ClaudeCode => "every Bash command of Claude Code is started by `ringfence`; where it is missing or \
                broken nothing runs. Your rules see the command as the model wrote it. Your own hooks run in the sandbox too, and \
                your stdio MCP servers do not start while this is set (those over HTTP do; with --mode both they run in \
                the sandbox)",
            Client::Codex => "Codex's shell tools are off, and `sandbox_run` of `ringfence mcp` is in their place; \
                where it is missing there is no shell at all",
            Client::Gemini => "`run_shell_command` of Gemini CLI is off, and `sandbox_run` of `ringfence mcp` is in its \
                place; where it is missing there is no shell at all",
            Client::Opencode => "the bash tool of opencode is off, and `sandbox_run` of `ringfence mcp` is in its \
                place; where it is missing there is no shell at all",
        }
        .to_owned());
        notes.push(match spec.client {
            Client::ClaudeCode => "open: the client's other tools (Read, Edit, Write, WebFetch, MCP servers) are not \
                shell commands and stay under its own permissions; turn `sandbox.enabled` of its own off. `ringfence \
                agent -- claude` puts the whole client in a sandbox",
            Client::Codex => "open: apply_patch and other MCP servers stay under Codex's own permissions; a later \
                `--enable shell_tool` or another profile turns the shell on again",
            Client::Gemini => "open: the client's file and web tools and other MCP servers stay under its own \
                permissions",
            Client::Opencode => "open: the client's file and web tools, plugins and other MCP servers stay under its \
                own permissions",
        }
        .to_owned());
        notes.push(match spec.client {
            Client::ClaudeCode => "open: the .claude/settings.json of a project that you cloned counts for more than yours, \
                in `claude -p` without a question. If it replaces the prefix, a hook of ours stops Bash; but with \
                `disableAllHooks`, or with a program of its own as the prefix, it has commands run outside. Look at it first, \
                or start `ringfence agent -- claude`. Variables in its `env` that act on a shell (LD_PRELOAD, BASH_ENV) do so before \
                ringfence is started, outside; those of ringfence itself are refused",
            Client::Codex => "open: the .codex/config.toml of a project that you cloned counts for more than yours, in \
                `codex exec` also where you did not trust it: `features.shell_tool = true` there turns the shell on again. \
                `projects.\"DIRECTORY\".trust_level = \"untrusted\"` in your own config.toml keeps it out",
            Client::Gemini => "open: a project that you trusted can bring MCP servers and hooks of its own, which run \
                outside, and variables by its .env, of which those of ringfence are refused; it can't bring the shell back",
            Client::Opencode if spec.scope == SetupScope::User => "open: a project that you cloned can bring plugins and \
                MCP servers of its own, which run outside. Where it turns `bash` on again, or a rule of `permission.bash` in any \
                settings does, yours too, a plugin of ours stops it, and that alone: a plugin file that is gone or broken opencode \
                leaves out without a word, and bash runs outside",
            Client::Opencode => "open: an agent, another settings file of the project, or a rule of `permission.bash` in \
                any of them, yours too, turns `bash` on again, and its plugins and MCP servers run outside; `--scope user` \
                stops the first by a plugin",
        }
        .to_owned());
        let of_project = match spec.client {
            Client::ClaudeCode => None,
            Client::Codex | Client::Gemini => {
                Some("open: the client reads a project's settings only after you trusted the folder")
            }
            Client::Opencode => Some(
                "opencode writes `$schema` into the project's opencode.json itself: with that in it --remove leaves the \
                file, and nothing of ours in it",
            ),
        };
        if spec.scope == SetupScope::Project {
            notes.extend(of_project.map(str::to_owned));
        }
    }
    notes
}
