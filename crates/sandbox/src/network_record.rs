//! What a sandbox did on the network: each connection's figures added up, and what was tried in vain.

use std::net::IpAddr;

use ringfence_egress::Via;
use serde::{Deserialize, Serialize};

/// The network side of one run. Names and counts only: nothing of what was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRecord {
    pub connections: Vec<ConnectionRecord>,
    /// Names and ports that were asked for and not granted; no port where a name was only looked up.
    pub tried: Vec<(String, Option<u16>)>,
}

/// All connections of one process to one host and port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// The program's name, where it was still there to be asked.
    pub process: Option<String>,
    pub host: String,
    pub port: u16,
    pub via: Via,
    /// What was dialled last.
    pub address: Option<IpAddr>,
    pub count: u64,
    pub sent: u64,
    pub received: u64,
    pub errors: u64,
}
