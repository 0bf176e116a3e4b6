//! The network of a plan: which addresses are local inside, which sockets are made there for egress, what programs
//! are told. Without egress there is nothing but loopback.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ringfence_egress::{
    DNS, FAKE_V4, FAKE_V6, HTTP_PROXY, SOCKS_PROXY, SecretSetup, Setup, SocketRole, Upstream,
};
use ringfence_linux::{NetworkShape, SocketShape};
use ringfence_policy::{Clause, Network, NetworkMode, NetworkRules, Policy};
use serde::Serialize;

use crate::host::{Host, OuterIds};
use crate::plan::Mount;
use crate::receipt::Receipt;
use crate::request::Request;

/// Names get their listeners from these; egress asks for more in time.
const SPARES: usize = 8;
/// Ids of egress processes that root started: apart from every sandbox's.
const EGRESS_IDS: u32 = 0x0800_0000;
/// Where the sandbox finds the authority that vouches for hosts whose TLS ends in egress, alone and with all others.
const AUTHORITY: &str = "/run/ringfence/authority.pem";
const BUNDLE: &str = "/run/ringfence/bundle.pem";
/// Where systems keep the certificates that programs trust.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Variables by which programs are told of other certificates. Node's adds to its own; the others replace.
const TRUST_ALL: &[&str] = &[
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
];
const TRUST_ALSO: &[&str] = &["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// What a network needs to know of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFacts {
    pub ipv6: bool,
    /// Where programs look for their name server, links resolved; `None` if there is no such file.
    pub resolver_file: Option<PathBuf>,
    /// Files of trusted certificates, links resolved.
    pub bundles: Vec<PathBuf>,
    /// Not to be guessed from inside.
    pub nonce: String,
}

impl NetworkFacts {
    pub(crate) fn look() -> Self {
        let mut bundles: Vec<PathBuf> =
            BUNDLES.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        bundles.sort();
        bundles.dedup();
        let mut random = [0; 16];
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        Self {
            ipv6: Path::new("/proc/net/if_inet6").exists(),
            resolver_file: resolver_file(),
            bundles,
            nonce: random.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

fn resolver_file() -> Option<PathBuf> {
    let path = Path::new("/etc/resolv.conf");
    // A link to something in /run is a link to nowhere until we put it there.
    fs::canonicalize(path).or_else(|_| fs::read_link(path).map(|link| Path::new("/etc").join(link))).ok()
}

/// A network with a way out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedEgress {
    /// What the sockets of the namespace are for, in order.
    pub roles: Vec<SocketRole>,
    #[serde(skip)]
    pub shape: NetworkShape,
    /// TLS of some hosts ends in egress, so programs have to trust its authority.
    pub terminates: bool,
    #[serde(skip)]
    pub bundles: Vec<PathBuf>,
    #[serde(skip)]
    pub setup: Setup,
}

/// Does this request's network need more than loopback?
pub(crate) fn needs_egress(request: &Request) -> bool {
    let policy = &request.policy.policy;
    !policy.waived.contains(&Clause::Network) && (policy.network.mode != NetworkMode::Off || request.learn)
}

pub(crate) fn plan_egress(request: &Request, host: &Host) -> Option<PlannedEgress> {
    if !needs_egress(request) {
        return None;
    }
    let Policy { network, .. } = &request.policy.policy;
    let rules = NetworkRules::new(network);
    let (roles, sockets) = sockets(&rules, &host.network).into_iter().unzip();
    let local = local_addresses(network, &rules, host.network.ipv6);
    Some(PlannedEgress {
        roles,
        shape: NetworkShape { local, sockets },
        terminates: !network.secrets.is_empty() || !network.http.is_empty(),
        bundles: host.network.bundles.clone(),
        setup: setup(request, host, network),
    })
}

fn setup(request: &Request, host: &Host, network: &Network) -> Setup {
    let Policy { limits, waived, .. } = &request.policy.policy;
    let secrets = network.secrets.iter().enumerate().map(|(rule, secret)| SecretSetup {
        name: secret.name.clone(),
        placeholder: placeholder(rule, &host.network.nonce),
        from: secret.from.clone(),
        rule,
    });
    Setup {
        network: network.clone(),
        secrets: secrets.collect(),
        // Read by egress itself: it may hold a password.
        upstream: Upstream::default(),
        connections: limits.connections.filter(|_| !waived.contains(&Clause::LimitConnections)),
        bandwidth: limits
            .bandwidth
            .filter(|_| !waived.contains(&Clause::LimitBandwidth))
            .map(|bytes| bytes.bytes()),
        learn: request.learn,
        become_id: match host.ids {
            OuterIds::Unused(id) => Some(id + EGRESS_IDS),
            OuterIds::Own => None,
        },
        secret_store: request.secrets.clone(),
        written: host
            .workspace
            .iter()
            .map(|workspace| workspace.path.clone())
            .chain(host.write.iter().map(|path| path.real.clone()))
            .collect(),
    }
}

/// None is the beginning of another one: where one is found, that one was meant.
fn placeholder(rule: usize, nonce: &str) -> String {
    format!("ringfence-{rule}-{nonce}")
}

fn sockets(rules: &NetworkRules, facts: &NetworkFacts) -> Vec<(SocketRole, SocketShape)> {
    let mut sockets = vec![
        (SocketRole::DnsUdp, SocketShape::Udp(DNS)),
        (SocketRole::DnsTcp, SocketShape::Tcp(DNS)),
        (SocketRole::HttpProxy, SocketShape::Tcp(HTTP_PROXY)),
        (SocketRole::SocksProxy, SocketShape::Tcp(SOCKS_PROXY)),
        (SocketRole::IcmpV4, SocketShape::IcmpV4),
    ];
    if facts.ipv6 {
        sockets.push((SocketRole::IcmpV6, SocketShape::IcmpV6));
    }
    if facts.resolver_file.is_none() {
        // Where programs ask that were told nothing.
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, DNS.port()));
        sockets.push((SocketRole::DnsUdp, SocketShape::Udp(default)));
        sockets.push((SocketRole::DnsTcp, SocketShape::Tcp(default)));
    }
    let possible = |address: &IpAddr| facts.ipv6 || address.is_ipv4();
    for (address, port) in rules.literals().into_iter().filter(|(address, _)| possible(address)) {
        let at = SocketAddr::new(address, port);
        sockets.push((SocketRole::Literal(at), SocketShape::Tcp(at)));
    }
    for port in rules.local() {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        for address in loopback.into_iter().filter(possible) {
            sockets.push((SocketRole::Local(*port), SocketShape::Tcp(SocketAddr::new(address, *port))));
        }
    }
    sockets.extend([(SocketRole::SpareV4, SocketShape::SpareV4); SPARES]);
    if facts.ipv6 {
        sockets.extend([(SocketRole::SpareV6, SocketShape::SpareV6); SPARES]);
    }
    sockets
}

