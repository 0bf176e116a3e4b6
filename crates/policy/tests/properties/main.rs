//! What holds for every layer: reading never panics, writing loses nothing, and a layer without loosenings gives
//! nothing more. The oracle for "gives nothing more" is written here, apart from `loosens`.

mod actions;
mod network;

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use ringfence_policy::{
    Bound, ByteSize, Clause, Cpus, EnvironmentLayer, FilesystemLayer, HostFiles, IdentityLayer, Layer,
    LimitsLayer, Merged, Origin, Policy, ProfileName, ProviderName, RuntimeName, Span, SyscallProfile,
    SyscallsLayer, Workspace, loosens, merge, profile, project_loosens, protected,
};

use crate::network::{network, reaches_no_more};

fn pick<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    proptest::sample::select(values.to_vec())
}

fn bound<T: Clone + std::fmt::Debug + 'static>(
    values: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Option<Bound<T>>> {
    of(prop_oneof![4 => values.prop_map(Bound::At), 1 => Just(Bound::Unlimited)])
}

/// Powers of two around the profiles' values, so that layers fall on both sides of them, and some odd ones.
fn size() -> impl Strategy<Value = ByteSize> + 'static {
    prop_oneof![(10u32..42).prop_map(|n| ByteSize(1 << n)), (1u64..u64::MAX / 2).prop_map(ByteSize)]
}

fn paths() -> impl Strategy<Value = Vec<PathBuf>> {
    let path = prop_oneof![
        pick(&["/srv/a", "/srv/b", "~/c", "d/./e"]).prop_map(PathBuf::from),
        "[^\0~]{1,12}".prop_map(PathBuf::from)
    ];
    vec(path, 0..3)
}

fn filesystem() -> impl Strategy<Value = FilesystemLayer> {
    let workspace = pick(&[Workspace::Private, Workspace::Current, Workspace::Path("/srv/work".into())]);
    let names: Vec<String> = protected().iter().map(|p| p.name.to_owned()).collect();
    (
        of(pick(&[HostFiles::System, HostFiles::All])),
        of(any::<bool>()),
        of(workspace),
        paths(),
        paths(),
        paths(),
        of(size()),
        vec(pick(&names), 0..2),
        vec(pick(&["docs".to_owned(), "a/b/".to_owned()]), 0..2),
    )
        .prop_map(|(host, toolchains, workspace, read, write, hide, tmp, unprotect, protect)| {
            FilesystemLayer { host, toolchains, workspace, read, write, hide, tmp, unprotect, protect }
        })
}

fn limits() -> impl Strategy<Value = LimitsLayer> {
    let count = || prop_oneof![(0u32..20).prop_map(|n| 1 << n), 1..u32::MAX];
    (
        // Hundredths: serde_json reads some longer fractions back one bit off.
        bound((1u32..6400).prop_map(|n| Cpus(f64::from(n) / 100.0))),
        bound(size()),
        bound(count()),
        bound(size()),
        bound(count()),
        bound(size()),
        bound((1u64..100_000_000).prop_map(Span::from_millis)),
        bound(count()),
        bound(size()),
    )
        .prop_map(
            |(cpus, memory, processes, disk, open_files, output, wall_time, connections, bandwidth)| {
                LimitsLayer {
                    cpus,
                    memory,
                    processes,
                    disk,
                    open_files,
                    output,
                    wall_time,
                    connections,
                    bandwidth,
                }
            },
        )
}

fn environment() -> impl Strategy<Value = EnvironmentLayer> {
    let pass =
        pick(&["PATH", "LC_ALL", "LC_*", "L*", "CARGO_HOME", "AWS_*", "AWS_PROFILE"]).prop_map(str::to_owned);
    (btree_map("[A-Z]{1,3}", "[^\0]{0,8}", 0..2), vec(pass, 0..2))
        .prop_map(|(set, pass)| EnvironmentLayer { set, pass })
}

fn layer() -> impl Strategy<Value = Layer> {
    let waivable: Vec<Clause> = Clause::ALL.into_iter().filter(|c| c.waivable()).collect();
    let runtime = pick(&["crun", "runc"]).prop_map(|name| name.parse::<RuntimeName>().unwrap());
    let calls = || vec(pick(&["ptrace", "socket", "bpf"]).prop_map(str::to_owned), 0..2);
    (
        (of(pick(&ProfileName::ALL)), of(pick(&ProviderName::ALL)), of(pick(&["one", "two"])), of(runtime)),
        vec(pick(&waivable), 0..2),
        filesystem(),
        network(),
        limits(),
        (of(Just(SyscallProfile::Default)), calls(), calls(), of(any::<bool>()))
            .prop_map(|(profile, allow, deny, compat)| SyscallsLayer { profile, allow, deny, compat }),
        environment(),
        (of("[a-z_][a-z0-9_-]{0,8}"), of("[a-z0-9-]{1,8}"))
            .prop_map(|(user, hostname)| IdentityLayer { user, hostname }),
    )
        .prop_map(
            |(
                (profile, provider, image, runtime),
                waive,
                filesystem,
                network,
                limits,
                syscalls,
                environment,
                identity,
            )| {
                Layer {
                    profile,
                    provider,
                    image: image.map(str::to_owned),
                    runtime,
                    waive,
                    filesystem,
                    network,
                    limits,
                    syscalls,
                    environment,
                    identity,
                }
            },
        )
}

