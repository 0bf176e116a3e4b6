//! Merging layers over a profile, with the origin of each clause kept.
//!
//! The rule: the last layer that names a profile picks the base; for a single value the later layer wins; lists
//! are united in order, so that a later layer adds to `deny` and `hide` and can't take away from them.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::bound::Bound;
use crate::layer::{Layer, NetworkLayer};
use crate::model::{Network, NetworkMode, Policy, ProfileName};
use crate::network::{SecretRule, SecretSource};
use crate::origin::{Origin, Origins};
use crate::profiles::profile;
use crate::whole::check_whole;

/// A policy and where each of its clauses came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    pub policy: Policy,
    pub origins: Origins,
}

/// A layer that can't be merged, by its origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {reason}")]
pub struct MergeError {
    pub origin: Origin,
    pub reason: crate::LayerError,
}

/// The policy of the base profile (or of the last profile that a layer names) with the layers applied in order.
///
/// Layers made in code, by flags say, are checked here with the same rules as files.
pub fn merge(base: ProfileName, layers: &[(Origin, Layer)]) -> Result<Merged, MergeError> {
    let merged = merge_part(base, layers)?;
    check_whole(&merged.policy, &merged.origins)?;
    Ok(merged)
}

/// The same for some of the layers of a policy, where a rule of one may stand on a layer that is left out.
pub(crate) fn merge_part(base: ProfileName, layers: &[(Origin, Layer)]) -> Result<Merged, MergeError> {
    let named = layers.iter().enumerate().rev().find_map(|(i, (_, layer))| Some((i, layer.profile?)));
    let mut policy = profile(named.map_or(base, |(_, name)| name));
    let mut origins = Origins::of_profile(policy.profile);
    if layers.is_empty() {
        return Ok(Merged { policy, origins });
    }
    for (i, (origin, layer)) in layers.iter().enumerate() {
        layer.validate().map_err(|reason| MergeError { origin: origin.clone(), reason })?;
        origins.push_layer(origin.clone());
        if named.is_some_and(|(from, _)| from == i) {
            origins.scalar("profile");
        }
        apply(&mut policy, &mut origins, layer);
    }
    policy.environment.withhold = withheld(&policy.network);
    Ok(Merged { policy, origins })
}

fn apply(policy: &mut Policy, origins: &mut Origins, layer: &Layer) {
    for clause in &layer.waive {
        if policy.waived.insert(*clause) {
            origins.item("waive", clause.as_str());
        }
    }

    set(&mut policy.provider, layer.provider, "provider", origins);
    if layer.image.is_some() {
        policy.image.clone_from(&layer.image);
        origins.scalar("image");
    }
    set(&mut policy.runtime, layer.runtime.clone().map(Some), "runtime", origins);
    let (to, from) = (&mut policy.filesystem, &layer.filesystem);
    set(&mut to.host, from.host, "filesystem.host", origins);
    set(&mut to.toolchains, from.toolchains, "filesystem.toolchains", origins);
    set(&mut to.workspace, from.workspace.clone(), "filesystem.workspace", origins);
    unite_paths(&mut to.read, &from.read, "filesystem.read", origins);
    unite_paths(&mut to.write, &from.write, "filesystem.write", origins);
    unite_paths(&mut to.hide, &from.hide, "filesystem.hide", origins);
    set(&mut to.tmp, from.tmp, "filesystem.tmp", origins);
    unite_set(&mut to.unprotect, &from.unprotect, "filesystem.unprotect", origins);
    unite_set(&mut to.protect, &from.protect, "filesystem.protect", origins);

    let (to, from) = (&mut policy.network, &layer.network);
    apply_network(to, from, origins);

    let (to, from) = (&mut policy.limits, &layer.limits);
    set_limit(&mut to.cpus, from.cpus.map(|b| b.map(|c| c.0)), "limits.cpus", origins);
    set_limit(&mut to.memory, from.memory, "limits.memory", origins);
    set_limit(&mut to.processes, from.processes, "limits.processes", origins);
    set_limit(&mut to.disk, from.disk, "limits.disk", origins);
    set_limit(&mut to.open_files, from.open_files, "limits.open_files", origins);
    set_limit(&mut to.output, from.output, "limits.output", origins);
    set_limit(&mut to.wall_time, from.wall_time, "limits.wall_time", origins);
    set_limit(&mut to.connections, from.connections, "limits.connections", origins);
    set_limit(&mut to.bandwidth, from.bandwidth, "limits.bandwidth", origins);

    let (to, from) = (&mut policy.syscalls, &layer.syscalls);
    set(&mut to.profile, from.profile, "syscalls.profile", origins);
    unite_set(&mut to.allow, &from.allow, "syscalls.allow", origins);
    unite_set(&mut to.deny, &from.deny, "syscalls.deny", origins);
    set(&mut to.compat, from.compat, "syscalls.compat", origins);

    let (to, from) = (&mut policy.environment, &layer.environment);
    for (name, value) in &from.set {
        to.set.insert(name.clone(), value.clone());
        origins.item("environment.set", name);
    }
    unite_set(&mut to.pass, &from.pass, "environment.pass", origins);

    let (to, from) = (&mut policy.identity, &layer.identity);
    if from.user.is_some() {
        to.user.clone_from(&from.user);
        origins.scalar("identity.user");
    }
    set(&mut to.hostname, from.hostname.clone(), "identity.hostname", origins);
}

