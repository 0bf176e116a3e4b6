//! Rules by what they name, so that a decision costs the same for three rules and for three thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::host::Host;
use super::name::HostName;
use super::rule::{HostPattern, HostRule};

/// A list of rules with its groups written out.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleSet {
    rules: Vec<Entry>,
    names: BTreeMap<HostName, Vec<usize>>,
    below: BTreeMap<HostName, Vec<usize>>,
    addresses: BTreeMap<IpAddr, Vec<usize>>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) rule: HostRule,
    /// As it is written in the policy; a rule of a group with the group.
    pub(super) text: String,
}

impl RuleSet {
    pub(super) fn new(rules: &[HostRule], groups: &BTreeMap<String, Vec<HostRule>>) -> Self {
        let mut set = Self::default();
        for rule in rules {
            match &rule.pattern {
                HostPattern::Group(group) => {
                    for inner in groups.get(group).into_iter().flatten() {
                        set.add(inner, format!("{inner} of {rule}"));
                    }
                }
                _ => set.add(rule, rule.to_string()),
            }
        }
        set
    }

    fn add(&mut self, rule: &HostRule, text: String) {
        let index = self.rules.len();
        match &rule.pattern {
            HostPattern::Name(name) => self.names.entry(name.clone()).or_default().push(index),
            HostPattern::Below(name) => self.below.entry(name.clone()).or_default().push(index),
            HostPattern::Address(address) => {
                self.addresses.entry(address.to_canonical()).or_default().push(index);
            }
            // A group within a group is refused when a layer is checked.
            HostPattern::Group(_) => return,
        }
        self.rules.push(Entry { rule: rule.clone(), text });
    }

    pub(super) fn naming(&self, host: &Host) -> impl Iterator<Item = &Entry> {
        let (exact, parents) = match host {
            Host::Name(name) => {
                (self.names.get(name), name.parents().filter_map(|parent| self.below.get(parent)).collect())
            }
            Host::Address(address) => (self.addresses.get(&address.to_canonical()), Vec::new()),
        };
        exact.into_iter().chain(parents).flatten().map(|index| &self.rules[*index])
    }

    /// The ports that these rules grant to a host.
    pub(super) fn ports(&self, host: &Host) -> BTreeSet<u16> {
        self.naming(host).flat_map(|entry| entry.rule.ports()).copied().collect()
    }

    pub(super) fn has_name(&self, name: &HostName) -> bool {
        self.names.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &HostName> {
        self.names.keys()
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.keys().copied()
    }
}
