//! Which address inside stands for which name. An address is given when a name is first asked for, and never to another.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringfence_policy::{HostName, NetworkReason};

use crate::addresses::{FAKE_V4, FAKE_V6, fake_address};
use crate::lock::Lock;

/// So many names in the life of a sandbox, beside those that the policy lists one by one. Each costs listeners and
/// memory outside.
pub(crate) const MOST_NAMES: u32 = 8192;

/// Both addresses of a name.
pub(crate) type Pair = (Ipv4Addr, Ipv6Addr);

pub(crate) struct Names {
    known: Lock<Known>,
    limit: u32,
    place: Place,
}

/// The addresses of the name with this index, while there are any.
type Place = Box<dyn Fn(u32) -> Option<Pair> + Send + Sync>;

/// Who chose a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// The user: a rule names it exactly. Nothing that the command does may take its place away.
    ByRule,
    /// The command, below a wildcard for example; there is no end to those.
    ByCommand,
}

#[derive(Default)]
struct Known {
    /// How many of them the command chose.
    by_command: u32,
    pairs: HashMap<HostName, Pair>,
    names: HashMap<IpAddr, HostName>,
}

/// What was found for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) pair: Pair,
    /// It had no address before.
    pub(crate) new: bool,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self::with(MOST_NAMES, Box::new(fake_address))
    }

    /// Tests have addresses of their own, which loopback can carry.
    pub(crate) fn with(limit: u32, place: Place) -> Self {
        Self { known: Lock::default(), limit, place }
    }

    pub(crate) fn find_or_add(&self, name: &HostName, chosen: Chosen) -> Result<Found, NetworkReason> {
        let mut known = self.known.lock();
        if let Some(&pair) = known.pairs.get(name) {
            return Ok(Found { pair, new: false });
        }
        let full = NetworkReason::Names { limit: self.limit };
        if chosen == Chosen::ByCommand {
            if known.by_command >= self.limit {
                return Err(full);
            }
            known.by_command += 1;
        }
        let pair = u32::try_from(known.pairs.len()).ok().and_then(&self.place).ok_or(full)?;
        known.pairs.insert(name.clone(), pair);
        known.names.insert(pair.0.into(), name.clone());
        known.names.insert(pair.1.into(), name.clone());
        Ok(Found { pair, new: true })
    }

    pub(crate) fn name_of(&self, address: IpAddr) -> Option<HostName> {
        self.known.lock().names.get(&address).cloned()
    }
}

/// Is this one of the addresses that mean something only inside?
pub(crate) fn is_fake(address: IpAddr) -> bool {
    let prefix = |bits: u32, length: u8| u128::MAX << (bits - u32::from(length));
    match address {
        IpAddr::V4(address) => {
            let mask = prefix(32, FAKE_V4.1) as u32;
            u32::from(address) & mask == u32::from(FAKE_V4.0)
        }
        IpAddr::V6(address) => u128::from(address) & prefix(128, FAKE_V6.1) == u128::from(FAKE_V6.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    #[test]
    fn a_name_keeps_its_addresses_and_they_keep_their_name() {
        let names = Names::new();
        let first = names.find_or_add(&name("one.example"), Chosen::ByCommand).unwrap();
        let second = names.find_or_add(&name("two.example"), Chosen::ByRule).unwrap();
        assert_eq!(first.pair, (Ipv4Addr::new(198, 18, 1, 0), "fd72:6664:0:1::100".parse().unwrap()));
        assert_ne!(first.pair, second.pair);
        assert!(first.new && second.new);
        let again = names.find_or_add(&name("One.Example."), Chosen::ByCommand).unwrap();
        assert_eq!(again, Found { new: false, ..first });
        assert_eq!(names.name_of(second.pair.0.into()), Some(name("two.example")));
        assert_eq!(names.name_of(second.pair.1.into()), Some(name("two.example")));
        assert_eq!(names.name_of("198.18.0.1".parse().unwrap()), None);
    }

    #[test]
    fn names_run_out_but_those_known_stay() {
        let names = Names::with(3, Box::new(fake_address));
        let ask = |text: &str| names.find_or_add(&name(text), Chosen::ByCommand);
        for index in 0..3 {
            ask(&format!("n{index}.example")).unwrap();
        }
        assert_eq!(ask("n3.example"), Err(NetworkReason::Names { limit: 3 }));
        assert!(ask("n2.example").is_ok());
    }

    #[test]
    fn a_name_with_a_rule_of_its_own_always_has_a_place() {
        let names = Names::with(3, Box::new(fake_address));
        let rules = |from: u32| (from..from + 5).map(|index| name(&format!("r{index}.example")));
        let given = |wanted: Vec<HostName>| {
            wanted
                .iter()
                .map(|name| names.find_or_add(name, Chosen::ByRule).unwrap().pair)
                .collect::<Vec<_>>()
        };
        let mut pairs = given(rules(0).collect());
        let flood =
            (0..10).filter(|n| names.find_or_add(&name(&format!("n{n}.example")), Chosen::ByCommand).is_ok());
        // Those with rules took none of the command's places.
        assert_eq!(flood.count(), 3);
        pairs.extend(given(rules(5).collect()));
        pairs.sort();
        pairs.dedup();
        assert_eq!(pairs.len(), 10);
    }

    #[test]
    fn what_is_ours_is_told_from_what_is_not() {
        for ours in ["198.18.0.0", "198.18.0.1", "198.19.255.255", "fd72:6664::1", "fd72:6664:0:ffff::1"] {
            assert!(is_fake(ours.parse().unwrap()), "{ours}");
        }
        for other in ["198.17.255.255", "198.20.0.0", "fd72:6664:1::1", "fd72:6665::", "192.0.2.1", "::1"] {
            assert!(!is_fake(other.parse().unwrap()), "{other}");
        }
    }
}