/// The variables of secrets: what holds the placeholder inside, and what holds the value outside.
fn withheld(network: &Network) -> BTreeSet<String> {
    let source = |secret: &SecretRule| match &secret.from {
        SecretSource::Env(name) => Some(name.clone()),
        _ => None,
    };
    let names = |secret: &SecretRule| [Some(secret.name.clone()), source(secret)];
    network.secrets.iter().flat_map(names).flatten().collect()
}

fn set<T>(to: &mut T, from: Option<T>, clause: &'static str, origins: &mut Origins) {
    if let Some(value) = from {
        *to = value;
        origins.scalar(clause);
    }
}

fn set_limit<T>(to: &mut Option<T>, from: Option<Bound<T>>, clause: &'static str, origins: &mut Origins) {
    set(to, from.map(Bound::into_option), clause, origins);
}

fn apply_network(to: &mut Network, from: &NetworkLayer, origins: &mut Origins) {
    let lifts = from.lifts() && to.mode == NetworkMode::Off;
    set(&mut to.mode, from.mode.or(lifts.then_some(NetworkMode::Allow)), "network.mode", origins);
    unite(&mut to.allow, &from.allow, "network.allow", origins);
    unite(&mut to.deny, &from.deny, "network.deny", origins);
    unite(&mut to.private, &from.private, "network.private", origins);
    for port in &from.local {
        if to.local.insert(*port) {
            origins.item("network.local", &port.to_string());
        }
    }
    for name in &from.no_sni {
        if to.no_sni.insert(name.clone()) {
            origins.item("network.no_sni", name.as_str());
        }
    }
    for (name, rules) in &from.groups {
        let group = to.groups.entry(name.clone()).or_default();
        for rule in rules.iter().filter(|rule| !group.contains(rule)).cloned().collect::<Vec<_>>() {
            origins.item("network.groups", &format!("@{name} {rule}"));
            group.push(rule);
        }
    }
    unite(&mut to.http, &from.http, "network.http", origins);
    for secret in &from.secrets {
        // One variable, one secret: the later layer's.
        to.secrets.retain(|known| known.name != secret.name);
        to.secrets.push(secret.clone());
        origins.item("network.secrets", &secret.to_string());
    }
}

fn unite<T: Clone + PartialEq + Display>(
    to: &mut Vec<T>,
    from: &[T],
    clause: &'static str,
    origins: &mut Origins,
) {
    for item in from {
        if !to.contains(item) {
            to.push(item.clone());
            origins.item(clause, &item.to_string());
        }
    }
}

fn unite_set(to: &mut BTreeSet<String>, from: &[String], clause: &'static str, origins: &mut Origins) {
    for item in from {
        if to.insert(item.clone()) {
            origins.item(clause, item);
        }
    }
}

fn unite_paths(to: &mut Vec<PathBuf>, from: &[PathBuf], clause: &'static str, origins: &mut Origins) {
    for item in from {
        if !to.iter().any(|known| same_path(known, item)) {
            to.push(item.clone());
            origins.item(clause, &item.to_string_lossy());
        }
    }
}

