//! Addresses in all their clothes.

use std::net::IpAddr;

use crate::network::address::AddressClass::{self, *};
use crate::network::address::address_class;
use crate::network::host::{Host, HostError};
use crate::network::range::AddressRange;

fn class(text: &str) -> AddressClass {
    address_class(text.parse().unwrap_or_else(|_| panic!("{text}")))
}

#[test]
fn the_class_of_each_range_at_its_edges() {
    let rows = [
        (Unspecified, &["0.0.0.0", "::"][..]),
        (Reserved, &["0.0.0.1", "0.255.255.255", "192.0.0.1", "192.88.99.1", "240.0.0.1", "255.255.255.254"]),
        (Reserved, &["100::1", "4000::1", "2001:10::1", "2001:2f:ffff::", "5f00::1", "fe00::1", "::2:0:0:0"]),
        (Private, &["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.1", "fec0::1"]),
        (
            Public,
            &["9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0"],
        ),
        (Shared, &["100.64.0.0", "100.127.255.255"]),
        (Public, &["100.63.255.255", "100.128.0.0", "8.8.8.8", "2000::1", "2606:4700::1", "3fff:ffff::"]),
        (Loopback, &["127.0.0.1", "127.0.0.0", "127.255.255.255", "::1"]),
        (LinkLocal, &["169.254.0.1", "169.254.255.255", "fe80::1", "febf::1"]),
        (Benchmark, &["198.18.0.0", "198.19.255.255", "2001:2::1"]),
        (Public, &["198.17.255.255", "198.20.0.0"]),
        (Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1"]),
        (Broadcast, &["255.255.255.255"]),
        (UniqueLocal, &["fc00::1", "fdff::1", "fd72:6664::1"]),
        (Metadata, &["169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192"]),
        (Metadata, &["fd00:ec2::254", "fd20:ce::254"]),
        // Documentation: nobody's, so it counts as public and tests may have it.
        (Public, &["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1"]),
    ];
    for (wanted, addresses) in rows {
        for address in addresses {
            assert_eq!(class(address), wanted, "{address}");
        }
    }
}

#[test]
fn an_address_within_an_address_is_found() {
    let rows = [
        (Loopback, "::ffff:127.0.0.1"),
        (Loopback, "::ffff:7f00:1"),
        (Private, "::ffff:10.0.0.1"),
        (Metadata, "::ffff:169.254.169.254"),
        (Public, "::ffff:8.8.8.8"),
        // IPv4-compatible and IPv4-translated: no way to the internet.
        (Loopback, "::127.0.0.1"),
        (Metadata, "::169.254.169.254"),
        (Reserved, "::8.8.8.8"),
        (Private, "::ffff:0:10.0.0.1"),
        (Reserved, "::ffff:0:8.8.8.8"),
        // NAT64.
        (Loopback, "64:ff9b::127.0.0.1"),
        (Metadata, "64:ff9b::a9fe:a9fe"),
        (Private, "64:ff9b::192.168.1.1"),
        (Unspecified, "64:ff9b::"),
        (Public, "64:ff9b::8.8.8.8"),
        // A site's own NAT64 prefix, cut at /96, /48, /56 and /64.
        (Private, "64:ff9b:1::8.8.8.8"),
        (Metadata, "64:ff9b:1::169.254.169.254"),
        (Metadata, "64:ff9b:1:a9fe:a9:fe00:808:808"),
        (Loopback, "64:ff9b:1:7f:0:100:808:808"),
        (LinkLocal, "64:ff9b:1:0:a9:fe01:108:808"),
        // 6to4.
        (Loopback, "2002:7f00:1::1"),
        (Private, "2002:a00:1::"),
        (Metadata, "2002:a9fe:a9fe::1"),
        (Public, "2002:808:808::1"),
        // Teredo: the client's bits are turned over, the server's are not.
        (Loopback, "2001:0:808:808::80ff:fffe"),
        (Private, "2001:0:a00:1::f7f7:f7f7"),
        (Public, "2001:0:808:808::f7f7:f7f7"),
    ];
    for (wanted, address) in rows {
        assert_eq!(class(address), wanted, "{address}");
    }
}

#[test]
fn hosts() {
    let address = |text: &str| Ok(Host::Address(text.parse::<IpAddr>().unwrap()));
    for (text, wanted) in [
        ("192.0.2.10", "192.0.2.10"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:DB8:0::0001]", "2001:db8::1"),
        ("::ffff:192.0.2.10", "192.0.2.10"),
        ("[::ffff:c000:20a]", "192.0.2.10"),
        ("0:0:0:0:0:ffff:7f00:1", "127.0.0.1"),
        ("::192.0.2.10", "::192.0.2.10"),
    ] {
        assert_eq!(Host::parse(text), address(wanted), "{text}");
    }
    for text in [
        "",
        "[",
        "]",
        "[]",
        "[192.0.2.10]",
        "[example.org]",
        "[::1",
        "::1]",
        "[::1]:80",
        "[[::1]]",
        "fe80::1%lo",
        "[fe80::1%25lo]",
        "1::2::3",
        "1:2:3:4:5:6:7:8:9",
        ":::",
        "::ffff:127.1",
        "::ffff:0x7f.0.0.1",
        "::ffff:0177.0.0.1",
        "::12345",
        "127.1",
        "0x7f.1",
        "192.0.2.010",
        "192.0.2.10 ",
        "192.0.2.10\0",
        "192.0.2",
        "+1.2.3.4",
        "example.org:80",
        "①.①.①.①",
    ] {
        assert!(Host::parse(text).is_err(), "{text:?}");
    }
    assert!(matches!(Host::parse("Example.ORG."), Ok(Host::Name(name)) if name.as_str() == "example.org"));
}

#[test]
fn authorities() {
    let parsed = |text: &str, default| {
        Host::parse_with_port(text, default).map(|(host, port)| format!("{host} {port}"))
    };
    for (text, default, wanted) in [
        ("example.org:443", None, "example.org 443"),
        ("EXAMPLE.org.:443", None, "example.org 443"),
        ("example.org", Some(80), "example.org 80"),
        ("[2001:db8::1]:22", None, "2001:db8::1 22"),
        ("[2001:db8::1]", Some(80), "2001:db8::1 80"),
        ("[::ffff:192.0.2.1]:80", None, "192.0.2.1 80"),
        ("192.0.2.1:65535", None, "192.0.2.1 65535"),
    ] {
        assert_eq!(parsed(text, default).as_deref(), Ok(wanted), "{text}");
    }
    assert!(matches!(Host::parse_with_port("example.org", None), Err(HostError::NoPort { .. })));
    for text in [
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:+80",
        "example.org: 80",
        "example.org:080000",
        "example.org:80:80",
        "example.org:0x50",
        "2001:db8::1",
        "2001:db8::1:443",
        "[2001:db8::1]443",
        "[2001:db8::1]x:443",
        "user@example.org:443",
        "user:pass@example.org:443",
        ":443",
        "example.org:443/",
        "example.org:443\r\n",
        "[::1]:80:443",
        "example.org:８０",
    ] {
        assert!(Host::parse_with_port(text, Some(443)).is_err(), "{text:?}");
    }
}

#[test]
fn ranges() {
    let range = |text: &str| {
        AddressRange::parse(text).map(|range| range.to_string()).map_err(|error| error.to_string())
    };
    for text in [
        "10.0.0.0/8",
        "10.1.2.0/24",
        "192.168.1.1/32",
        "172.16.0.0/12",
        "100.64.0.0/10",
        "fd00::/8",
        "fc00::/7",
        "64:ff9b:1::/48",
    ] {
        assert_eq!(range(text).as_deref(), Ok(text));
    }
    assert_eq!(range("10.0.0.5").as_deref(), Ok("10.0.0.5/32"));
    assert_eq!(range("fd00::5").as_deref(), Ok("fd00::5/128"));
    for text in [
        "0.0.0.0/0",
        "::/0",
        "127.0.0.0/8",
        "127.0.0.1",
        "::1",
        "169.254.0.0/16",
        "169.254.169.254",
        "fe80::/10",
        "8.8.8.0/24",
        "10.0.0.0/7",
        "192.168.0.0/15",
        "fc00::/6",
        "::ffff:10.0.0.0/104",
        "64:ff9b::/96",
        "224.0.0.0/4",
        "2002:a00::/24",
    ] {
        assert!(range(text).unwrap_err().contains("is not a range of private addresses"), "{text}");
    }
    for text in [
        "",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "10.0.0/8",
        "10/8",
        "fd00::/129",
        "10.0.0.0/256",
        "ten/8",
        "10.0.0.0 /8",
    ] {
        assert!(range(text).unwrap_err().contains("is not a range of addresses"), "{text}");
    }
    insta::assert_snapshot!(range("10.1.2.3/8").unwrap_err(), @"`10.1.2.3/8` has bits beyond its prefix, write 10.0.0.0/8");
    let ten = AddressRange::parse("10.0.0.0/8").unwrap();
    assert!(ten.contains("10.9.9.9".parse().unwrap()) && ten.contains("::ffff:10.9.9.9".parse().unwrap()));
    assert!(!ten.contains("11.0.0.0".parse().unwrap()) && !ten.contains("::10.0.0.1".parse().unwrap()));
}
