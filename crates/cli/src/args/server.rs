//! The server, its keys and its audit.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfence_policy::Span;
use ringfence_store::{ActionState, Role, Scope};

use super::{ClientName, PolicyFlags};

/// Serve sandboxes over HTTP
#[derive(Debug, Args)]
#[command(after_help = "\
The first start prints a URL with a one-time token: exchange it for a key, or make keys with `ringfence key create`.
SIGTERM ends the server when its streams have ended, a second one at once; sandboxes live on and are found again.
SIGHUP reads the certificate and the keys of tokens again.

Examples:
  ringfence serve
  ringfence serve --listen 127.0.0.1:8080 --socket /run/ringfence.sock
  ringfence serve --listen 0.0.0.0:443 --beyond-loopback --allow-name sandbox.example.com \\
       --tls-cert chain.pem --tls-key key.pem
  curl -H \"Authorization: Bearer $KEY\" -d '{\"command\":[\"uname\",\"-a\"]}' \\
       -H 'Content-Type: application/json' http://127.0.0.1:7070/v1/run")]
pub(crate) struct ServeArgs {
    /// Address and port; may be given again [default: 127.0.0.1:7070, if there is no --socket]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// A unix socket, for this user only
    #[arg(long, value_name = "PATH", alias = "unix")]
    pub(crate) socket: Vec<PathBuf>,
    /// The certificate chain (PEM): every address speaks TLS; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Ceilings and quotas for each role, limits, tokens
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Another name that the server is reached by
    #[arg(long = "allow-name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Listen on addresses that other machines can reach
    #[arg(long)]
    pub(crate) beyond_loopback: bool,
    /// Serve whoever asks, as an admin
    #[arg(long)]
    pub(crate) without_authentication: bool,
    /// Log as lines of JSON
    #[arg(long)]
    pub(crate) json_logs: bool,
    /// Print where the server listens as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serve an agent over the Model Context Protocol, on stdin and stdout
#[derive(Debug, Args)]
#[command(after_help = "\
An MCP client starts this command in the directory that its agent may work in. Commands, files and skills of the agent
are in a sandbox there, under the policy that `ringfence run` would have; flags and config files are the most that the
agent can have. Everything ends with the client, but sessions that were given a name.

Examples:
  ringfence mcp
  ringfence mcp --private
  ringfence mcp --workspace ~/project --allow-host api.example.com
  claude mcp add ringfence -- ringfence mcp
  codex mcp add ringfence -- ringfence mcp")]
pub(crate) struct McpArgs {
    /// Work in an empty directory that is gone at the end, not in this one
    #[arg(long, conflicts_with = "workspace", help_heading = "Files")]
    pub(crate) private: bool,
    /// Refuse commands that your own deny rules for this client's shell refuse; `setup` writes it
    #[arg(long, value_name = "CLIENT")]
    pub(crate) rules_of: Option<ClientName>,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

/// Watch sandboxes, commands and denials
#[derive(Debug, Args)]
#[command(after_help = "\
Without --url it shows the sessions of this user on this machine. A server is asked with the key in
--key-file or RINGFENCE_KEY; an admin's key shows everybody's, and what the server counts.
On a terminal `q` ends it.

Examples:
  ringfence top
  ringfence top --url http://127.0.0.1:7070 --key-file key
  ringfence top --once --json | jq '.sandboxes | length'")]
pub(crate) struct TopArgs {
    /// The server to watch
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file with the key
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) key_file: Option<PathBuf>,
    /// Look again after this time
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) every: Span,
    /// Look once, print, end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print each look as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make, list and revoke keys of the server
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ringfence key create --user ada --role operator --expires 30d
  ringfence key ls --user ada
  ringfence key rm 3f9c2a71d0b4e586")]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Make a key, and its user if there is none of that name; the key is shown this once
    Create {
        #[arg(long, value_name = "NAME")]
        user: String,
        /// viewer, operator, approver or admin
        #[arg(long, value_name = "ROLE", default_value = "operator")]
        role: Role,
        /// It is good for so long: 30d is 720h
        #[arg(long, value_name = "TIME", value_parser = expiry)]
        expires: Option<Span>,
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// All keys, without their secrets
    Ls {
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key for good
    Rm { id: String },
}

/// Times as elsewhere, and days: `30d`.
fn expiry(text: &str) -> Result<Span, String> {
    if let Some(days) = text.strip_suffix('d') {
        let days: u64 = days.parse().map_err(|_| format!("`{text}` is no number of days"))?;
        return days.checked_mul(86_400).map(Span::from_secs).ok_or_else(|| format!("`{text}` is too long"));
    }
    text.parse::<Span>().map_err(|error| error.to_string())
}

/// Decide on what waits for a person
#[derive(Debug, Args)]
#[command(after_help = "\
Whoever can write the server's database may decide, under the name of their account. Nobody decides on a high or
critical action of a user of that name.

Examples:
  ringfence actions ls --state waiting
  ringfence actions show 019a93c2f1d07c3e8b52a7d4e6f80912
  ringfence actions approve 019a93c2f1d07c3e8b52a7d4e6f80912 --remember hour --reason 'seen the diff'
  ringfence actions deny 019a93c2f1d07c3e8b52a7d4e6f80912 --reason 'not on a Friday'
  ringfence actions watch")]
pub(crate) struct ActionsArgs {
    #[command(subcommand)]
    pub(crate) verb: ActionsVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ActionsVerb {
    /// The newest actions
    Ls {
        /// waiting, approved, denied, cancelled, expired, running, done or failed
        #[arg(long, value_name = "STATE")]
        state: Option<ActionState>,
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        #[arg(long)]
        json: bool,
    },
    /// One action: what would be done, why it is of its level, who decided
    Show {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// Let it be done, by whoever submitted it
    Approve {
        id: String,
        /// How long it holds for exactly the same by the same user: once, session, hour or always
        #[arg(long, value_name = "SCOPE", default_value = "once")]
        remember: Scope,
        /// For whoever asked
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Refuse it
    Deny {
        id: String,
        /// For whoever asked
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Take back what waits, or was approved and has not begun
    Cancel {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// Approvals that hold for more than one action
    Remembered {
        #[arg(long)]
        json: bool,
    },
    /// Withdraw such an approval
    Forget { id: String },
    /// Tell what happens to actions, until interrupted
    Watch {
        /// Begin after this event; 0 is the first there is
        #[arg(long, value_name = "N")]
        from: Option<i64>,
        /// A line of JSON for each event
        #[arg(long)]
        json: bool,
    },
}

/// What happened on the server, and the proof that the record is whole
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ringfence audit ls --user ada
  ringfence audit verify --anchor /mnt/elsewhere/audit.anchor
  ringfence audit verify --config server.toml
  ringfence audit export > audit.jsonl")]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) verb: AuditVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditVerb {
    /// The last rows
    Ls {
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        #[arg(long)]
        json: bool,
    },
    /// All rows as lines of JSON, with their digests
    Export {
        /// Begin at this row
        #[arg(long, value_name = "ROW", default_value_t = 0)]
        from: i64,
    },
    /// Find any edit, deletion, insertion, reordering or cut tail; exit status 1 if there is one
    Verify {
        /// Another anchor to hold the chain against
        #[arg(long, value_name = "FILE")]
        anchor: Vec<PathBuf>,
        /// The server's configuration, for the anchors that it names
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Take the record as it is for true, whatever the anchors say: after somebody has looked into what `verify` found. It leaves a row
    ResetAnchors {
        /// What was found and why it is fine; it is kept in the record
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// The server's configuration, for the anchors that it names
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}
