//! Decisions, against an oracle that is written here, apart from `NetworkRules`.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_policy::{
    AddressClass, AddressRange, Granted, GrantedPorts, Host, HostPattern, HostRule, HttpRule, Network,
    NetworkMode, NetworkReason, NetworkRules, address_class,
};

use crate::{address, pick};

/// Rules over a few hosts, so that they meet.
fn near_rules() -> impl Strategy<Value = Vec<HostRule>> {
    let texts = [
        "a.example",
        "*.a.example",
        "*.example",
        "b.a.example:22",
        "b.a.example",
        "a.example:80",
        "*.example:443",
        "192.0.2.1",
        "192.0.2.1:22",
        "10.0.0.1:22",
        "[2001:db8::1]:80",
        "@g",
        "@h",
    ];
    vec(pick(&texts).prop_map(|text| HostRule::parse(text).unwrap()), 0..4)
}

fn network() -> impl Strategy<Value = Network> {
    let mode = pick(&[NetworkMode::Off, NetworkMode::Allow, NetworkMode::Open]);
    let plain = || {
        near_rules().prop_map(|rules| rules.into_iter().filter(|rule| !is_group(rule)).collect::<Vec<_>>())
    };
    (mode, near_rules(), near_rules(), plain(), plain(), any::<bool>(), any::<bool>()).prop_map(
        |(mode, allow, deny, g, h, private, local)| Network {
            mode,
            allow,
            deny,
            private: private.then(|| AddressRange::parse("10.0.0.0/8").unwrap()).into_iter().collect(),
            local: local.then_some(22).into_iter().collect(),
            no_sni: BTreeSet::new(),
            groups: BTreeMap::from([("g".to_owned(), g), ("h".to_owned(), h)]),
            http: Vec::new(),
            secrets: Vec::new(),
        },
    )
}

fn is_group(rule: &HostRule) -> bool {
    matches!(rule.pattern, HostPattern::Group(_))
}

fn target() -> impl Strategy<Value = (Host, u16)> {
    let hosts = [
        "a.example",
        "b.a.example",
        "c.b.a.example",
        "example",
        "other.test",
        "192.0.2.1",
        "192.0.2.2",
        "10.0.0.1",
        "10.0.0.2",
        "2001:db8::1",
        "127.0.0.1",
        "::1",
        "127.0.0.2",
        "169.254.169.254",
        "::ffff:192.0.2.1",
        "localhost",
    ];
    (pick(&hosts).prop_map(|text| Host::parse(text).unwrap()), pick(&[22u16, 80, 443, 8080]))
}

