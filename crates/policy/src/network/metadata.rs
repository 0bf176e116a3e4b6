//! Addresses at which a cloud machine's platform hands out its identity and credentials.
//!
//! Reviewed data: each with who serves it. All other link-local addresses are refused as such.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const V4: [(Ipv4Addr, &str); 8] = [
    (
        Ipv4Addr::new(169, 254, 169, 254),
        "AWS, Azure, Google, Oracle, DigitalOcean, OpenStack and others: instance metadata",
    ),
    (Ipv4Addr::new(169, 254, 169, 253), "AWS: the resolver of a private network"),
    (Ipv4Addr::new(169, 254, 170, 2), "AWS: credentials of a container task"),
    (Ipv4Addr::new(169, 254, 170, 23), "AWS: credentials of a Kubernetes pod"),
    (Ipv4Addr::new(169, 254, 42, 42), "Scaleway: instance metadata"),
    (Ipv4Addr::new(168, 63, 129, 16), "Azure: the platform's channel to a machine, on a public address"),
    (Ipv4Addr::new(100, 100, 100, 200), "Alibaba: instance metadata, in shared space"),
    (Ipv4Addr::new(192, 0, 0, 192), "Oracle classic: instance metadata"),
];

const V6: [(Ipv6Addr, &str); 4] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), "AWS: instance metadata"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23), "AWS: credentials of a Kubernetes pod"),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), "Google: instance metadata"),
    (Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), "Scaleway: instance metadata"),
];

pub(super) fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => V4.iter().any(|(known, _)| *known == address),
        IpAddr::V6(address) => V6.iter().any(|(known, _)| *known == address),
    }
}
