//! A ceiling: the most that a request may ask for, as a policy. What a profile has beyond it is lowered in silence, since
//! nobody asked for it; what a request asks for beyond it is refused, clause by clause.

use crate::bound::{Bound, Cpus};
use crate::layer::Layer;
use crate::loosen::{Loosening, loosens};
use crate::model::{NetworkMode, Policy};
use crate::profiles::profile;

/// The layers to merge, the request's own last, so that nothing in them goes beyond `ceiling`; or what did.
///
/// Variables that the request sets are its own affair: they are for its own command. Its workspace is whoever's who makes
/// the sandbox, and may not be named at all.
pub fn capped(ceiling: &Policy, request: Layer) -> Result<[Layer; 2], Vec<Loosening>> {
    let mut asked = request.clone();
    asked.environment.set.clear();
    let found = loosens(ceiling, &asked);
    if found.is_empty() { Ok([lowered(ceiling, &request), request]) } else { Err(found) }
}

/// The same where a person allows a network beyond the ceiling, and nothing else: for any other clause what goes beyond it.
pub fn capped_but_network(ceiling: &Policy, request: Layer) -> Result<[Layer; 2], Vec<Loosening>> {
    match capped(ceiling, request.clone()) {
        Err(found) if found.iter().all(|one| one.clause.starts_with("network.")) => {
            Ok([lowered(ceiling, &request), request])
        }
        capped => capped,
    }
}

/// What the request's profile has beyond the ceiling, taken back.
fn lowered(ceiling: &Policy, request: &Layer) -> Layer {
    let base = profile(request.profile.unwrap_or(ceiling.profile));
    let mut layer = Layer { profile: Some(base.profile), ..Layer::default() };
    layer.provider = (ceiling.provider != base.provider).then_some(ceiling.provider);
    // Whoever names no image gets the ceiling's, and not the host's own directories.
    layer.image.clone_from(&ceiling.image);
    layer.runtime = ceiling.runtime.clone();
    let (most, had, to) = (&ceiling.filesystem, &base.filesystem, &mut layer.filesystem);
    to.host = (had.host > most.host).then_some(most.host);
    to.toolchains = (had.toolchains && !most.toolchains).then_some(false);
    to.tmp = (had.tmp > most.tmp).then_some(most.tmp);
    to.hide = most.hide.clone();
    to.protect = most.protect.iter().cloned().collect();

    let (most, had, to) = (&ceiling.network, &base.network, &mut layer.network);
    to.mode = (had.mode > most.mode).then_some(most.mode);
    // Without this, a grant of the request's would not lift a mode that was lowered to `off` here.
    if to.mode == Some(NetworkMode::Off)
        && !(request.network.allow.is_empty() && request.network.local.is_empty())
    {
        to.mode = None;
    }
    to.deny = most.deny.clone();
    to.http = most.http.clone();
    to.groups = most.groups.clone();

    let (most, had, to) = (&ceiling.limits, &base.limits, &mut layer.limits);
    to.cpus = least(most.cpus, had.cpus).map(|bound| bound.map(Cpus));
    to.memory = least(most.memory, had.memory);
    to.processes = least(most.processes, had.processes);
    to.disk = least(most.disk, had.disk);
    to.open_files = least(most.open_files, had.open_files);
    to.output = least(most.output, had.output);
    to.wall_time = least(most.wall_time, had.wall_time);
    to.connections = least(most.connections, had.connections);
    to.bandwidth = least(most.bandwidth, had.bandwidth);

    layer.syscalls.deny = ceiling.syscalls.deny.iter().cloned().collect();
    layer
}