/// A few random keys of a layer: most whole layers loosen something, and a property needs cases on both sides.
fn small_layer() -> impl Strategy<Value = Layer> {
    (layer(), vec(proptest::bool::weighted(0.1), 60)).prop_map(|(layer, keep)| {
        let mut keep = keep.into_iter();
        let mut tree = serde_json::to_value(&layer).unwrap();
        let top = tree.as_object_mut().unwrap();
        for key in ["profile", "provider", "runtime", "waive"] {
            if keep.next() == Some(false) {
                top.remove(key);
            }
        }
        for section in top.values_mut().filter_map(|value| value.as_object_mut()) {
            section.retain(|_, _| keep.next() == Some(true));
        }
        serde_json::from_value(tree).unwrap()
    })
}

/// Does `after` let a sandbox do nothing that `before` did not? An independent reading of the policy.
fn gives_no_more(after: &Policy, before: &Policy) -> Result<(), String> {
    fn lower<T: PartialOrd>(after: Option<T>, before: Option<T>) -> bool {
        match (after, before) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(after), Some(before)) => after <= before,
        }
    }
    let mut checks: Vec<(&str, bool)> = Vec::new();
    checks.push(("runtime", after.runtime == before.runtime));
    let (a, b) = (&after.filesystem, &before.filesystem);
    checks.push(("host", a.host == b.host || a.host == HostFiles::System));
    checks.push(("toolchains", !a.toolchains || b.toolchains));
    checks.push(("workspace", a.workspace == Workspace::Private || a.workspace == b.workspace));
    checks.push(("read", a.read.iter().all(|p| b.read.contains(p))));
    checks.push(("write", a.write.iter().all(|p| b.write.contains(p))));
    checks.push(("hide", b.hide.iter().all(|p| a.hide.contains(p))));
    checks.push(("tmp", a.tmp <= b.tmp));
    checks.push(("unprotect", a.unprotect.is_subset(&b.unprotect)));
    checks.extend(reaches_no_more(after, before));
    let (a, b) = (&after.limits, &before.limits);
    checks.push(("cpus", lower(a.cpus, b.cpus)));
    checks.push(("memory", lower(a.memory, b.memory)));
    checks.push(("processes", lower(a.processes, b.processes)));
    checks.push(("disk", lower(a.disk, b.disk)));
    checks.push(("open_files", lower(a.open_files, b.open_files)));
    checks.push(("output", lower(a.output, b.output)));
    checks.push(("wall_time", lower(a.wall_time, b.wall_time)));
    checks.push(("connections", lower(a.connections, b.connections)));
    checks.push(("bandwidth", lower(a.bandwidth, b.bandwidth)));
    let (a, b) = (&after.syscalls, &before.syscalls);
    checks.push(("syscalls.allow", a.allow.is_subset(&b.allow)));
    checks.push(("syscalls.deny", b.deny.is_subset(&a.deny)));
    checks.push(("compat", !a.compat || b.compat));
    let (a, b) = (&after.environment, &before.environment);
    checks.push(("set", a.set == b.set));
    let names = ["PATH", "LC_ALL", "LC_X", "LANG", "LD_PRELOAD", "CARGO_HOME", "AWS_PROFILE", "AWS_X", "L"];
    checks.push(("pass", names.iter().all(|n| !a.passes(n) || b.passes(n))));
    checks.push(("waived", after.waived.is_subset(&before.waived)));
    match checks.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((what, _)) => Err((*what).to_owned()),
    }
}

/// Groups that rules name are in a layer below, so that most layers merge; a secret for a host that no rule grants
/// still does not.
fn merged(base: ProfileName, layers: &[(Origin, Layer)]) -> Option<Merged> {
    merge(base, &with_groups(layers)).ok()
}

fn with_groups(layers: &[(Origin, Layer)]) -> Vec<(Origin, Layer)> {
    let groups = Layer::from_toml("[network.groups]\nwork = ['example.org']\nhome = []").unwrap();
    let mut all = vec![(Origin::file("groups.toml", ""), groups)];
    all.extend_from_slice(layers);
    all
}

