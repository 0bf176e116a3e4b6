//! The policy of a user's own sandboxes when somebody else, a model, orders them: what the user's files and flags come to is
//! the policy where nothing more is said, and the ceiling of whatever is asked for.

use ringfence_policy::{Bound, Compat, Layer, Origin, Policy, Workspace, capped, capped_but_network};
use ringfence_sandbox::{AttachAs, Attached, Attachment, WORKSPACE};

use super::order::OwnPolicy;
use crate::client_rules::{RuleRefusal, Tightening};
use crate::config::{PolicySpec, load_policy};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// What the user said, and what their files add, or what is wrong with it.
pub fn check_own_policy(places: &Places, own: &OwnPolicy) -> Result<Policy, ServiceError> {
    Ok(load_policy(places, spec(own)?)?.merged.policy)
}

/// What somebody else wants of a user's own sandbox.
#[derive(Debug, Default)]
pub(super) struct OwnWish {
    pub(super) layers: Vec<Layer>,
    pub(super) compat: Option<Compat>,
    /// The user allows the network of it.
    pub(super) granted: bool,
}

/// The policy for what is asked for of a user's own, or why that goes too far.
pub(super) fn policy(places: &Places, own: &OwnPolicy, asked: OwnWish) -> Result<OwnSpec, ServiceError> {
    let (spec, attached) = tightened(places, own)?;
    Ok(OwnSpec { policy: wished(places, spec, asked)?, attached })
}

/// The policy of an order, and what comes with it.
#[derive(Debug)]
pub(super) struct OwnSpec {
    pub(super) policy: PolicySpec,
    pub(super) attached: Attached,
}

/// What the user said, less what they deny their client's own file tools.
fn tightened(places: &Places, own: &OwnPolicy) -> Result<(PolicySpec, Attached), ServiceError> {
    let mut spec = spec(own)?;
    let mut attached = Attached::default();
    let Some(files) = &own.files else { return Ok((spec, attached)) };
    // No program is asked for its registries for this.
    let bare = PolicySpec { registries: Vec::new(), ..spec.clone() };
    let had = load_policy(places, bare)?.merged.policy;
    let refused =
        |refusal: RuleRefusal| ServiceError::new(ErrorCode::BadPolicy, refusal.to_string(), refusal.hint());
    let Tightening { mut layer, read_only } = files.tighten(places, &had).map_err(refused)?;
    if let Some(workspace) = read_only {
        attached.directories.push(Attachment {
            source: workspace.clone(),
            target: WORKSPACE.into(),
            attach_as: AttachAs::Read,
            expected: None,
        });
        layer.filesystem.read.push(workspace);
    }
    spec.flags.push((Origin::flag("--rules-of"), layer));
    Ok((spec, attached))
}

/// The policy for what is asked for, or why that goes too far.
fn wished(places: &Places, spec: PolicySpec, asked: OwnWish) -> Result<PolicySpec, ServiceError> {
    let OwnWish { layers, compat, granted } = asked;
    let mut asked = layers.into_iter().reduce(joined).unwrap_or_default();
    let plain = Layer { environment: Default::default(), limits: Default::default(), ..asked.clone() };
    let ceiling = load_policy(places, spec.clone())?;
    let client = compat.unwrap_or_default();
    if plain == Layer::default() && client == Compat::Native {
        return Ok(with_time_and_variables(spec, &ceiling.merged.policy, asked));
    }
    let ceiling = ceiling.merged.policy;
    let client = client.layer_within(&ceiling);
    asked.profile = asked.profile.or(client.profile);
    let asked = completed(&ceiling, asked);
    let layers = if granted { capped_but_network(&ceiling, asked) } else { capped(&ceiling, asked) };
    let [lowered, asked] = layers.map_err(|found| beyond(&found))?;
    let mut flags: Vec<(Origin, Layer)> =
        [lowered, client, asked].into_iter().map(|layer| (Origin::flag("request"), layer)).collect();
    // Where it works is the user's affair, and nobody else can name it.
    let mut ours = Layer::default();
    ours.filesystem.workspace = Some(match &ceiling.filesystem.workspace {
        Workspace::Current => Workspace::Path(places.current.clone()),
        named => named.clone(),
    });
    flags.push((Origin::flag("ringfence mcp"), ours));
    Ok(PolicySpec { flags, alone: true, ..PolicySpec::default() })
}

