//! One file a verb: call the service, print what came back, give the exit status.

pub(crate) mod actions;
pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod completions;
pub(crate) mod denials;
pub(crate) mod doctor;
pub(crate) mod image;
pub(crate) mod key;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod oci;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod provider;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod skill;
pub(crate) mod snapshot;
pub(crate) mod store;
pub(crate) mod top;
pub(crate) mod trust;
pub(crate) mod workspace;
pub(crate) mod wrap;
