//! The network part: layers, and what a policy lets a sandbox reach.

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use ringfence_policy::{Host, HttpRule, NetworkLayer, NetworkMode, NetworkRules, Policy, SecretRule};

use crate::pick;

/// Items of a list, read from their texts.
fn some<T>(texts: &[&'static str]) -> impl Strategy<Value = Vec<T>> + use<T>
where
    T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug,
{
    vec(pick(texts).prop_map(|text| text.parse().unwrap()), 0..3)
}

const RULES: [&str; 11] = [
    "example.org",
    "example.org:22",
    "api.example.org",
    "*.example.org",
    "*.example.org:443",
    "*.api.example.org:22",
    "192.0.2.10:22",
    "10.0.0.5:22",
    "[2001:db8::1]",
    "@work",
    "@home",
];

pub(crate) fn network() -> impl Strategy<Value = NetworkLayer> {
    let http = (
        pick(&["example.org", "api.example.org"]),
        vec(pick(&["GET", "POST"]), 0..2),
        vec(pick(&["/", "/a", "/a/b"]), 0..2),
    )
        .prop_map(|(host, methods, paths)| HttpRule {
            host: host.parse().unwrap(),
            methods: methods.into_iter().map(str::to_owned).collect(),
            paths: paths.into_iter().map(str::to_owned).collect(),
        });
    let secrets = [
        "A=env:A@example.org",
        "B=file:/x@api.example.org,*.example.org:443",
        "C=cmd:id@example.org:22+body",
    ];
    let secrets =
        prop_oneof![4 => Just(Vec::new()), 1 => some::<SecretRule>(&secrets)].prop_map(|mut secrets| {
            secrets.dedup_by_key(|secret| secret.name.clone());
            secrets.truncate(1);
            secrets
        });
    let groups = btree_map(pick(&["work", "home"]).prop_map(str::to_owned), some(&RULES[..9]), 0..2);
    (
        of(pick(&[NetworkMode::Off, NetworkMode::Allow, NetworkMode::Open])),
        some(&RULES),
        some(&RULES),
        some(&["10.0.0.0/8", "10.0.0.5", "fd00::/8", "100.64.0.0/10"]),
        vec(pick(&[22u16, 80]), 0..2),
        some(&["example.org", "api.example.org"]),
        groups,
        vec(http, 0..3),
        secrets,
    )
        .prop_map(|(mode, allow, deny, private, local, no_sni, groups, http, secrets)| NetworkLayer {
            mode,
            allow,
            deny,
            private,
            local,
            no_sni,
            groups,
            http,
            secrets,
        })
}

/// The network part of `gives_no_more`: by what can be done, not by what is written.
pub(crate) fn reaches_no_more(after: &Policy, before: &Policy) -> Vec<(&'static str, bool)> {
    let (a, b) = (NetworkRules::new(&after.network), NetworkRules::new(&before.network));
    let names = ["example.org", "api.example.org", "x.api.example.org", "other.example"];
    let addresses =
        ["192.0.2.10", "10.0.0.5", "10.0.0.6", "2001:db8::1", "127.0.0.1", "169.254.169.254", "100.64.0.1"];
    let hosts: Vec<Host> = names.iter().chain(&addresses).map(|text| text.parse().unwrap()).collect();
    let ports = [22, 80, 443, 6667];
    let decides = hosts
        .iter()
        .all(|host| ports.iter().all(|port| a.decide(host, *port).is_err() || b.decide(host, *port).is_ok()));
    let dials = hosts.iter().all(|host| {
        addresses.iter().map(|text| text.parse().unwrap()).all(|address| {
            let dials = |rules: &NetworkRules, port: u16| {
                rules.decide(host, port).is_ok() && rules.check_address(host, port, address).is_ok()
            };
            ports.iter().all(|port| !dials(&a, *port) || dials(&b, *port))
        })
    });
    let names = names.map(|name| name.parse().unwrap());
    let requests = [("GET", "/"), ("POST", "/a"), ("GET", "/a/b"), ("PUT", "/c"), ("GET", "/a/../b")];
    let asks = names.iter().all(|name| {
        requests.iter().all(|(method, path)| {
            a.http_allows(name, method, path).is_err() || b.http_allows(name, method, path).is_ok()
        })
    });
    let sni = names.iter().all(|name| a.needs_sni(name) || !b.needs_sni(name));
    let secrets = after.network.secrets.iter().all(|secret| before.network.secrets.contains(secret));
    vec![
        ("network.mode", after.network.mode <= before.network.mode),
        ("network.allow", decides),
        ("network.private", dials),
        ("network.http", asks),
        ("network.no_sni", sni),
        ("network.secrets", secrets),
        ("network.local", a.local().is_subset(b.local())),
    ]
}