#[test]
fn profiles_go_from_tight_to_loose() {
    for pair in ProfileName::ALL.windows(2) {
        assert_eq!(gives_no_more(&profile(pair[0]), &profile(pair[1])), Ok(()));
        assert!(gives_no_more(&profile(pair[1]), &profile(pair[0])).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_never_panics(text in "\\PC{0,200}", bytes in vec(any::<u8>(), 0..200)) {
        let raw = String::from_utf8_lossy(&bytes);
        for text in [text.as_str(), &raw] {
            let _ = Layer::from_toml(text);
            let _ = Layer::from_json(text);
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<Span>();
            let _ = text.parse::<Clause>();
        }
    }

    #[test]
    fn reading_a_damaged_policy_never_panics(layer in layer(), at in any::<prop::sample::Index>(), with in "\\PC{0,3}") {
        let mut text: Vec<char> = layer.to_toml().unwrap().chars().collect();
        if !text.is_empty() {
            let at = at.index(text.len());
            text.splice(at..=at, with.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = Layer::from_toml(&text) {
            prop_assert!(!error.reason.is_empty() && !error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn writing_loses_nothing(layer in layer()) {
        let toml = layer.to_toml().unwrap();
        prop_assert_eq!(&Layer::from_toml(&toml).unwrap(), &layer, "{}", toml);
        let json = serde_json::to_string(&layer).unwrap();
        prop_assert_eq!(&Layer::from_json(&json).unwrap(), &layer, "{}", json);
    }

    #[test]
    fn units_read_back(n in any::<u64>(), shift in 0u32..64) {
        let size = ByteSize(n >> shift);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
        let span = Span(std::time::Duration::from_nanos(n >> shift));
        prop_assert_eq!(span.to_string().parse(), Ok(span));
    }

    #[test]
    fn no_loosening_gives_no_more(base in pick(&ProfileName::ALL), user in layer(), project in small_layer(), flags in small_layer()) {
        let user = (Origin::file("config.toml", "user"), user);
        let project = (Origin::file("ringfence.toml", "project"), project);
        if let Some(before) = merged(base, std::slice::from_ref(&user))
            && let Some(after) = merged(base, &[user.clone(), project.clone()])
            && loosens(&before.policy, &project.1).is_empty()
        {
            prop_assert_eq!(gives_no_more(&after.policy, &before.policy), Ok(()));
        }
        let flags = (Origin::flag("flags"), flags);
        if let Some(before) = merged(base, &[user.clone(), flags.clone()])
            && let Some(after) = merged(base, &[user.clone(), project.clone(), flags.clone()])
            && project_loosens(base, &with_groups(&[user, project, flags]), 2).unwrap().is_empty()
        {
            prop_assert_eq!(gives_no_more(&after.policy, &before.policy), Ok(()));
        }
    }

    /// The order of the profiles holds whatever layers are put on them.
    #[test]
    fn merging_keeps_the_order_of_the_profiles(mut user in layer(), mut flags in layer()) {
        (user.profile, flags.profile) = (None, None);
        let layers = [(Origin::file("a.toml", ""), user), (Origin::flag("--b"), flags)];
        for pair in ProfileName::ALL.windows(2) {
            if let (Some(tight), Some(loose)) = (merged(pair[0], &layers), merged(pair[1], &layers)) {
                prop_assert_eq!(gives_no_more(&tight.policy, &loose.policy), Ok(()));
            }
        }
    }

    /// A layer that only closes can be put on anything.
    #[test]
    fn denying_gives_no_more(base in pick(&ProfileName::ALL), user in layer(), deny in network()) {
        let user = (Origin::file("a.toml", ""), user);
        let mut closing = Layer::default();
        closing.network.deny = deny.deny;
        if let Some(before) = merged(base, std::slice::from_ref(&user)) {
            prop_assert!(loosens(&before.policy, &closing).is_empty());
            let after = merged(base, &[user, (Origin::flag("--deny-host"), closing)]).unwrap();
            prop_assert_eq!(gives_no_more(&after.policy, &before.policy), Ok(()));
        }
    }

    #[test]
    fn merging_is_in_order_and_every_row_has_an_origin(base in pick(&ProfileName::ALL), a in layer(), b in layer()) {
        let layers = [(Origin::file("a.toml", ""), a), (Origin::flag("--b"), b)];
        let Some(merged) = merged(base, &layers) else { return Ok(()) };
        let mut again = with_groups(&layers);
        again.extend_from_slice(&layers[1..]);
        prop_assert_eq!(&merge(base, &again).unwrap().policy, &merged.policy, "a layer twice is a layer once");
        let known = [&format!("profile {}", merged.policy.profile), "groups.toml", "a.toml", "--b"];
        let known: BTreeMap<String, ()> = known.into_iter().map(|name| (name.to_owned(), ())).collect();
        for row in merged.rows() {
            prop_assert!(known.contains_key(&row.origin), "{row:?}");
        }
        prop_assert_eq!(merged.origins.asked(Clause::LimitMemory), layers.iter().any(|(_, l)| l.limits.memory.is_some()));
    }
}
