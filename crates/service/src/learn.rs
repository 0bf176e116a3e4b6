//! `--learn`: the smallest set of rules that would grant what a command used and tried.
//!
//! Exact hosts and ports only: whether a whole domain is meant is for a person to say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringfence_policy::{DEFAULT_PORTS, Host, HostRule};
use ringfence_sandbox::NetworkRecord;
use serde::Serialize;
use toml_edit::{Array, DocumentMut, Item, Table, Value};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LearnedRules {
    /// As `ringfence run` takes them.
    pub flags: Vec<String>,
    /// As a policy file takes them; empty where there are none.
    pub toml: String,
    /// Names that were looked up and never connected to: no rule is made for them.
    pub looked_up: Vec<String>,
}

pub(crate) fn learned_rules(record: Option<&NetworkRecord>) -> LearnedRules {
    let Some(record) = record else { return LearnedRules::default() };
    let used = record.connections.iter().map(|connection| (&connection.host, Some(connection.port)));
    let tried = record.tried.iter().map(|(host, port)| (host, *port));
    let mut hosts: BTreeMap<Host, BTreeSet<u16>> = BTreeMap::new();
    let mut local = BTreeSet::new();
    for (host, port) in used.chain(tried) {
        // What is no host at all can't be granted either.
        let Ok(host) = Host::parse(host) else { continue };
        match port {
            Some(port) if is_loopback(&host) => {
                local.insert(port);
            }
            port => hosts.entry(host).or_default().extend(port),
        }
    }
    let looked_up = hosts.iter().filter(|(_, ports)| ports.is_empty()).map(|(host, _)| host.to_string());
    let looked_up = looked_up.collect();
    let rules: Vec<HostRule> = hosts.into_iter().flat_map(|(host, ports)| rules_of(&host, ports)).collect();
    LearnedRules { flags: flags(&rules, &local), toml: toml(&rules, &local), looked_up }
}

/// One rule where the ports are those that a rule without a port means.
fn rules_of(host: &Host, mut ports: BTreeSet<u16>) -> Vec<HostRule> {
    let mut rules = Vec::new();
    if DEFAULT_PORTS.iter().all(|port| ports.contains(port)) {
        ports.retain(|port| !DEFAULT_PORTS.contains(port));
        rules.push(HostRule::of(host.clone(), None));
    }
    rules.extend(ports.into_iter().map(|port| HostRule::of(host.clone(), Some(port))));
    // This machine by another spelling, or no destination at all.
    rules.retain(|rule| rule.grantable().is_ok());
    rules
}

fn flags(rules: &[HostRule], local: &BTreeSet<u16>) -> Vec<String> {
    let host = |rule: &HostRule| {
        let text = rule.to_string();
        // Brackets are a pattern to a shell.
        if text.contains('[') { format!("--allow-host '{text}'") } else { format!("--allow-host {text}") }
    };
    rules.iter().map(host).chain(local.iter().map(|port| format!("--allow-local {port}"))).collect()
}

fn toml(rules: &[HostRule], local: &BTreeSet<u16>) -> String {
    if rules.is_empty() && local.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    if !rules.is_empty() {
        let mut allow: Array = rules.iter().map(HostRule::to_string).collect();
        for rule in allow.iter_mut() {
            rule.decor_mut().set_prefix("\n  ");
        }
        allow.set_trailing_comma(true);
        allow.set_trailing("\n");
        table.insert("allow", Item::Value(Value::Array(allow)));
    }
    if !local.is_empty() {
        let ports: Array = local.iter().map(|port| i64::from(*port)).collect();
        table.insert("local", Item::Value(Value::Array(ports)));
    }
    let mut document = DocumentMut::new();
    document.insert("network", Item::Table(table));
    document.to_string()
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.is_localhost(),
        // No rule opens the rest of 127.0.0.0/8.
        Host::Address(IpAddr::V4(address)) => *address == Ipv4Addr::LOCALHOST,
        Host::Address(IpAddr::V6(address)) => *address == Ipv6Addr::LOCALHOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_policy::Layer;

    fn learned(tried: &[(&str, u16)]) -> LearnedRules {
        let tried = tried.iter().map(|(host, port)| ((*host).to_owned(), (*port > 0).then_some(*port)));
        learned_rules(Some(&NetworkRecord { connections: Vec::new(), tried: tried.collect() }))
    }

    #[test]
    fn the_least_that_grants_what_was_tried() {
        let rules = learned(&[
            ("both.example", 443),
            ("both.example", 80),
            ("both.example", 22),
            ("one.example", 443),
            ("one.example", 443),
            ("asked.example", 0),
            ("2001:db8::1", 22),
            ("127.0.0.1", 5432),
            ("localhost", 8080),
            ("127.0.0.2", 7001),
            ("not a host", 80),
        ]);
        assert_eq!(
            rules.flags,
            [
                "--allow-host both.example",
                "--allow-host both.example:22",
                "--allow-host one.example:443",
                "--allow-host '[2001:db8::1]:22'",
                "--allow-local 5432",
                "--allow-local 8080",
            ]
        );
        assert_eq!(rules.looked_up, ["asked.example"]);
        let layer = Layer::from_toml(&rules.toml).unwrap();
        let written: Vec<String> = layer.network.allow.iter().map(HostRule::to_string).collect();
        assert_eq!(written, ["both.example", "both.example:22", "one.example:443", "[2001:db8::1]:22"]);
        assert_eq!(layer.network.local, [5432, 8080]);
    }

    #[test]
    fn nothing_tried_is_nothing_learned() {
        assert_eq!(learned(&[]), LearnedRules::default());
        assert_eq!(learned_rules(None), LearnedRules::default());
        assert_eq!(learned(&[("asked.example", 0)]).toml, "");
    }
}
