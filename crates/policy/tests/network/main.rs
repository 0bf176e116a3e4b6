//! What holds for every name, rule and address: one form each, nothing odd taken for a name, nothing denied granted.

mod decisions;
mod parsing;

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

fn pick<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    proptest::sample::select(values.to_vec())
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|n| IpAddr::V4(n.into())),
        any::<u128>().prop_map(|n| IpAddr::V6(n.into())),
        any::<u32>().prop_map(|n| IpAddr::V6(Ipv4Addr::from(n).to_ipv6_mapped())),
    ]
}
