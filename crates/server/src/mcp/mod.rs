//! The Model Context Protocol: the same sandboxes, sessions, files and skills as tools of an agent. `ringfence mcp` speaks it
//! on stdio for the user who starts it, `/mcp` of the server over HTTP for everybody with a key.
//!
//! Invariant: an interface only. A model is nobody: on stdio it is held to its user's own policy, over HTTP every call goes
//! through the server's own API, and so through its ceilings, quotas and audit. What a connection made ends with it.

mod answer;
mod ask;
mod client;
mod connection;
mod cut;
mod drafts;
mod handler;
mod host;
mod http;
mod outputs;
mod own;
mod resources;
mod schema;
mod served;
mod skills;
mod stdio;
mod tools;

pub(crate) use http::routes;
pub use stdio::{McpOptions, serve_mcp};