/// The ceiling's limit, where there is none or a higher one.
fn least<T: PartialOrd>(most: Option<T>, had: Option<T>) -> Option<Bound<T>> {
    let most = most?;
    match had {
        Some(had) if had <= most => None,
        _ => Some(Bound::At(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Origin, ProfileName, merge};

    fn ceiling(text: &str) -> Policy {
        let layer = Layer::from_toml(text).unwrap();
        merge(ProfileName::Moderate, &[(Origin::flag("ceiling"), layer)]).unwrap().policy
    }

    fn merged(ceiling: &Policy, text: &str) -> Result<Policy, Vec<String>> {
        let layers = capped(ceiling, Layer::from_toml(text).unwrap())
            .map_err(|found| found.iter().map(|one| one.clause.to_owned()).collect::<Vec<_>>())?;
        let layers = layers.map(|layer| (Origin::flag("request"), layer));
        Ok(merge(ProfileName::Moderate, &layers).unwrap().policy)
    }

    #[test]
    fn what_nobody_asked_for_is_lowered() {
        let most = ceiling(
            "[filesystem]\ntoolchains = false\nprotect = ['docs/']\nhide = ['/srv/secret']\n[limits]\nmemory = '64M'\nwall_time = '10s'\n\
             [network]\ndeny = ['evil.example']",
        );
        let policy = merged(&most, "").unwrap();
        assert_eq!(policy.limits.memory, most.limits.memory);
        assert_eq!(policy.limits.wall_time, most.limits.wall_time);
        assert!(!policy.filesystem.toolchains);
        assert_eq!(policy.filesystem.hide, most.filesystem.hide);
        assert_eq!(policy.filesystem.protect, most.filesystem.protect);
        assert_eq!(policy.network.deny, most.network.deny);
        let tighter = merged(&most, "profile = 'restrictive'\n[limits]\nmemory = '16M'").unwrap();
        assert_eq!(tighter.limits.memory.unwrap().bytes(), 16 << 20);
        assert_eq!(tighter.profile, ProfileName::Restrictive);
    }

    #[test]
    fn what_was_asked_for_beyond_it_is_refused() {
        let most = ceiling("[network]\nallow = ['*.example.org']\n[limits]\nmemory = '64M'");
        for (text, clause) in [
            ("profile = 'permissive'", "profile"),
            ("waive = ['network']", "waive"),
            ("image = 'any'", "image"),
            ("[filesystem]\nhost = 'all'", "filesystem.host"),
            ("[filesystem]\nread = ['/srv']", "filesystem.read"),
            ("[filesystem]\nwrite = ['/srv']", "filesystem.write"),
            ("[filesystem]\nworkspace = '/srv'", "filesystem.workspace"),
            ("[filesystem]\nunprotect = ['.git/hooks']", "filesystem.unprotect"),
            ("[network]\nmode = 'open'", "network.mode"),
            ("[network]\nallow = ['example.com']", "network.allow"),
            ("[network]\nallow = ['a.example.org:22']", "network.allow"),
            ("[network]\nlocal = [5432]", "network.local"),
            ("[network]\nprivate = ['10.0.0.0/8']", "network.private"),
            (
                "[[network.secrets]]\nname = 'A'\nfrom = 'env:HOME'\nhosts = ['a.example.org']",
                "network.secrets",
            ),
            ("[limits]\nmemory = '65M'", "limits.memory"),
            ("[limits]\nmemory = 'none'", "limits.memory"),
            ("[syscalls]\nallow = ['ptrace']", "syscalls.allow"),
            ("[syscalls]\ncompat = true", "syscalls.compat"),
            ("[environment]\npass = ['AWS_SECRET_ACCESS_KEY']", "environment.pass"),
        ] {
            assert_eq!(merged(&most, text).unwrap_err(), [clause], "{text}");
        }
        let granted =
            merged(&most, "[network]\nallow = ['a.example.org']\n[environment]\nset = { A = 'b' }").unwrap();
        assert_eq!(granted.network.mode, NetworkMode::Allow);
        assert_eq!(granted.environment.set["A"], "b");
    }

    #[test]
    fn a_ceiling_has_one_image_and_everybody_gets_it() {
        let most = ceiling("image = 'python'");
        assert_eq!(merged(&most, "").unwrap().image.as_deref(), Some("python"));
        assert_eq!(merged(&most, "image = 'python'").unwrap().image.as_deref(), Some("python"));
        assert_eq!(merged(&most, "image = 'other'").unwrap_err(), ["image"]);
        assert_eq!(merged(&ceiling(""), "").unwrap().image, None);
    }

    #[test]
    fn a_network_that_was_lowered_to_off_can_still_be_granted_a_host() {
        let layer =
            Layer::from_toml("profile = 'permissive'\n[network]\nmode = 'allow'\nallow = ['example.org']")
                .unwrap();
        let most = merge(ProfileName::Moderate, &[(Origin::flag("ceiling"), layer)]).unwrap().policy;
        assert_eq!(merged(&most, "profile = 'permissive'").unwrap().network.mode, NetworkMode::Allow);
        assert!(merged(&most, "profile = 'permissive'").unwrap().network.allow.is_empty());
        let granted = merged(&most, "profile = 'permissive'\n[network]\nallow = ['example.org']").unwrap();
        assert_eq!(granted.network.allow.len(), 1);
    }
}
