//! Decisions.

use std::net::IpAddr;

use crate::network::address::AddressClass;
use crate::network::host::Host;
use crate::network::name::HostName;
use crate::network::reason::NetworkReason;
use crate::network::rules::{Granted, GrantedPorts, NetworkRules};
use crate::{Layer, Origin, ProfileName, merge};

fn rules(text: &str) -> NetworkRules {
    let layer = Layer::from_toml(&format!("[network]\n{text}")).unwrap();
    NetworkRules::new(&merge(ProfileName::Moderate, &[(Origin::flag("test"), layer)]).unwrap().policy.network)
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn granted(rule: &str) -> Result<Granted, NetworkReason> {
    Ok(Granted { rule: rule.to_owned() })
}

#[test]
fn off_is_off() {
    let rules = rules("mode = 'off'\nallow = ['example.org', '192.0.2.1']\nlocal = [80]");
    for target in ["example.org", "192.0.2.1", "127.0.0.1"] {
        assert_eq!(rules.decide(&host(target), 80), Err(NetworkReason::Off));
    }
    assert_eq!(rules.ports_of(&name("example.org")), GrantedPorts::None);
    assert!(rules.literals().is_empty() && rules.local().is_empty());
}

#[test]
fn only_what_is_named() {
    let rules = rules(
        "allow = ['example.org', '*.example.com:443', 'db.internal:5432', '192.0.2.10:22', '[2001:db8::1]', '@work']\ngroups = { work = ['git.example:22'] }",
    );
    assert_eq!(rules.decide(&host("example.org"), 443), granted("example.org"));
    assert_eq!(rules.decide(&host("EXAMPLE.org."), 80), granted("example.org"));
    assert_eq!(rules.decide(&host("a.b.example.com"), 443), granted("*.example.com:443"));
    assert_eq!(rules.decide(&host("git.example"), 22), granted("git.example:22 of @work"));
    assert_eq!(rules.decide(&host("192.0.2.10"), 22), granted("192.0.2.10:22"));
    assert_eq!(rules.decide(&host("::ffff:192.0.2.10"), 22), granted("192.0.2.10:22"));
    assert_eq!(rules.decide(&Host::Address(address("::ffff:192.0.2.10")), 22), granted("192.0.2.10:22"));
    assert_eq!(rules.decide(&host("2001:db8::1"), 443), granted("[2001:db8::1]"));
    assert_eq!(rules.decide(&host("example.org"), 22), Err(NetworkReason::Port { granted: vec![80, 443] }));
    assert_eq!(rules.decide(&host("a.example.com"), 80), Err(NetworkReason::Port { granted: vec![443] }));
    for other in [
        "example.com",
        "www.example.org",
        "xexample.com",
        "example.com.evil",
        "192.0.2.11",
        "2001:db8::2",
        "127.0.0.1",
        "localhost",
        "exаmple.org",
    ] {
        assert_eq!(rules.decide(&host(other), 443), Err(NetworkReason::NotGranted), "{other}");
    }
    assert_eq!(rules.ports_of(&name("db.internal")), GrantedPorts::Some([5432].into()));
    assert_eq!(rules.ports_of(&name("other.internal")), GrantedPorts::None);
    let literals = [("192.0.2.10", 22), ("2001:db8::1", 80), ("2001:db8::1", 443)];
    assert_eq!(rules.literals(), literals.map(|(text, port)| (address(text), port)));
}

#[test]
fn deny_wins() {
    let text = "allow = ['*.example.org', 'example.org:22', '192.0.2.1', '192.0.2.2']\ndeny = ['bad.example.org', '*.bad.example.org', 'half.example.org:80', '@no', '192.0.2.1:80']\ngroups = { no = ['192.0.2.2'] }";
    for mode in ["allow", "open"] {
        let rules = rules(&format!("mode = '{mode}'\n{text}"));
        let denied = |rule: &str| Err(NetworkReason::Denied { rule: rule.to_owned() });
        assert_eq!(rules.decide(&host("bad.example.org"), 443), denied("bad.example.org"));
        assert_eq!(rules.decide(&host("a.bad.example.org"), 443), denied("*.bad.example.org"));
        assert_eq!(rules.decide(&host("half.example.org"), 80), denied("half.example.org:80"));
        assert_eq!(rules.decide(&host("half.example.org"), 443), granted("*.example.org"));
        assert_eq!(rules.decide(&host("192.0.2.2"), 443), denied("192.0.2.2 of @no"));
        assert_eq!(rules.decide(&host("::ffff:192.0.2.2"), 443), denied("192.0.2.2 of @no"));
        assert_eq!(rules.ports_of(&name("bad.example.org")), GrantedPorts::None);
        assert_eq!(rules.literals(), [(address("192.0.2.1"), 443)]);
        // A name that leads to a denied address.
        assert_eq!(
            rules.check_address(&host("a.example.org"), 443, address("192.0.2.2")),
            denied("192.0.2.2 of @no").map(|_: Granted| ())
        );
        assert!(rules.check_address(&host("a.example.org"), 443, address("::ffff:192.0.2.2")).is_err());
    }
    let only = rules("allow = ['half.example']\ndeny = ['half.example:80']");
    assert_eq!(only.ports_of(&name("half.example")), GrantedPorts::Some([443].into()));
    let none = rules("allow = ['half.example:80']\ndeny = ['half.example:80']");
    assert_eq!(none.ports_of(&name("half.example")), GrantedPorts::None);
}

#[test]
fn a_denied_address_with_a_port_is_denied_on_that_port() {
    for mode in ["allow", "open"] {
        let rules = rules(&format!(
            "mode = '{mode}'\nallow = ['example.org', 'example.org:22']\ndeny = ['192.0.2.1:22']"
        ));
        let check = |port, text: &str| rules.check_address(&host("example.org"), port, address(text));
        let denied = Err(NetworkReason::Denied { rule: "192.0.2.1:22".to_owned() });
        assert_eq!(check(22, "192.0.2.1"), denied);
        assert_eq!(check(22, "::ffff:192.0.2.1"), denied);
        assert_eq!(check(443, "192.0.2.1"), Ok(()));
        assert_eq!(check(22, "192.0.2.2"), Ok(()));
    }
}

#[test]
fn what_is_named_exactly_is_told_from_what_a_wildcard_has() {
    let rules = rules(
        "allow = ['a.example', 'a.example:22', '*.b.example', '@more', '192.0.2.1:80']\ndeny = ['a.example:80']\n\
         groups.more = ['c.b.example:25']",
    );
    for (exact, found) in
        [("a.example", true), ("c.b.example", true), ("x.b.example", false), ("b.example", false)]
    {
        assert_eq!(rules.names_exactly(&name(exact)), found, "{exact}");
    }
    // 22 and 443 of the one; 25 of the other, and what the wildcard adds to it.
    assert_eq!(rules.exact_pairs(), 5);
    assert!(rules.has_literal(address("::ffff:192.0.2.1")) && !rules.has_literal(address("192.0.2.2")));
}

#[test]
fn names_lead_only_to_public_addresses() {
    let rules = rules(
        "allow = ['example.org', 'db.internal:5432', '10.9.9.9:22']\nprivate = ['10.1.0.0/16', 'fd00:1::/32', '100.64.0.0/10']",
    );
    let check = |text: &str| rules.check_address(&host("db.internal"), 443, address(text));
    for fine in [
        "192.0.2.1",
        "2001:db8::1",
        "10.1.2.3",
        "::ffff:10.1.2.3",
        "fd00:1::5",
        "100.64.1.1",
        "64:ff9b::8.8.8.8",
    ] {
        assert_eq!(check(fine), Ok(()), "{fine}");
    }
    for (refused, class) in [
        ("10.2.0.1", AddressClass::Private),
        ("10.9.9.9", AddressClass::Private),
        ("192.168.0.1", AddressClass::Private),
        ("fd00:2::1", AddressClass::UniqueLocal),
        ("127.0.0.1", AddressClass::Loopback),
        ("::1", AddressClass::Loopback),
        ("0.0.0.0", AddressClass::Unspecified),
        ("169.254.169.254", AddressClass::Metadata),
        ("169.254.1.1", AddressClass::LinkLocal),
        ("100.100.100.200", AddressClass::Metadata),
        ("198.18.0.1", AddressClass::Benchmark),
        ("64:ff9b::10.1.2.3", AddressClass::Private),
        ("2002:a01:203::", AddressClass::Private),
        ("::10.1.2.3", AddressClass::Private),
        ("224.0.0.1", AddressClass::Multicast),
    ] {
        let address = address(refused);
        assert_eq!(check(refused), Err(NetworkReason::Address { address, class }), "{refused}");
    }
}

#[test]
fn an_address_that_was_typed_is_itself_and_no_other() {
    let rules = rules("allow = ['10.0.0.5:22', '169.254.1.1:80']\nlocal = [8080]");
    assert_eq!(rules.check_address(&host("10.0.0.5"), 22, address("10.0.0.5")), Ok(()));
    assert_eq!(rules.check_address(&host("169.254.1.1"), 80, address("169.254.1.1")), Ok(()));
    assert!(rules.check_address(&host("10.0.0.5"), 22, address("10.0.0.6")).is_err());
    assert!(rules.check_address(&host("10.0.0.5"), 22, address("192.0.2.1")).is_err());
    assert!(rules.check_address(&host("10.0.0.6"), 443, address("10.0.0.6")).is_err());

    assert_eq!(rules.decide(&host("127.0.0.1"), 8080), granted("local 8080"));
    assert_eq!(rules.decide(&host("::1"), 8080), granted("local 8080"));
    assert_eq!(rules.check_address(&host("127.0.0.1"), 8080, address("127.0.0.1")), Ok(()));
    for (target, port) in [("127.0.0.1", 22), ("127.0.0.2", 8080), ("localhost", 8080), ("::127.0.0.1", 8080)]
    {
        assert!(rules.decide(&host(target), port).is_err(), "{target}:{port}");
    }
    assert!(rules.check_address(&host("127.0.0.2"), 443, address("127.0.0.2")).is_err());
    // What the machine itself has is for whoever wrote it down.
    let own = |name: &str, port, at: &str| rules.check_own(&host(name), port, address(at)).is_ok();
    assert!(own("10.0.0.5", 22, "10.0.0.5") && own("127.0.0.1", 8080, "127.0.0.1"));
    assert!(own("example.org", 22, "10.0.0.5"), "a name opens nothing that the address does not");
    assert!(!own("10.0.0.5", 23, "10.0.0.5") && !own("example.org", 443, "10.0.0.5"));
    assert!(!own("10.0.0.5", 22, "10.0.0.6") && !own("127.0.0.1", 443, "127.0.0.1"));
    assert!(rules.check_address(&host("example.org"), 443, address("127.0.0.1")).is_err());
}

#[test]
fn open_is_the_internet_and_nothing_nearer() {
    let rules = rules("mode = 'open'\nallow = ['10.0.0.5:22']\nprivate = ['192.168.7.0/24']");
    for fine in ["example.org", "192.0.2.1", "2001:db8::1", "192.168.7.7"] {
        assert_eq!(rules.decide(&host(fine), 6667), granted("open"), "{fine}");
    }
    assert_eq!(rules.decide(&host("10.0.0.5"), 22), granted("10.0.0.5:22"));
    assert!(rules.decide(&host("10.0.0.5"), 23).is_err());
    for near in [
        "10.0.0.6",
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "fe80::1",
        "fd00::1",
        "0.0.0.0",
        "64:ff9b::10.0.0.6",
        "168.63.129.16",
    ] {
        assert!(matches!(rules.decide(&host(near), 80), Err(NetworkReason::Address { .. })), "{near}");
    }
    assert_eq!(rules.decide(&host("localhost"), 80), Err(NetworkReason::NotGranted));
    assert_eq!(rules.ports_of(&name("example.org")), GrantedPorts::Any);
    assert!(rules.check_address(&host("example.org"), 443, address("192.168.7.7")).is_ok());
    assert!(rules.check_address(&host("example.org"), 443, address("192.168.8.8")).is_err());
}

#[test]
fn termination_is_for_secrets_and_http_rules_only() {
    let rules = rules(
        "allow = ['*.example.org', 'api.example.com', 'tls.example']\nno_sni = ['tls.example']\n\
         [[network.http]]\nhost = 'api.example.com'\nmethods = ['GET']\n\
         [[network.http]]\nhost = 'api.example.com'\npaths = ['/upload']\n\
         [[network.secrets]]\nname = 'A'\nfrom = 'env:A'\nhosts = ['*.example.org:443']\n\
         [[network.secrets]]\nname = 'B'\nfrom = 'store:B'\nhosts = ['b.example.org', 'api.example.com']\n",
    );
    assert!(rules.terminates(&name("api.example.com")) && rules.terminates(&name("a.example.org")));
    assert!(!rules.terminates(&name("tls.example")) && !rules.terminates(&name("example.org")));
    assert_eq!(rules.secrets_for(&name("b.example.org"), 443), [0, 1]);
    assert_eq!(rules.secrets_for(&name("b.example.org"), 80), [1]);
    assert!(rules.secrets_for(&name("tls.example"), 443).is_empty());
    assert_eq!(rules.secrets_of(&name("b.example.org")), [0, 1]);
    assert!(rules.secrets_of(&name("tls.example")).is_empty());
    assert!(rules.needs_sni(&name("a.example.org")) && !rules.needs_sni(&name("tls.example")));
    assert_eq!(rules.http(&name("api.example.com")).map(|rules| rules.len()), Some(2));
    assert_eq!(rules.http(&name("a.example.org")), None);
    let allows = |method, path| rules.http_allows(&name("api.example.com"), method, path);
    assert_eq!(allows("GET", "/anything?at=all"), Ok(()));
    assert_eq!(allows("POST", "/upload/x?y=/../z"), Ok(()));
    assert_eq!(
        allows("POST", "/admin?x"),
        Err(NetworkReason::Http { method: "POST".into(), path: "/admin".into() })
    );
    assert_eq!(rules.http_allows(&name("a.example.org"), "DELETE", "/"), Ok(()));
}