fn local_addresses(network: &Network, rules: &NetworkRules, ipv6: bool) -> Vec<(IpAddr, u8)> {
    let mut local: Vec<(IpAddr, u8)> = match network.mode {
        // Whatever is connected to, egress can listen there.
        NetworkMode::Open => vec![(Ipv4Addr::UNSPECIFIED.into(), 0), (Ipv6Addr::UNSPECIFIED.into(), 0)],
        NetworkMode::Off | NetworkMode::Allow => {
            vec![(FAKE_V4.0.into(), FAKE_V4.1), (FAKE_V6.0.into(), FAKE_V6.1)]
        }
    };
    if network.mode != NetworkMode::Open {
        let literals = rules.literals();
        local
            .extend(literals.iter().map(|(address, _)| (*address, if address.is_ipv4() { 32 } else { 128 })));
    }
    local.sort();
    local.dedup();
    local.retain(|(address, _)| ipv6 || address.is_ipv4());
    local
}

/// The file that tells programs of our name server.
pub(crate) fn resolver_mount(host: &Host) -> Option<Mount> {
    let target = host.network.resolver_file.clone()?;
    let text = format!("nameserver {}\noptions timeout:2 attempts:2\n", DNS.ip());
    Some(match target.starts_with("/run") {
        true => Mount::Seed { target, text },
        false => Mount::File { target, text },
    })
}

/// Proxies for programs that insist on one, placeholders for secrets, and the authority to trust.
pub(crate) fn variables(egress: &PlannedEgress) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    // Not the SOCKS one: clients that can't speak it fail where it is named.
    let proxy = format!("http://{HTTP_PROXY}");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        variables.push((name.into(), proxy.clone()));
        variables.push((name.to_lowercase(), proxy.clone()));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        variables.push((name.into(), "localhost,127.0.0.1,::1".into()));
    }
    if egress.terminates {
        variables.extend(TRUST_ALL.iter().map(|name| ((*name).into(), BUNDLE.into())));
        variables.extend(TRUST_ALSO.iter().map(|name| ((*name).into(), AUTHORITY.into())));
    }
    variables
        .extend(egress.setup.secrets.iter().map(|secret| (secret.name.clone(), secret.placeholder.clone())));
    variables
}

/// What programs trust inside: everything that the host trusts, and the authority.
pub(crate) fn trust_mounts(egress: &PlannedEgress, authority: &str) -> Vec<Mount> {
    let known = egress.bundles.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let text = format!("{}\n{authority}", known.trim_end());
    let mut mounts = vec![
        Mount::Seed { target: AUTHORITY.into(), text: authority.into() },
        Mount::Seed { target: BUNDLE.into(), text: text.clone() },
    ];
    mounts.extend(
        egress.bundles.iter().map(|target| Mount::File { target: target.clone(), text: text.clone() }),
    );
    mounts
}

/// The receipt's lines on the network.
pub(crate) fn describe(policy: &Policy, egress: Option<&PlannedEgress>, receipt: &mut Receipt) {
    if policy.waived.contains(&Clause::Network) {
        receipt.waived(Clause::Network);
        receipt.warnings.push("the sandbox shares the host's network: network was waived".into());
        return;
    }
    let network = &policy.network;
    let value = match network.mode {
        NetworkMode::Off => "off".to_string(),
        NetworkMode::Allow => {
            let rules = network.allow.iter().map(ToString::to_string);
            let local = network.local.iter().map(|port| format!("the caller's port {port}"));
            format!("allow: {}", rules.chain(local).collect::<Vec<_>>().join(", "))
        }
        NetworkMode::Open => "open: all but private, link-local, loopback and metadata addresses".into(),
    };
    let mechanism = match egress {
        None => "network namespace with loopback only",
        Some(_) => {
            "network namespace with no route out; names are answered, and connections to them served, by egress outside"
        }
    };
    receipt.enforced(Clause::Network, value, mechanism);
}

#[cfg(test)]
mod tests {
    use super::placeholder;

    #[test]
    fn no_placeholder_is_in_another() {
        let all: Vec<String> = (0..120).map(|rule| placeholder(rule, "4f1d")).collect();
        for one in &all {
            assert_eq!(all.iter().filter(|other| other.contains(one.as_str())).count(), 1, "{one}");
        }
    }
}