/// Does one of the rules name this host on this port? By text, the slow way.
fn named(rules: &[HostRule], network: &Network, host: &Host, port: u16, without_port: &[u16]) -> bool {
    rules.iter().any(|rule| {
        if let HostPattern::Group(group) = &rule.pattern {
            return network
                .groups
                .get(group)
                .is_some_and(|rules| named(rules, network, host, port, without_port));
        }
        let host = host.to_string();
        let text = HostRule { port: None, ..rule.clone() }.to_string();
        let text = text.trim_start_matches('[').trim_end_matches(']');
        let matches = match text.strip_prefix('*') {
            Some(end) => host.ends_with(end),
            None => host == text,
        };
        let ports = rule.port.as_ref().map_or(without_port, std::slice::from_ref);
        matches && (ports.contains(&port) || ports.is_empty())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_deny_names_is_granted(network in network(), (host, port) in target(), with in address()) {
        let rules = NetworkRules::new(&network);
        if named(&network.deny, &network, &host, port, &[]) {
            let decided = rules.decide(&host, port);
            prop_assert!(matches!(decided, Err(NetworkReason::Denied { .. } | NetworkReason::Off)), "{decided:?}");
            if let Host::Address(address) = host {
                prop_assert!(!rules.literals().contains(&(address, port)));
                prop_assert!(rules.check_address(&Host::Name("a.example".parse().unwrap()), port, address).is_err());
            }
        }
        let mut closed = network.clone();
        closed.deny.push(HostRule::of(with.into(), None));
        prop_assert!(NetworkRules::new(&closed).decide(&with.into(), port).is_err());
    }

    #[test]
    fn decisions_are_those_of_the_slow_way(network in network(), (host, port) in target()) {
        let rules = NetworkRules::new(&network);
        let denied = named(&network.deny, &network, &host, port, &[]);
        let ruled = named(&network.allow, &network, &host, port, &[80, 443]);
        let own = matches!(host.to_string().as_str(), "127.0.0.1" | "::1") && network.local.contains(&port);
        let open = match &host {
            Host::Name(name) => !name.is_localhost(),
            Host::Address(address) => match address_class(*address) {
                AddressClass::Public => true,
                AddressClass::Private => network.private.iter().any(|range| range.contains(*address)),
                _ => false,
            },
        };
        let wanted = !denied && match network.mode {
            NetworkMode::Off => false,
            NetworkMode::Allow => ruled || own,
            NetworkMode::Open => ruled || own || open,
        };
        let decided = rules.decide(&host, port);
        prop_assert_eq!(decided.is_ok(), wanted, "{:?}", decided);
        if let Ok(Granted { rule }) = decided {
            prop_assert!(!rule.is_empty());
        }
        // The listeners that are made are those that will be granted, and all of them.
        match &host {
            Host::Name(name) => match rules.ports_of(name) {
                GrantedPorts::None => prop_assert!(!wanted),
                GrantedPorts::Some(ports) => prop_assert_eq!(ports.contains(&port), wanted),
                GrantedPorts::Any => prop_assert_eq!(network.mode, NetworkMode::Open),
            },
            Host::Address(address) => {
                let literal = wanted && ruled;
                prop_assert_eq!(rules.literals().contains(&(*address, port)), literal);
            }
        }
    }

    #[test]
    fn each_mode_gives_no_less_than_the_one_before(network in network(), (host, port) in target(), to in address()) {
        let with = |mode| NetworkRules::new(&Network { mode, ..network.clone() });
        let modes = [NetworkMode::Off, NetworkMode::Allow, NetworkMode::Open].map(with);
        for pair in modes.windows(2) {
            prop_assert!(pair[0].decide(&host, port).is_err() || pair[1].decide(&host, port).is_ok());
            let dials = |rules: &NetworkRules| rules.decide(&host, port).is_ok() && rules.check_address(&host, port, to).is_ok();
            prop_assert!(!dials(&pair[0]) || dials(&pair[1]));
        }
    }

    #[test]
    fn a_name_leads_nowhere_near(network in network(), port in any::<u16>(), to in address()) {
        let rules = NetworkRules::new(&network);
        let name = Host::Name("a.example".parse().unwrap());
        if rules.check_address(&name, port, to).is_ok() {
            let class = address_class(to);
            let opened = network.private.iter().any(|range| range.contains(to)) && class.is_private();
            prop_assert!(class == AddressClass::Public || opened, "{to} is {class}");
        }
    }

    #[test]
    fn covering_rules_grant_what_they_cover(wide in near_rules(), narrow in near_rules(), (host, port) in target()) {
        let network = |rule: &HostRule| Network {
            mode: NetworkMode::Allow,
            allow: vec![rule.clone()],
            deny: Vec::new(),
            private: Vec::new(),
            local: BTreeSet::new(),
            no_sni: BTreeSet::new(),
            groups: BTreeMap::new(),
            http: Vec::new(),
            secrets: Vec::new(),
        };
        for (wide, narrow) in wide.iter().zip(&narrow).filter(|(wide, narrow)| wide.covers(narrow)) {
            let decide = |rule| NetworkRules::new(&network(rule)).decide(&host, port);
            prop_assert!(decide(narrow).is_err() || decide(wide).is_ok(), "{wide} {narrow}");
        }
    }

    /// However often a server decodes and whichever way it takes dots, slashes and parameters, an allowed path stays
    /// where the rule has it.
    #[test]
    fn an_allowed_path_stays_below_its_prefix(parts in vec(pick(&["a", "b", ".", "..", "/", "//", "%2e", "%2E", "%2f", "%5c", "\\", ";", "%25", "2e", "%61", "..;", "x=1", "%00", "?", "é"]), 0..8)) {
        let path = format!("/{}", parts.concat());
        let rule = HttpRule { host: "a.example".parse().unwrap(), methods: Vec::new(), paths: vec!["/a".to_owned()] };
        if rule.allows("GET", &path) {
            let mut text = path.clone();
            for _ in 0..4 {
                for (code, plain) in [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%5c", "/"), ("\\", "/"), ("%61", "a"), ("%25", "%")] {
                    text = text.replace(code, plain);
                }
                let mut real: Vec<&str> = Vec::new();
                for part in text.split('/').map(|part| part.split(';').next().unwrap_or(part)) {
                    match part {
                        "" | "." => {}
                        ".." => { real.pop(); }
                        part => real.push(part),
                    }
                }
                prop_assert_eq!(real.first(), Some(&"a"), "{} as {}", path, text);
            }
        }
    }
}
