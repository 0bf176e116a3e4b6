//! What a sandbox did on the network: each connection's figures added up, and what was tried in vain.

use std::collections::BTreeMap;
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

impl ConnectionRecord {
    fn is_same_kind(&self, other: &Self) -> bool {
        (&self.process, &self.host, self.port, self.via)
            == (&other.process, &other.host, other.port, other.via)
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.address = more.address.or(self.address);
        self.count += more.count;
        self.sent += more.sent;
        self.received += more.received;
        self.errors += more.errors;
    }
}

/// What a process of a session did on the network, told as it happens.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// The shim above it, by its id inside, where that was seen.
    pub(crate) shim: Option<i32>,
    pub(crate) what: Passed,
}

#[derive(Clone, Debug)]
pub(crate) enum Passed {
    Tried(String, Option<u16>),
    /// What is to be added for this connection.
    More {
        id: u64,
        is_last: bool,
        more: ConnectionRecord,
    },
}

/// All that went to one host and came from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTraffic {
    pub host: String,
    pub connections: u64,
    pub sent: u64,
    pub received: u64,
    pub errors: u64,
}

/// So many kinds of connections are told apart in one process, and so many names that it tried.
const MOST_KINDS: usize = 256;
/// So many hosts are told apart where hosts are added up.
const MOST_HOSTS: usize = 1_000;

impl NetworkRecord {
    /// Of one process, which makes up any number of names too: those beyond the first are one, `other`.
    pub(crate) fn add(&mut self, what: Passed) {
        let more = match what {
            Passed::More { more, .. } => more,
            Passed::Tried(host, port) => {
                if self.tried.len() < MOST_KINDS && !self.tried.contains(&(host.clone(), port)) {
                    self.tried.push((host, port));
                }
                return;
            }
        };
        let other = |had: &&mut ConnectionRecord| had.host == "other" && had.port == 0;
        if let Some(had) = self.connections.iter_mut().find(|had| had.is_same_kind(&more)) {
            had.add(&more);
        } else if self.connections.len() < MOST_KINDS {
            self.connections.push(more);
        } else if let Some(had) = self.connections.iter_mut().find(other) {
            had.add(&more);
        } else {
            let (host, process) = ("other".into(), None);
            self.connections.push(ConnectionRecord { process, host, port: 0, address: None, ..more });
        }
    }

    /// Added up for each host. A hostile command makes up any number of names: those beyond the first are one, `other`.
    pub fn by_host(&self) -> Vec<HostTraffic> {
        let mut hosts: BTreeMap<&str, HostTraffic> = BTreeMap::new();
        for connection in &self.connections {
            let is_known = hosts.contains_key(&*connection.host);
            let host = if is_known || hosts.len() < MOST_HOSTS { &*connection.host } else { "other" };
            let sum =
                hosts.entry(host).or_insert_with(|| HostTraffic { host: host.into(), ..Default::default() });
            sum.connections += connection.count;
            sum.sent += connection.sent;
            sum.received += connection.received;
            sum.errors += connection.errors;
        }
        hosts.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_added_up_by_host_and_made_up_names_are_one() {
        let one = |host: String, process: &str| ConnectionRecord {
            process: Some(process.into()),
            host,
            port: 443,
            via: Via::Direct,
            address: None,
            count: 1,
            sent: 10,
            received: 100,
            errors: 1,
        };
        let mut record = NetworkRecord::default();
        record.connections.extend([one("a.test".into(), "curl"), one("a.test".into(), "git")]);
        let sum = HostTraffic { host: "a.test".into(), connections: 2, sent: 20, received: 200, errors: 2 };
        assert_eq!(record.by_host(), std::slice::from_ref(&sum));
        record.connections.extend((0..5_000).map(|number| one(format!("x{number}.test"), "curl")));
        let hosts = record.by_host();
        assert_eq!(hosts.len(), MOST_HOSTS + 1);
        assert_eq!(hosts.iter().map(|host| host.connections).sum::<u64>(), 5_002);
        assert!(hosts.contains(&sum) && hosts.iter().any(|host| host.host == "other"));
    }
}
