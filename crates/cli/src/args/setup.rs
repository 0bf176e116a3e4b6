//! `ringfence setup`, `wrap`, `agent` and `policy import` as they are typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ringfence_policy::ImportFrom;
use ringfence_service::{Client, SetupMode, SetupScope};

use super::SessionCreateArgs;

#[derive(Debug, Args)]
pub(crate) struct PolicyImportArgs {
    /// Whose settings: srt, claude-code, codex or gemini
    #[arg(long, value_name = "TOOL", value_parser = str::parse::<ImportFrom>)]
    pub(crate) from: ImportFrom,
    /// The settings; else those at their usual place, the project's before yours
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make an agent's client run its shell commands in a sandbox, or take that back.
#[derive(Debug, Args)]
#[command(
    after_help = "Shows the changes to the client's settings, keeps what they held, and undoes itself with --remove.\n\nExamples:\n  ringfence setup claude-code                     its Bash runs in the fence, for every project of yours\n  ringfence setup claude-code --scope project     for this project alone\n  ringfence setup codex --mode both --dry-run     show it, change nothing\n  ringfence setup claude-code --remove            as it was before"
)]
pub(crate) struct SetupArgs {
    #[arg(value_name = "CLIENT")]
    pub(crate) client: ClientName,
    /// Your own settings, or those of this project
    #[arg(long, value_name = "WHOSE", default_value = "user")]
    pub(crate) scope: ScopeName,
    /// wrap: its shell commands; mcp: Ringfence's tools beside its own
    #[arg(long, value_name = "MODE", default_value = "wrap")]
    pub(crate) mode: ModeName,
    /// Show the changes and make none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take it back
    #[arg(long)]
    pub(crate) remove: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run one shell command of a client in a sandbox: what `setup` has the client start.
#[derive(Debug, Args)]
#[command(
    after_help = "The workspace is the directory that the client was started in.\n\nExample:\n  ringfence wrap --client claude-code -- 'make test'"
)]
pub(crate) struct WrapArgs {
    /// Whose command it is
    #[arg(long, value_name = "CLIENT", default_value = "claude-code")]
    pub(crate) client: ClientName,
    /// The command, for a shell
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: OsString,
}

/// Run a whole agent, of any client, inside a session.
#[derive(Debug, Args)]
#[command(
    after_help = "The agent has a home of its own, which goes when it ends unless --keep is given. It reaches what the policy allows: name its API with --allow-host, and give its key with --secret, so that it never sees it, or with --pass-env. An ACP client starts `ringfence agent -- CMD` as it would start CMD.\n\nExamples:\n  ringfence agent --allow-host api.anthropic.com --pass-env ANTHROPIC_API_KEY -- claude\n  ringfence agent --name work --keep --allow-host api.openai.com --secret OPENAI_API_KEY=env:OPENAI_API_KEY@api.openai.com -- codex\n  ringfence agent -- gemini --acp"
)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) session: SessionCreateArgs,
    /// Keep the session, with the agent's home, when the agent ends
    #[arg(long)]
    pub(crate) keep: bool,
    /// The agent and its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClientName {
    ClaudeCode,
    Codex,
    Gemini,
    Opencode,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScopeName {
    User,
    Project,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModeName {
    Mcp,
    Wrap,
    Both,
}

impl From<ClientName> for Client {
    fn from(name: ClientName) -> Self {
        match name {
            ClientName::ClaudeCode => Client::ClaudeCode,
            ClientName::Codex => Client::Codex,
            ClientName::Gemini => Client::Gemini,
            ClientName::Opencode => Client::Opencode,
        }
    }
}

impl From<ScopeName> for SetupScope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::User => SetupScope::User,
            ScopeName::Project => SetupScope::Project,
        }
    }
}

impl From<ModeName> for SetupMode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Mcp => SetupMode::Mcp,
            ModeName::Wrap => SetupMode::Wrap,
            ModeName::Both => SetupMode::Both,
        }
    }
}
