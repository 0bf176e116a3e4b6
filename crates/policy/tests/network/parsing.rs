//! Names, rules, addresses and ranges: read, printed, read again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_policy::{
    AddressClass, AddressRange, Host, HostName, HostPattern, HostRule, SecretRule, SecretSource,
    address_class,
};

use crate::{address, pick};

/// Names that parse, in ASCII and not.
fn name_text() -> impl Strategy<Value = String> {
    let label =
        prop_oneof!["[a-zA-Z0-9_]{1,8}", "[a-z][a-z0-9-]{0,6}[a-z]", "[а-яα-ω]{1,5}", "[a-zäöüß例え]{1,5}"];
    (vec(label, 1..4), pick(&["example", "org", "xn--bcher-kva", "テスト"])).prop_map(|(labels, last)| {
        let mut name = labels.join(".");
        name.push('.');
        name.push_str(last);
        name
    })
}

fn name() -> impl Strategy<Value = HostName> {
    name_text().prop_filter_map("not a name", |text| HostName::parse(&text).ok())
}

fn rule() -> impl Strategy<Value = HostRule> {
    let pattern = prop_oneof![
        name().prop_map(HostPattern::Name),
        name().prop_map(HostPattern::Below),
        address().prop_map(|address| HostPattern::Address(address.to_canonical())),
    ];
    let host = (pattern, proptest::option::of(1u16..)).prop_map(|(pattern, port)| HostRule { pattern, port });
    let group =
        "[a-z0-9_-]{1,12}".prop_map(|name| HostRule { pattern: HostPattern::Group(name), port: None });
    prop_oneof![4 => host, 1 => group]
}

