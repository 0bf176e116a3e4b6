//! Looking names up outside: the machine's hosts file and name servers. Never getaddrinfo: the program is static.
//!
//! The two files are read again when they change, as a laptop's do.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};
use ringfence_policy::HostName;

use crate::lock::Lock;

/// Where a machine keeps its name servers and its own names.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) servers: PathBuf,
    pub(crate) hosts: PathBuf,
}

impl Default for Files {
    fn default() -> Self {
        Self { servers: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    /// There is no such name, or it has no address.
    #[error("there is no such name")]
    Unknown,
    #[error("looking it up failed: {0}")]
    Failed(String),
}

pub(crate) struct Resolver {
    files: Files,
    current: Lock<Option<Current>>,
}

struct Current {
    stamps: [Option<Stamp>; 2],
    looked: Instant,
    sources: Arc<Sources>,
}

struct Sources {
    hosts: Hosts,
    servers: TokioResolver,
}

/// Tells a file from what was there before.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// The files are looked at no more often than this.
const LOOK: Duration = Duration::from_secs(1);

impl Resolver {
    pub(crate) fn new(files: Files) -> Self {
        Self { files, current: Lock::default() }
    }

    /// Every address of a name, unchecked.
    pub(crate) async fn lookup(&self, name: &HostName) -> Result<Vec<IpAddr>, LookupError> {
        let sources = self.sources().map_err(|error| LookupError::Failed(error.to_string()))?;
        let mut query = Name::from_ascii(name.as_str()).map_err(|_| LookupError::Unknown)?;
        let own = sources.own(&query);
        if !own.is_empty() {
            return Ok(own);
        }
        // Search domains are for single words, as a machine's own users write them.
        query.set_fqdn(name.as_str().contains('.'));
        match sources.servers.lookup_ip(query).await {
            Ok(found) => {
                let addresses: Vec<IpAddr> = found.iter().collect();
                if addresses.is_empty() { Err(LookupError::Unknown) } else { Ok(addresses) }
            }
            Err(error) if error.is_no_records_found() => Err(LookupError::Unknown),
            Err(error) => Err(LookupError::Failed(error.to_string())),
        }
    }

    fn sources(&self) -> io::Result<Arc<Sources>> {
        let mut current = self.current.lock();
        let stamps = match &*current {
            Some(known) if known.looked.elapsed() < LOOK => return Ok(known.sources.clone()),
            _ => [stamp(&self.files.servers), stamp(&self.files.hosts)],
        };
        if let Some(known) = &mut *current
            && known.stamps == stamps
        {
            known.looked = Instant::now();
            return Ok(known.sources.clone());
        }
        let sources = Arc::new(Sources::read(&self.files)?);
        *current = Some(Current { stamps, looked: Instant::now(), sources: sources.clone() });
        Ok(sources)
    }
}

impl Sources {
    fn read(files: &Files) -> io::Result<Self> {
        let servers = fs::read(&files.servers).ok().and_then(|text| parse_resolv_conf(text).ok());
        let (config, mut options) = servers.unwrap_or_else(|| {
            // What libc does without the file.
            let own = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            (ResolverConfig::from_name_servers(vec![own]), ResolverOpts::default())
        });
        options.cache_size = 1024;
        // What a name means must follow DNS closely, but a flood of connections must not become a flood of lookups.
        options.positive_max_ttl = Some(Duration::from_secs(60));
        options.negative_max_ttl = Some(Duration::from_secs(5));
        options.max_active_requests = 1024;
        options.use_hosts_file = ResolveHosts::Never;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // As libc asks them: in the file's order, one after the other. The first may know names that the next does not.
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.num_concurrent_reqs = 1;
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let servers = builder.build().map_err(io::Error::other)?;
        let mut hosts = Hosts::default();
        if let Ok(file) = File::open(&files.hosts) {
            // A line that can't be read ends the list; the names before it count.
            let _ = hosts.read_hosts_conf(file);
        }
        Ok(Self { hosts, servers })
    }

    /// What the hosts file says. As in libc, a name that it has is not asked of name servers, for either family.
    fn own(&self, name: &Name) -> Vec<IpAddr> {
        [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(|kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind)))
            .flat_map(|found| {
                found.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>()
            })
            .collect()
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    let changed = (data.mtime(), data.mtime_nsec());
    Some(Stamp { device: data.dev(), inode: data.ino(), size: data.size(), changed })
}