/// Byte for byte. `Path` equality would take `a/./b` for `a/b`, and origins are looked up by text.
fn same_path(a: &Path, b: &Path) -> bool {
    a.as_os_str() == b.as_os_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSize, Clause, Workspace};

    fn layer(origin: &str, text: &str) -> (Origin, Layer) {
        (Origin::flag(origin), Layer::from_toml(text).unwrap())
    }

    #[test]
    fn no_layers_is_the_profile() {
        for name in ProfileName::ALL {
            let merged = merge(name, &[]).unwrap();
            assert_eq!(merged.policy, profile(name));
            assert!(Clause::ALL.iter().all(|clause| !merged.origins.asked(*clause)));
        }
    }

    #[test]
    fn the_last_profile_named_is_the_base_below_every_layer() {
        let layers = [
            layer("one", "profile = 'permissive'\n[limits]\nmemory = '3G'"),
            layer("two", "profile = 'restrictive'"),
            layer("three", "[limits]\nprocesses = 7"),
        ];
        let merged = merge(ProfileName::Moderate, &layers).unwrap();
        assert_eq!(merged.policy.profile, ProfileName::Restrictive);
        assert_eq!(merged.policy.filesystem.workspace, Workspace::Private);
        assert_eq!(merged.policy.limits.memory, Some(ByteSize::gib(3)));
        assert_eq!(merged.policy.limits.processes, Some(7));
        assert_eq!(merged.origins.of("profile"), &Origin::flag("two"));
        assert_eq!(merged.origins.of("limits.memory"), &Origin::flag("one"));
        assert_eq!(merged.origins.of("limits.disk"), &Origin::Profile(ProfileName::Restrictive));
    }

    #[test]
    fn later_values_win_and_lists_unite() {
        let layers = [
            layer("a", "[filesystem]\nhide = ['/x', '/y']\n[syscalls]\ndeny = ['bpf']\n[limits]\ncpus = 1"),
            layer(
                "b",
                "[filesystem]\nhide = ['/y', '/z']\n[syscalls]\nallow = ['bpf']\n[limits]\ncpus = 'none'",
            ),
        ];
        let merged = merge(ProfileName::Restrictive, &layers).unwrap();
        assert_eq!(merged.policy.filesystem.hide, ["/x", "/y", "/z"].map(PathBuf::from));
        assert!(merged.policy.syscalls.deny.contains("bpf"));
        assert_eq!(merged.policy.limits.cpus, None);
        assert_eq!(merged.origins.of_item("filesystem.hide", "/y"), &Origin::flag("a"));
        assert_eq!(merged.origins.of_item("filesystem.hide", "/z"), &Origin::flag("b"));
        assert_eq!(merged.origins.of("filesystem.hide"), &Origin::flag("b"));
    }

    #[test]
    fn only_what_a_caller_set_was_asked_for() {
        let merged = merge(
            ProfileName::Restrictive,
            &[layer("--memory", "profile = 'restrictive'\n[limits]\nmemory = '1G'\n[network]\ndeny = ['x']")],
        )
        .unwrap();
        let asked: Vec<_> = Clause::ALL.into_iter().filter(|clause| merged.origins.asked(*clause)).collect();
        assert_eq!(asked, [Clause::Network, Clause::LimitMemory]);
    }

    #[test]
    fn what_grants_turns_the_network_on_unless_off_is_said_there_or_later() {
        let mode = |layers: &[&str]| {
            let layers: Vec<_> =
                layers.iter().map(|text| layer(text, &format!("[network]\n{text}"))).collect();
            let merged = merge(ProfileName::Moderate, &layers).unwrap();
            format!("{} {}", merged.policy.network.mode, merged.origins.of("network.mode"))
        };
        assert_eq!(mode(&["allow = ['a.example']"]), "allow allow = ['a.example']");
        assert_eq!(mode(&["local = [80]"]), "allow local = [80]");
        assert_eq!(mode(&["mode = 'off'", "local = [80]"]), "allow local = [80]");
        assert_eq!(mode(&["local = [80]", "mode = 'off'"]), "off mode = 'off'");
        assert_eq!(mode(&["mode = 'off'\nlocal = [80]"]), "off mode = 'off'\nlocal = [80]");
        assert_eq!(mode(&["mode = 'open'", "allow = ['a.example']"]), "open mode = 'open'");
        for quiet in [
            "deny = ['a.example']",
            "private = ['10.0.0.0/8']",
            "no_sni = ['a.example']",
            "groups = { a = ['a.example'] }",
        ] {
            assert_eq!(mode(&[quiet]), "off profile moderate");
        }
    }

    #[test]
    fn groups_unite_and_the_later_secret_of_a_name_wins() {
        let layers = [
            layer(
                "one",
                "[network]\nmode = 'open'\ngroups = { a = ['x.example', 'y.example'] }\nsecrets = [{ name = 'A', from = 'env:A', hosts = ['x.example'] }]",
            ),
            layer(
                "two",
                "[network]\ngroups = { a = ['y.example', 'z.example'] }\nsecrets = [{ name = 'A', from = 'store:A', hosts = ['x.example'] }]",
            ),
        ];
        let merged = merge(ProfileName::Moderate, &layers).unwrap();
        let rows: Vec<String> = merged
            .rows()
            .iter()
            .filter(|row| ["network.groups", "network.secrets"].contains(&row.clause.as_str()))
            .map(|row| format!("{} ({})", row.value, row.origin))
            .collect();
        assert_eq!(
            rows,
            ["@a x.example (one)", "@a y.example (one)", "@a z.example (two)", "A=store:A@x.example (two)"]
        );
    }

    #[test]
    fn a_layer_made_in_code_is_checked_too() {
        let mut bad = Layer::default();
        bad.environment.set.insert("A=B".into(), "1".into());
        let error = merge(ProfileName::Moderate, &[(Origin::flag("--env"), bad)]).unwrap_err();
        insta::assert_snapshot!(error, @"--env: `environment.set`: `A=B` is not a variable's name, it has `=` or a NUL byte");
    }
}