/// What a program, a library or a resolver might take for an IPv4 address: 1 to 4 parts, in any base, padded.
fn odd_ipv4() -> impl Strategy<Value = String> {
    let part = (any::<u32>(), 0usize..4, 0u32..33)
        .prop_map(|(n, zeros, shift)| (n.checked_shr(shift).unwrap_or(0), zeros));
    let spelt = (part, 0..5u8).prop_map(|((n, zeros), base)| match base {
        0 => format!("{n}"),
        1 => format!("{}{n:o}", "0".repeat(zeros + 1)),
        2 => format!("0x{}{n:x}", "0".repeat(zeros)),
        3 => format!("0X{n:X}"),
        _ => n.to_string().chars().map(|c| char::from_u32(c as u32 - '0' as u32 + 0xff10).unwrap()).collect(),
    });
    (vec(spelt, 1..6), pick(&[".", "。", "．"]), pick(&["", "."]))
        .prop_map(|(parts, dot, end)| parts.join(dot) + end)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsing_never_panics_and_what_parses_is_strict(text in prop_oneof!["\\PC{0,40}", "[a-z.*:@\\[\\]/%0-9x\\-]{0,30}", ".{0,20}"]) {
        if let Ok(name) = HostName::parse(&text) {
            prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b)));
            prop_assert!(!name.as_str().is_empty() && name.as_str().len() <= 253);
            prop_assert!(name.as_str().split('.').all(|label| (1..=63).contains(&label.len())));
            prop_assert!(name.as_str().parse::<IpAddr>().is_err());
            prop_assert_eq!(&HostName::parse(name.as_str()), &Ok(name.clone()), "{} again", text);
        }
        for error in [
            HostName::parse(&text).err().map(|error| error.to_string()),
            Host::parse_with_port(&text, Some(443)).err().map(|error| error.to_string()),
            HostRule::parse(&text).err().map(|error| error.to_string()),
            AddressRange::parse(&text).err().map(|error| error.to_string()),
            SecretRule::parse(&text).err().map(|error| error.to_string()),
        ].into_iter().flatten() {
            prop_assert!(!error.contains(|c: char| c.is_control()), "{error:?}");
        }
    }

    #[test]
    fn normalising_is_idempotent(text in name_text()) {
        if let Ok(name) = HostName::parse(&text) {
            prop_assert_eq!(&HostName::parse(name.as_str()).unwrap(), &name);
            prop_assert_eq!(&HostName::parse(&text.to_lowercase()).unwrap(), &name);
            prop_assert_eq!(&HostName::parse(&format!("{text}.")).unwrap(), &name);
            prop_assert_eq!(&HostName::parse(&name.as_str().to_uppercase()).unwrap(), &name);
            prop_assert_eq!(&HostName::parse_ascii(name.as_str()).unwrap(), &name);
            let two_dots = format!("{text}..");
            prop_assert!(HostName::parse(&two_dots).is_err());
            let json = serde_json::to_string(&name).unwrap();
            prop_assert_eq!(&serde_json::from_str::<HostName>(&json).unwrap(), &name);
        }
    }

    #[test]
    fn mixed_case_is_one_name(text in "[a-z]{1,8}(\\.[a-z0-9]{1,6}){0,2}\\.example", upper in any::<u64>()) {
        let mixed: String =
            text.chars().enumerate().map(|(i, c)| if upper >> (i % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c }).collect();
        prop_assert_eq!(HostName::parse(&mixed), HostName::parse(&text));
    }

    #[test]
    fn a_homograph_is_never_the_name(text in "[a-z]{0,4}[aeopcxyi][a-z]{0,4}\\.example") {
        let twin: String = text.chars().map(|c| match c {
            'a' => 'а', 'e' => 'е', 'o' => 'о', 'p' => 'р', 'c' => 'с', 'x' => 'х', 'y' => 'у', 'i' => 'і',
            other => other,
        }).collect();
        prop_assert_ne!(HostName::parse(&twin).ok(), HostName::parse(&text).ok());
    }

    #[test]
    fn an_odd_ipv4_spelling_is_no_name(text in odd_ipv4()) {
        prop_assert!(HostName::parse(&text).is_err(), "{text}");
        match Host::parse(&text) {
            // Only the one spelling that everybody reads the same way.
            Ok(host) => prop_assert_eq!(host.to_string(), text),
            Err(_) => prop_assert!(text.parse::<IpAddr>().is_err()),
        }
    }

    #[test]
    fn an_ipv6_spelling_is_no_name(address in any::<u128>(), upper in any::<bool>(), form in 0..4u8) {
        let address = Ipv6Addr::from(address);
        let s = address.segments();
        let text = match form {
            0 => address.to_string(),
            1 => s.map(|part| format!("{part:04x}")).join(":"),
            2 => s.map(|part| format!("{part:x}")).join(":"),
            _ => {
                let v4 = Ipv4Addr::from(u32::from(s[6]) << 16 | u32::from(s[7]));
                format!("{}:{v4}", s[..6].iter().map(|part| format!("{part:x}")).collect::<Vec<_>>().join(":"))
            }
        };
        let text = if upper { text.to_uppercase() } else { text };
        prop_assert!(HostName::parse(&text).is_err());
        for text in [text.clone(), format!("[{text}]")] {
            prop_assert_eq!(Host::parse(&text), Ok(Host::Address(IpAddr::V6(address).to_canonical())));
        }
        let zoned = format!("{text}%1");
        prop_assert!(Host::parse(&zoned).is_err());
        let rule = HostRule::parse(&format!("[{text}]:22")).unwrap();
        prop_assert_eq!(HostRule::parse(&rule.to_string()), Ok(rule));
    }

    #[test]
    fn a_rule_reads_back(rule in rule()) {
        prop_assert_eq!(&HostRule::parse(&rule.to_string()), &Ok(rule.clone()));
        let json = serde_json::to_string(&rule).unwrap();
        prop_assert_eq!(serde_json::from_str::<HostRule>(&json).unwrap(), rule);
    }

    #[test]
    fn a_host_reads_back(name in name(), address in address(), port in 1u16..) {
        for host in [Host::Name(name), Host::from(address)] {
            prop_assert_eq!(&Host::parse(&host.to_string()), &Ok(host.clone()));
            let authority = HostRule::of(host.clone(), Some(port)).to_string();
            prop_assert_eq!(Host::parse_with_port(&authority, None), Ok((host, port)));
        }
    }

    #[test]
    fn a_range_reads_back_and_stays_in_private_space(n in any::<u128>(), prefix in 0u8..=128, space in 0..7usize) {
        let v6 = Ipv6Addr::from(n);
        let octets = v6.octets();
        let address: IpAddr = match space {
            0 => Ipv4Addr::new(10, octets[0], octets[1], octets[2]).into(),
            1 => Ipv4Addr::new(172, 16 | octets[0] & 15, octets[1], octets[2]).into(),
            2 => Ipv4Addr::new(192, 168, octets[1], octets[2]).into(),
            3 => Ipv4Addr::from(n as u32).into(),
            4 => Ipv6Addr::from(n >> 8 | 0xfd << 120).into(),
            _ => v6.into(),
        };
        let prefix = if address.is_ipv4() { prefix % 33 } else { prefix };
        let masked = match address {
            IpAddr::V4(a) => IpAddr::V4((u32::from(a) & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)).into()),
            IpAddr::V6(a) => IpAddr::V6((u128::from(a) & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)).into()),
        };
        if let Ok(range) = AddressRange::parse(&format!("{masked}/{prefix}")) {
            prop_assert_eq!(AddressRange::parse(&range.to_string()), Ok(range));
            prop_assert!(range.contains(address) && range.covers(&range));
            prop_assert_ne!(address_class(address), AddressClass::Public);
            prop_assert_ne!(address_class(address), AddressClass::Loopback);
        }
    }

    #[test]
    fn a_secret_reads_back(name in "[A-Z_][A-Z0-9_]{0,10}", source in 0..4u8, text in "[^\0]{1,20}", hosts in vec(name(), 1..3), port in proptest::option::of(1u16..), body in any::<bool>()) {
        let from = match source {
            0 => SecretSource::Env(name.clone()),
            1 => SecretSource::File(text.into()),
            2 => SecretSource::Command(text),
            _ => SecretSource::Store(name.clone()),
        };
        let hosts = hosts.into_iter().map(|host| HostRule::of(host.into(), port)).collect();
        let rule = SecretRule { name, from, hosts, body };
        prop_assert_eq!(&SecretRule::parse(&rule.to_string()), &Ok(rule.clone()));
        prop_assert_eq!(SecretSource::parse(&rule.from.to_string()), Ok(rule.from));
    }

    /// Whatever carries a near IPv4 address is at least as near.
    #[test]
    fn no_clothes_make_a_near_address_public(n in any::<u32>(), near in any::<bool>(), fill in any::<u64>()) {
        let near_by = [0x7f00_0001, 0x0a00_0001, 0xa9fe_a9fe, 0xc0a8_0101, 0x6440_0001, 0xac10_0001, 0xe000_0001, 0];
        let n = if near { near_by[n as usize % near_by.len()] } else { n };
        let v4 = Ipv4Addr::from(n);
        let class = address_class(v4.into());
        let wide = u128::from(n);
        let fill = u128::from(fill);
        let clothes = [
            0xffff << 32 | wide,
            wide,
            0xffff << 48 | wide,
            0x64_ff9b << 96 | wide,
            0x64_ff9b_0001 << 80 | (fill & 0xffff) << 64 | wide,
            0x2002 << 112 | wide << 80 | fill,
            0x2001_0000 << 96 | wide << 64 | fill,
            0x2001_0000 << 96 | 0x0808_0808 << 64 | u128::from(!n),
        ];
        for carrier in clothes {
            let carrier = Ipv6Addr::from(carrier);
            if class != AddressClass::Public {
                prop_assert_ne!(address_class(carrier.into()), AddressClass::Public, "{} carries {}", carrier, v4);
            }
        }
        prop_assert_eq!(address_class(v4.to_ipv6_mapped().into()), class);
    }
}
