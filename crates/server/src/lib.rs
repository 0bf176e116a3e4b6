//! The HTTP server: many users, each with their own sandboxes and workspaces, over the same services as the command line.
//!
//! Invariant: an interface only. It parses, asks who it is, holds the caller to their role's ceiling, and has the work done
//! by services: what makes a sandbox by a worker with one thread, what talks to one through its keeper. The server may be
//! killed at any moment: nothing acknowledged is lost, and sandboxes are found again.

mod actions;
mod app;
mod auth;
mod body;
mod config;
mod disk;
mod doors;
mod ended;
mod error;
mod fetch;
mod held;
mod http;
mod jwt;
mod launch;
mod left;
mod library;
mod listen;
mod mask;
mod mcp;
mod metrics;
mod names;
mod output;
mod owed;
mod pages;
mod patience;
mod pipes;
mod rates;
mod recover;
mod refusals;
mod remote;
mod repeats;
mod serve;
mod shorten;
mod standing;
mod streams;
mod tally;
mod telemetry;
mod tickets;
mod tls;
mod told;
mod traffic;
mod usage;

use std::time::{SystemTime, UNIX_EPOCH};

pub use actions::{
    Decider, cancel_action, decide_action, expire_actions, fold_spool, forget_decision, spool_directory,
};
pub use auth::{key_hash, new_key};
pub use config::ServerConfig;
pub use http::{NOT_DESCRIBED, openapi};
pub use listen::Listen;
pub use mcp::{McpOptions, serve_mcp};
pub use names::is_user_name;
pub use remote::Remote;
pub use serve::{ServeOptions, Served, serve};
pub use tls::TlsFiles;

use error::{Answer, ApiError};

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Something that waits for a file or a keeper, off the threads that serve.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    // What it logs is the request's too.
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|error| ApiError::internal("finish", error))?
}
