//! The server, its keys and its audit.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfence_policy::Span;
use ringfence_store::Role;

/// Serve sandboxes over HTTP
#[derive(Debug, Args)]
#[command(after_help = "\
The first start prints a URL with a one-time token: exchange it for a key, or make keys with `ringfence key create`.
SIGTERM ends the server when its streams have ended; sandboxes live on and are found again.

Examples:
  ringfence serve
  ringfence serve --listen 127.0.0.1:8080 --socket /run/ringfence.sock
  curl -H \"Authorization: Bearer $KEY\" -d '{\"command\":[\"uname\",\"-a\"]}' \\
       -H 'Content-Type: application/json' http://127.0.0.1:7070/v1/run")]
pub(crate) struct ServeArgs {
    /// Address and port; may be given again
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7070")]
    pub(crate) listen: Vec<SocketAddr>,
    /// A unix socket too, for this user only
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Vec<PathBuf>,
    /// Ceilings and quotas for each role
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

/// What happened on the server, and the proof that the record is whole
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ringfence audit ls --user ada
  ringfence audit verify --anchor /mnt/elsewhere/audit.anchor
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
        #[arg(long)]
        json: bool,
    },
}
