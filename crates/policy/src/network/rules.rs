//! What the network part of a policy decides: may this host be reached on this port, at this address, by this request.
//!
//! Invariant: `deny` wins over everything, and nothing is granted that does not have a rule, or mode `open`, behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{AddressClass, address_class};
use super::host::Host;
use super::http::HttpRule;
use super::name::HostName;
use super::range::AddressRange;
use super::reason::NetworkReason;
use super::rule::{HostPattern, HostRule};
use super::rule_set::{Entry, RuleSet};
use super::secret::SecretRule;
use crate::model::{Network, NetworkMode};

/// A network policy, made ready to decide.
#[derive(Clone, Debug)]
pub struct NetworkRules {
    mode: NetworkMode,
    allow: RuleSet,
    deny: RuleSet,
    private: Vec<AddressRange>,
    local: BTreeSet<u16>,
    no_sni: BTreeSet<HostName>,
    http: BTreeMap<HostName, Vec<HttpRule>>,
    secrets: Vec<SecretRule>,
}

/// A decision to let a connection through, and the rule behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub rule: String,
}

/// The ports on which a name may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantedPorts {
    None,
    Some(BTreeSet<u16>),
    /// Mode `open`.
    Any,
}

impl NetworkRules {
    pub fn new(network: &Network) -> Self {
        let off = network.mode == NetworkMode::Off;
        let mut http: BTreeMap<HostName, Vec<HttpRule>> = BTreeMap::new();
        for rule in &network.http {
            http.entry(rule.host.clone()).or_default().push(rule.clone());
        }
        Self {
            mode: network.mode,
            allow: RuleSet::new(&network.allow, &network.groups),
            deny: RuleSet::new(&network.deny, &network.groups),
            private: network.private.clone(),
            local: if off { BTreeSet::new() } else { network.local.clone() },
            no_sni: network.no_sni.clone(),
            http,
            secrets: network.secrets.clone(),
        }
    }

    /// The ports on which a name may be reached. `decide` still has the last word on each.
    pub fn ports_of(&self, name: &HostName) -> GrantedPorts {
        let host = Host::Name(name.clone());
        if self.deny.naming(&host).any(|entry| entry.rule.port.is_none()) {
            return GrantedPorts::None;
        }
        match self.mode {
            NetworkMode::Off => GrantedPorts::None,
            NetworkMode::Open => GrantedPorts::Any,
            NetworkMode::Allow => {
                let ports = self.granted_ports(&host);
                if ports.is_empty() { GrantedPorts::None } else { GrantedPorts::Some(ports) }
            }
        }
    }

    /// Does a rule of `allow` name this very host? There are as many of those as the policy lists, where a wildcard, or
    /// mode `open`, has names without end.
    pub fn names_exactly(&self, name: &HostName) -> bool {
        self.allow.has_name(name)
    }

    /// How many pairs of such a name and a port there are.
    pub fn exact_pairs(&self) -> usize {
        self.allow.names().map(|name| self.granted_ports(&Host::Name(name.clone())).len()).sum()
    }

    /// Does a rule of `allow` name this very address, on whatever port?
    pub fn has_literal(&self, address: IpAddr) -> bool {
        self.allow.naming(&Host::Address(address)).next().is_some()
    }

    /// May this host be reached on this port? For a name, `check_address` follows once it is looked up.
    pub fn decide(&self, host: &Host, port: u16) -> Result<Granted, NetworkReason> {
        if self.mode == NetworkMode::Off {
            return Err(NetworkReason::Off);
        }
        if let Some(entry) = self.denies(host, port) {
            return Err(NetworkReason::Denied { rule: entry.text.clone() });
        }
        if is_own_loopback(host) && self.local.contains(&port) {
            return Ok(Granted { rule: format!("local {port}") });
        }
        if let Some(entry) = self.allow.naming(host).find(|entry| entry.rule.ports().contains(&port)) {
            return Ok(Granted { rule: entry.text.clone() });
        }
        if self.mode == NetworkMode::Open {
            return match host {
                Host::Address(address) => self.check_range(*address),
                Host::Name(name) if name.is_localhost() => Err(NetworkReason::NotGranted),
                Host::Name(_) => Ok(()),
            }
            .map(|()| Granted { rule: "open".to_owned() });
        }
        let granted = self.granted_ports(host);
        Err(if granted.is_empty() {
            NetworkReason::NotGranted
        } else {
            NetworkReason::Port { granted: granted.into_iter().collect() }
        })
    }

    /// May this host, which `decide` let pass on this port, be dialled at this address?
    pub fn check_address(&self, host: &Host, port: u16, address: IpAddr) -> Result<(), NetworkReason> {
        let address = address.to_canonical();
        if let Some(entry) = self.denies(&Host::Address(address), port) {
            return Err(NetworkReason::Denied { rule: entry.text.clone() });
        }
        let typed = match host {
            Host::Name(_) => false,
            Host::Address(known) if known.to_canonical() != address => {
                return Err(NetworkReason::Address { address, class: address_class(address) });
            }
            Host::Address(_) => {
                let local = is_own_loopback(host) && self.local.contains(&port);
                let literal = self.allow.ports(host).contains(&port);
                local || (literal && address_class(address).is_destination())
            }
        };
        if typed { Ok(()) } else { self.check_range(address) }
    }

