//! The HTTP server: many users, each with their own sandboxes and workspaces, over the same services as the command line.
//!
//! Invariant: an interface only. It parses, asks who it is, holds the caller to their role's ceiling, and has the work done
//! by services: what makes a sandbox by a worker with one thread, what talks to one through its keeper. The server may be
//! killed at any moment: nothing acknowledged is lost, and sandboxes are found again.

mod app;
mod auth;
mod body;
mod config;
mod doors;
mod error;
mod http;
mod launch;
mod metrics;
mod names;
mod output;
mod rates;
mod recover;
mod repeats;
mod serve;
mod streams;

use std::time::{SystemTime, UNIX_EPOCH};

pub use auth::{key_hash, new_key};
pub use config::ServerConfig;
pub use http::openapi;
pub use names::is_user_name;
pub use serve::{Listen, ServeOptions, Served, serve};

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
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal("finish", error))?
}