/// What the user said, as `ringfence run` would take it.
fn spec(own: &OwnPolicy) -> Result<PolicySpec, ServiceError> {
    let registries = own.registries.iter().map(|name| name.parse()).collect::<Result<_, String>>();
    Ok(PolicySpec {
        file: own.file.clone(),
        flags: own.flags.iter().map(|(flag, layer)| (Origin::flag(flag), layer.clone())).collect(),
        registries: registries
            .map_err(|why| ServiceError::new(ErrorCode::BadRequest, why, "name one of them"))?,
        variables_tighten: own.variables_tighten,
        ..PolicySpec::default()
    })
}

/// A later word goes before an earlier one; only what requests are made of is looked at.
fn joined(mut first: Layer, then: Layer) -> Layer {
    first.profile = then.profile.or(first.profile);
    first.image = then.image.or(first.image);
    first.network.mode = then.network.mode.or(first.network.mode);
    first.network.allow.extend(then.network.allow);
    first.limits.wall_time = then.limits.wall_time.or(first.limits.wall_time);
    first.environment.set.extend(then.environment.set);
    first
}

fn with_time_and_variables(mut spec: PolicySpec, ceiling: &Policy, asked: Layer) -> PolicySpec {
    let mut layer = Layer::default();
    layer.environment.set = asked.environment.set;
    layer.limits.wall_time = least(ceiling, asked.limits.wall_time);
    spec.flags.push((Origin::flag("request"), layer));
    spec
}

/// Nobody asked for the time that a call has by default: it is lowered in silence.
fn least(
    ceiling: &Policy,
    asked: Option<Bound<ringfence_policy::Span>>,
) -> Option<Bound<ringfence_policy::Span>> {
    match (asked, ceiling.limits.wall_time) {
        (Some(Bound::At(asked)), Some(most)) if asked > most => Some(Bound::At(most)),
        (asked, _) => asked,
    }
}

/// Another network in the user's own surroundings: the paths and variables that they show stay. With a profile of its own
/// the request begins from that, and gets nothing more.
fn completed(ceiling: &Policy, mut asked: Layer) -> Layer {
    asked.limits.wall_time = least(ceiling, asked.limits.wall_time);
    if asked.profile.is_none() {
        asked.profile = Some(ceiling.profile);
        asked.filesystem.read = ceiling.filesystem.read.clone();
        asked.filesystem.write = ceiling.filesystem.write.clone();
        asked.environment.pass = ceiling.environment.pass.iter().cloned().collect();
        let mut set = ceiling.environment.set.clone();
        set.append(&mut asked.environment.set);
        asked.environment.set = set;
    }
    asked
}