    /// May an address that this machine itself has be dialled for this host, which `decide` let pass on this port? Only
    /// where the user wrote this very address down, whoever leads there: what listens there is the user's own, as on
    /// loopback.
    pub fn check_own(&self, host: &Host, port: u16, address: IpAddr) -> Result<(), NetworkReason> {
        let written = self.allow.ports(&Host::from(address)).contains(&port)
            || is_own_loopback(host) && self.local.contains(&port);
        if written { Ok(()) } else { Err(NetworkReason::Address { address, class: AddressClass::Own }) }
    }

    /// Must TLS to this name carry it as the server name?
    pub fn needs_sni(&self, name: &HostName) -> bool {
        !self.no_sni.contains(name)
    }

    /// The HTTP rules of a name; nothing where every request may pass.
    pub fn http(&self, name: &HostName) -> Option<Vec<&HttpRule>> {
        self.http.get(name).map(|rules| rules.iter().collect())
    }

    /// May this request pass? `path` as it was sent; a query is not looked at.
    pub fn http_allows(&self, name: &HostName, method: &str, path: &str) -> Result<(), NetworkReason> {
        let path = path.split('?').next().unwrap_or(path);
        match self.http.get(name) {
            Some(rules) if !rules.iter().any(|rule| rule.allows(method, path)) => {
                Err(NetworkReason::Http { method: method.to_owned(), path: path.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Is TLS to this name ended here, to see requests? So it is for names with secrets or HTTP rules, and no others.
    pub fn terminates(&self, name: &HostName) -> bool {
        self.http.contains_key(name) || !self.secrets_of(name).is_empty()
    }

    /// The secrets that this name may know, whatever the port, as indices into `Network::secrets`.
    pub fn secrets_of(&self, name: &HostName) -> Vec<usize> {
        let host = Host::Name(name.clone());
        let known = self.secrets.iter().enumerate();
        let known = known.filter(|(_, secret)| secret.hosts.iter().any(|rule| rule.names(&host)));
        known.map(|(index, _)| index).collect()
    }

    /// The secrets that are used towards this name and port, as indices into `Network::secrets`.
    pub fn secrets_for(&self, name: &HostName, port: u16) -> Vec<usize> {
        let host = Host::Name(name.clone());
        let used = self.secrets.iter().enumerate().filter(|(_, secret)| secret.is_for(&host, port));
        used.map(|(index, _)| index).collect()
    }

    /// The granted addresses with their ports.
    pub fn literals(&self) -> Vec<(IpAddr, u16)> {
        if self.mode == NetworkMode::Off {
            return Vec::new();
        }
        let ports = |address| {
            self.granted_ports(&Host::Address(address)).into_iter().map(move |port| (address, port))
        };
        self.allow.addresses().flat_map(ports).collect()
    }

    /// The ports of the caller's own loopback that the sandbox may reach.
    pub fn local(&self) -> &BTreeSet<u16> {
        &self.local
    }

    fn granted_ports(&self, host: &Host) -> BTreeSet<u16> {
        let mut ports = self.allow.ports(host);
        ports.retain(|port| self.denies(host, *port).is_none());
        ports
    }

    fn denies(&self, host: &Host, port: u16) -> Option<&Entry> {
        self.deny.naming(host).find(|entry| entry.rule.port.is_none_or(|known| known == port))
    }

    /// Public, or opened by `private`.
    fn check_range(&self, address: IpAddr) -> Result<(), NetworkReason> {
        let class = address_class(address);
        let opened = class.is_private() && self.private.iter().any(|range| range.contains(address));
        if class == AddressClass::Public || opened {
            Ok(())
        } else {
            Err(NetworkReason::Address { address, class })
        }
    }
}

/// What `local` means: not all of 127.0.0.0/8.
pub(super) fn is_own_loopback(host: &Host) -> bool {
    let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    matches!(host, Host::Address(address) if own.contains(address))
}

impl Network {
    /// Does `allow` name this host, on its port if it has one? Denials are not looked at.
    pub(crate) fn grants(&self, rule: &HostRule) -> bool {
        let port = |known: &HostRule| rule.port.is_none_or(|port| known.ports().contains(&port));
        self.allow_rules().any(|known| known.pattern.covers(&rule.pattern) && port(known))
    }

    /// Would this rule in `allow` give nothing more?
    pub(crate) fn covers(&self, rule: &HostRule) -> bool {
        // Mode `open` has every name and public address; it lacks what is private, which only a rule can grant.
        let open = self.mode == NetworkMode::Open
            && match &rule.pattern {
                HostPattern::Name(_) | HostPattern::Below(_) => true,
                HostPattern::Address(address) => address_class(*address) == AddressClass::Public,
                HostPattern::Group(_) => false,
            };
        open || self.allow.contains(rule) || self.allow_rules().any(|known| known.covers(rule))
    }

    fn allow_rules(&self) -> impl Iterator<Item = &HostRule> {
        self.allow.iter().flat_map(|rule| match &rule.pattern {
            HostPattern::Group(name) => self.groups.get(name).map_or(&[][..], Vec::as_slice),
            _ => std::slice::from_ref(rule),
        })
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
