//! Where each client keeps its settings, and what they are to say.

use std::path::PathBuf;

use serde_json::json;

use super::edit::Edit;
use super::link;
use super::{Client, SetupMode, SetupScope, SetupSpec};
use crate::places::Places;

/// A settings file and what it is to say.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) edits: Vec<Edit>,
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

pub(super) fn files(places: &Places, spec: &SetupSpec) -> Vec<SettingsFile> {
    let is_user = spec.scope == SetupScope::User;
    let (home, project) = (&places.home, &places.current);
    let wraps = spec.mode != SetupMode::Mcp;
    // Where the client's own shell is off, the tool in its place is the server's.
    let serves = spec.mode != SetupMode::Wrap || matches!(spec.client, Client::Codex | Client::Gemini);
    let program = spec.program.to_string_lossy().into_owned();
    let server = json!({ "command": program, "args": ["mcp"] });
    let mut files = Vec::new();
    match spec.client {
        Client::ClaudeCode => {
            let own = variable("CLAUDE_CONFIG_DIR");
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
                files.push(SettingsFile { path, edits: vec![prefix] });
            }
            if serves {
                let path = match is_user {
                    true => own.unwrap_or_else(|| home.clone()).join(".claude.json"),
                    false => project.join(".mcp.json"),
                };
                let edits = vec![Edit::Json { path: &["mcpServers", "ringfence"], value: server }];
                files.push(SettingsFile { path, edits });
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
                edits.push(set(&["mcp_servers", "ringfence", "args"], json!(["mcp"])));
                let mode = &["mcp_servers", "ringfence", "default_tools_approval_mode"];
                edits.push(set(mode, json!("approve")));
            }
            if wraps {
                edits.push(Edit::Toml { path: &["features", "shell_tool"], value: json!(false) });
                edits.push(Edit::Toml { path: &["features", "unified_exec"], value: json!(false) });
            }
            files.push(SettingsFile { path: directory.join("config.toml"), edits });
        }
        Client::Gemini => {
            let directory = if is_user { home.join(".gemini") } else { project.join(".gemini") };
            let mut edits = Vec::new();
            if serves {
                edits.push(Edit::Json { path: &["mcpServers", "ringfence"], value: server });
            }
            if wraps {
                edits.push(Edit::JsonItem { path: &["tools", "exclude"], item: "run_shell_command" });
            }
            files.push(SettingsFile { path: directory.join("settings.json"), edits });
        }
        Client::Opencode => {
            let path = match is_user {
                true => variable("XDG_CONFIG_HOME")
                    .unwrap_or_else(|| home.join(".config"))
                    .join("opencode/opencode.json"),
                false => project.join("opencode.json"),
            };
            let mut edits = Vec::new();
            if serves || wraps {
                let value = json!({ "type": "local", "command": [program, "mcp"], "enabled": true });
                edits.push(Edit::Json { path: &["mcp", "ringfence"], value });
            }
            if wraps {
                edits.push(Edit::Json { path: &["tools", "bash"], value: json!(false) });
            }
            files.push(SettingsFile { path, edits });
        }
    }
    files
}

/// How the client is held, and what is not.
pub(super) fn notes(spec: &SetupSpec) -> Vec<String> {
    let mut notes = Vec::new();
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
                own permissions; an agent of yours that turns `bash` on again has it",
        }
        .to_owned());
        if spec.scope == SetupScope::Project && matches!(spec.client, Client::Codex | Client::Gemini) {
            notes.push(
                "open: the client reads a project's settings only after you trusted the folder".to_owned(),
            );
        }
    }
    notes
}
