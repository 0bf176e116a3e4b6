//! What a client is told to do: JSON in one argument, so that it comes through any sandbox unchanged.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// Where the name is, if not to be looked up.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) via: Via,
    pub(crate) tls: Option<Trust>,
    /// A variable whose value goes into each request.
    pub(crate) token: Option<String>,
}

/// Each gives seconds: one of all, or one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// One answer of so many bytes.
    Download(usize),
    /// So many short requests, each on a new connection that is read to its end, one after the other.
    Requests(usize),
    /// So many connections that are all open before the first is asked anything.
    Crowd(usize),
    /// So many lookups of the name.
    Lookups(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Via {
    Nothing,
    /// The proxy that HTTP_PROXY names, as a tunnel.
    Tunnel,
    /// The same, with a request that names the whole address.
    Proxy,
}

/// Whom to believe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Trust {
    File(PathBuf),
    /// The file that SSL_CERT_FILE names.
    Variable,
}

impl Job {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).with_context(|| format!("no job: `{text}`"))
    }
}