fn beyond(found: &[ringfence_policy::Loosening]) -> ServiceError {
    let found: Vec<String> = found.iter().map(|one| format!("{}: {}", one.clause, one.detail)).collect();
    ServiceError::new(
        ErrorCode::BeyondCeiling,
        format!("this is more than the user's own policy allows: {}", found.join("; ")),
        "leave it out, or ask the user to allow it in ringfence.toml or with a flag of `ringfence mcp`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_policy::{HostRule, NetworkMode, ProfileName};

    fn places(root: &std::path::Path) -> Places {
        let mut places = Places::from_env().unwrap();
        places.current = root.to_path_buf();
        places.home = root.join("home");
        places.system_config = root.join("none");
        places.user_config = root.join("none");
        places.state = crate::StateDir::new(root.join("state"));
        (places.profile, places.policy) = (None, None);
        places
    }

    fn merged(own: &OwnPolicy, asked: &str) -> Result<Policy, ServiceError> {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let asked = OwnWish { layers: vec![Layer::from_toml(asked).unwrap()], ..OwnWish::default() };
        of(&places, own, asked)
    }

    fn of(places: &Places, own: &OwnPolicy, asked: OwnWish) -> Result<Policy, ServiceError> {
        Ok(load_policy(places, policy(places, own, asked)?.policy)?.merged.policy)
    }

    fn own(text: &str) -> OwnPolicy {
        OwnPolicy { flags: vec![("--flag".into(), Layer::from_toml(text).unwrap())], ..OwnPolicy::default() }
    }

    #[test]
    fn without_a_wish_it_is_the_users_policy() {
        let user = own("[network]\nallow = ['example.org']\n[filesystem]\nread = ['/srv']");
        let policy = merged(&user, "[environment]\nset = { A = 'b' }\n[limits]\nwall_time = '30s'").unwrap();
        assert_eq!(policy.network.allow, [HostRule::parse("example.org").unwrap()]);
        assert_eq!(policy.filesystem.read, [std::path::PathBuf::from("/srv")]);
        assert_eq!(policy.environment.set["A"], "b");
        assert_eq!(policy.limits.wall_time.unwrap().duration().as_secs(), 30);
    }

    #[test]
    fn a_wish_may_tighten() {
        let user = own("[network]\nallow = ['*.example.org']\n[filesystem]\nread = ['/srv']");
        let off = merged(&user, "[network]\nmode = 'off'").unwrap();
        assert_eq!(off.network.mode, NetworkMode::Off);
        assert_eq!(off.filesystem.read, [std::path::PathBuf::from("/srv")]);
        let narrow = merged(&user, "[network]\nallow = ['a.example.org']").unwrap();
        assert_eq!(narrow.network.allow, [HostRule::parse("a.example.org").unwrap()]);
        let restrictive = merged(&user, "profile = 'restrictive'").unwrap();
        assert_eq!(restrictive.profile, ProfileName::Restrictive);
        assert!(restrictive.filesystem.read.is_empty() && restrictive.network.allow.is_empty());
        let short = merged(&own("[limits]\nwall_time = '5s'"), "[limits]\nwall_time = '30s'").unwrap();
        assert_eq!(short.limits.wall_time.unwrap().duration().as_secs(), 5);
    }

    #[test]
    fn a_wish_may_not_loosen() {
        let user = own("[network]\nallow = ['a.example.org']");
        for asked in [
            "profile = 'permissive'",
            "[network]\nmode = 'open'",
            "[network]\nallow = ['b.example.org']",
            "[network]\nallow = ['a.example.org:22']",
        ] {
            assert_eq!(merged(&user, asked).unwrap_err().code, ErrorCode::BeyondCeiling, "{asked}");
        }
    }

    #[test]
    fn a_network_that_the_user_allows_is_there_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let user = own("[network]\nallow = ['a.example.org']\ndeny = ['x.example.org']");
        let granted = |asked: &str| {
            let layers = vec![Layer::from_toml(asked).unwrap()];
            of(&places, &user, OwnWish { layers, granted: true, ..OwnWish::default() })
        };
        let policy = granted("[network]\nallow = ['b.example.org']").unwrap();
        assert_eq!(policy.network.allow, [HostRule::parse("b.example.org").unwrap()]);
        assert_eq!(policy.network.deny, [HostRule::parse("x.example.org").unwrap()]);
        assert_eq!(granted("[network]\nmode = 'open'").unwrap().network.mode, NetworkMode::Open);
        for asked in ["profile = 'permissive'", "[network]\nmode = 'open'\n[filesystem]\nhost = 'all'"] {
            assert_eq!(granted(asked).unwrap_err().code, ErrorCode::BeyondCeiling, "{asked}");
        }
    }

    #[test]
    fn a_clients_defaults_are_beneath_the_users() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let with = |user: &OwnPolicy, compat, asked: &str| {
            let layers = vec![Layer::from_toml(asked).unwrap()];
            of(&places, user, OwnWish { layers, compat: Some(compat), granted: false })
        };
        let user = own("[network]\nallow = ['a.example.org']\n[filesystem]\nworkspace = 'private'");
        let codex = with(&user, Compat::Codex, "").unwrap();
        assert!(codex.filesystem.protect.contains(".git/"), "{:?}", codex.filesystem.protect);
        assert_eq!(codex.network.mode, NetworkMode::Off);
        assert_eq!(codex.filesystem.host, ringfence_policy::HostFiles::System);
        assert_eq!(codex.filesystem.workspace, Workspace::Private);
        let reaches = with(&user, Compat::Codex, "[network]\nallow = ['a.example.org']").unwrap();
        assert_eq!(reaches.network.mode, NetworkMode::Allow);
        assert!(with(&user, Compat::Codex, "[network]\nmode = 'open'").is_err());
        let low = with(&own("profile = 'restrictive'"), Compat::ClaudeCode, "").unwrap();
        assert_eq!(low.profile, ProfileName::Restrictive);
        assert_eq!(with(&user, Compat::Native, "").unwrap().network.mode, NetworkMode::Allow);
    }

    #[test]
    fn the_workspace_stays_the_users() {
        let private = own("[filesystem]\nworkspace = 'private'");
        for asked in ["", "profile = 'restrictive'"] {
            assert_eq!(merged(&private, asked).unwrap().filesystem.workspace, Workspace::Private);
        }
    }
}
